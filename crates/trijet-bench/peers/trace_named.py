"""A training whose steps are named with NVTX, for `trijet trace`.

    python3 trace_named.py named 1200     ("plain" leaves the names out)

Prints the steps per second after a warm-up. The host is slower than the GPU, so each call that tracing makes
slower shows.
"""

import sys
import time

import torch
from torch.cuda import nvtx

NAMED, STEPS = sys.argv[1] == "named", int(sys.argv[2])

torch.manual_seed(0)
layers = []
for _ in range(8):
    layers += [torch.nn.Linear(1024, 1024), torch.nn.ReLU()]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(64, 256, 1024).pin_memory()


def named(name, run):
    if not NAMED:
        return run()
    with nvtx.range(name):
        return run()


def update():
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def step(number):
    x = data[number % 64].cuda(non_blocking=True)

    def body():
        loss = named("forward", lambda: model(x).square().mean())
        named("backward", loss.backward)
        named("optimizer", update)

    named(f"step {number}", body)


for number in range(20):
    step(number)
torch.cuda.synchronize()
begin = time.perf_counter()
for number in range(STEPS):
    step(number)
torch.cuda.synchronize()
print(f"{STEPS / (time.perf_counter() - begin):.1f} steps per second", flush=True)
