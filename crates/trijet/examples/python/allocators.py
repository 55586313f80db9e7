"""Temporary tensors of varying sizes with PyTorch's own allocator (here `bad`, as the notes rank it) and with
cudaMallocAsync. The backend is chosen before the first tensor, so each form is a process."""
import json
import os
import random
import subprocess
import sys

import torch

from common import line, milliseconds

BACKENDS = {"bad": "native", "good": "cudaMallocAsync"}
STEPS = 1000
SIZES = [2 ** random.Random(k).randrange(8, 20) + 64 * k for k in range(STEPS)]


def work(run):
    """Two new tensors in each step. They live until the tensor of four steps later."""
    kept, total = [None] * 4, torch.zeros((), dtype=torch.int64, device="cuda")
    for k, size in enumerate(SIZES):
        x = torch.full((size,), k + run, dtype=torch.int32, device="cuda")
        kept[k % 4] = x + 1
        total += kept[k % 4][-1] + size
    return total


def verify(total, run):
    return total.item() == sum(k + run + 1 + size for k, size in enumerate(SIZES))


def measure(label):
    """In the process of a form: the time, the wrong results, and the most memory that the allocator held."""
    backend = torch.cuda.get_allocator_backend()
    if backend != BACKENDS[label]:
        raise RuntimeError(f"the backend is {backend}")
    time, wrong = milliseconds(work, verify)
    print(json.dumps([time, wrong, torch.cuda.max_memory_reserved()]))


def started(label):
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")  # the second is the old name
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment["PYTORCH_ALLOC_CONF"] = f"backend:{BACKENDS[label]}"
    command = [sys.executable, os.path.abspath(__file__), "measure", label]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    if sys.argv[1:2] == ["measure"]:
        return measure(sys.argv[2])
    times, held = {}, []
    for label in sys.argv[1:] or BACKENDS:
        time, wrong, most = started(label)
        if wrong:
            raise RuntimeError(f"allocators: {BACKENDS[label]} was wrong in {wrong} runs")
        times[label] = time, wrong
        held.append(f"{BACKENDS[label]} held {most / 2**20:.0f} MiB")
    print("; ".join([line("allocators", times), *held]), flush=True)


main()
