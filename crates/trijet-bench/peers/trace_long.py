"""A training that runs for a number of seconds, for the cost of `trijet trace`. It prints the steps per
second, the first five seconds left out.

    python3 trace_long.py SECONDS"""
import sys
import time

import torch

WARM_UP = 5.0


def main():
    seconds = float(sys.argv[1])
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.AdamW(network.parameters())
    x, label = torch.rand(64, 3, 96, 96), torch.randint(0, 10, (64,))
    begin, steps, counted = time.perf_counter(), 0, None
    while True:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x.cuda()), label.cuda())
        loss.backward()
        optimizer.step()
        loss.item()
        steps += 1
        now = time.perf_counter() - begin
        if counted is None and now >= WARM_UP:
            counted = (now, steps)
        if now >= seconds:
            break
    rate = (steps - counted[1]) / (now - counted[0])
    print(f"{steps} steps in {now:.1f} s, {rate:.2f} steps/s after the warm-up")


main()
