"""Uploads beside kernels, from pageable memory, from page-locked memory, and from memory that is page-locked anew in
each step."""
import torch

from common import compare, numbers, product

PARTS, ROWS, SIDE = 8, 4096, 2048
PAGEABLE = [numbers(ROWS, SIDE, seed=k) for k in range(PARTS)]
WEIGHT, VECTOR = numbers(SIDE, SIDE, seed=100), numbers(SIDE, seed=101)
EXPECTED = torch.stack([product(x, WEIGHT, VECTOR) for x in PAGEABLE])
PINNED = [x.pin_memory() for x in PAGEABLE]
WEIGHT, VECTOR, UPLOAD = WEIGHT.cuda(), VECTOR.cuda(), torch.cuda.Stream()
assert PINNED[0].is_pinned() and not PAGEABLE[0].is_pinned()


def upload_and_compute(parts):
    consumer, results = torch.cuda.current_stream(), []
    for part in parts:
        with torch.cuda.stream(UPLOAD):
            x = part.cuda(non_blocking=True)
            ready = UPLOAD.record_event()
        consumer.wait_event(ready)
        results.append((x @ WEIGHT) @ VECTOR)
        x.record_stream(consumer)
    return results


def turned(parts, run):
    return parts[run:] + parts[:run]


def verify(results, run):
    return torch.equal(torch.stack(results).cpu(), EXPECTED.roll(-run, 0))


compare("pinned", lambda run: upload_and_compute(turned(PAGEABLE, run)),
        lambda run: upload_and_compute(turned(PINNED, run)), verify,
        {"pin_memory() in the loop": lambda run: upload_and_compute(x.pin_memory() for x in turned(PAGEABLE, run))})
