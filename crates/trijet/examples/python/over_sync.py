"""Batches that the host prepares: it fetches a value with `.item()` in each step, waits for the device in each step, or
fetches all values once, at the end."""
import torch

from common import compare, numbers, product

STEPS, SIDE = 16, 2048
SOURCE = [numbers(SIDE, SIDE, seed=k) for k in range(STEPS)]
WEIGHT, VECTOR = numbers(SIDE, SIDE, seed=100), numbers(SIDE, seed=101)
EXPECTED = torch.tensor([product(x + 1, WEIGHT, VECTOR)[0].item() for x in SOURCE])
WEIGHT, VECTOR = WEIGHT.cuda(), VECTOR.cuda()
STAGED = [torch.empty(SIDE, SIDE).pin_memory() for _ in range(STEPS)]


def step(k, run):
    """The host prepares a batch; the GPU uploads it and computes one value, which stays there."""
    torch.add(SOURCE[(k + run) % STEPS], 1, out=STAGED[k])
    x = STAGED[k].cuda(non_blocking=True)
    for _ in range(3):
        y = x @ WEIGHT
    return (y @ VECTOR)[0]


def an_item_each(run):
    return torch.tensor([step(k, run).item() for k in range(STEPS)])


def a_wait_each(run):
    values = []
    for k in range(STEPS):
        values.append(step(k, run))
        torch.cuda.synchronize()
    return torch.stack(values).cpu()


def once(run):
    # Each step has its own page-locked memory, so no step has to wait before it writes.
    return torch.stack([step(k, run) for k in range(STEPS)]).cpu()


def verify(values, run):
    return torch.equal(values, EXPECTED.roll(-run, 0))


compare("over_sync", an_item_each, once, verify, {"synchronize in each step": a_wait_each})
