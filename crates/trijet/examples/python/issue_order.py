"""Chunks on several streams: the guide's loop, whose downloads make the host wait, and copies into page-locked memory,
issued depth first (chunk by chunk) and breadth first (step by step)."""
import torch

from common import compare, numbers, product

STREAMS, SIDE = 8, 2048
ROWS = STREAMS * SIDE + 5  # not a multiple of the streams
HOST, WEIGHT, VECTOR = numbers(ROWS, SIDE, seed=1), numbers(SIDE, SIDE, seed=2), numbers(SIDE, seed=3)
EXPECTED = product(HOST, WEIGHT, VECTOR)
HOST, OUT, WEIGHT = HOST.pin_memory(), torch.zeros_like(HOST).pin_memory(), WEIGHT.cuda()
LANES = [torch.cuda.Stream() for _ in range(STREAMS)]


def guides(run):
    rows = ROWS // STREAMS  # leaves out the last 5 rows
    for k, stream in enumerate(LANES):
        with torch.cuda.stream(stream):
            x = HOST[k * rows:(k + 1) * rows].cuda(non_blocking=True)
            y = x @ WEIGHT
            # The guide writes y.cpu(non_blocking=True), which raises a TypeError.
            OUT[k * rows:(k + 1) * rows] = y.cpu()
    for stream in LANES:
        stream.synchronize()


def parts():
    rows = -(-ROWS // STREAMS)
    return [(slice(k * rows, min((k + 1) * rows, ROWS)), stream) for k, stream in enumerate(LANES)]


def depth_first(run):
    for part, stream in parts():
        with torch.cuda.stream(stream):
            y = HOST[part].cuda(non_blocking=True) @ WEIGHT
            OUT[part].copy_(y, non_blocking=True)
    for stream in LANES:
        stream.synchronize()


def breadth_first(run):
    x, y = [], []
    for part, stream in parts():
        with torch.cuda.stream(stream):
            x.append(HOST[part].cuda(non_blocking=True))
    for k, (part, stream) in enumerate(parts()):
        with torch.cuda.stream(stream):
            y.append(x[k] @ WEIGHT)
    for k, (part, stream) in enumerate(parts()):
        with torch.cuda.stream(stream):
            OUT[part].copy_(y[k], non_blocking=True)
    for stream in LANES:
        stream.synchronize()


def verify(result, run):
    is_right = torch.equal(OUT @ VECTOR, EXPECTED)
    OUT.zero_()  # so that the next run cannot leave anything out
    return is_right


def accepts(copy):
    try:
        copy()
    except TypeError:
        return False
    return True


assert not accepts(lambda: WEIGHT.cpu(non_blocking=True)), "Tensor.cpu has no argument non_blocking"
guides(0)
assert torch.equal((OUT @ VECTOR)[:-5], EXPECTED[:-5]) and not OUT[-5:].any(), "the guide's loop leaves out 5 rows"
OUT.zero_()
compare("issue_order", guides, depth_first, verify, {"breadth first": breadth_first}, may_be_wrong=["bad"])
