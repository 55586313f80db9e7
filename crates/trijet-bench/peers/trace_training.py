"""A small, typical training loop for `trijet trace`: batches from a DataLoader with worker
processes, a pageable upload, a step of a network, and loss.item() in each step. It prints the time
of a step, which shows the cost of tracing."""
import sys
import time

import torch

STEPS = 60


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * 64

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.rand(3, 96, 96, generator=generator), index % 10


def main():
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(64, 128, 3, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.AdamW(network.parameters())
    loader = torch.utils.data.DataLoader(Batches(), batch_size=64, num_workers=int(sys.argv[1]))
    begin = None
    for step, (x, label) in enumerate(loader):
        if step == 10:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x.cuda()), label.cuda())
        loss.backward()
        optimizer.step()
        value = loss.item()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begin) / (STEPS - 10)
    print(f"{took * 1e3:.3f} ms a step, loss {value:.3f}")


main()
