"""Three stages, each in its own stream: upload item n, compute item n - 1, download item n - 2. The guide's loop has no
events, and never yields the last two items."""
import torch

from common import compare, numbers, product

ITEMS, SIDE = 12, 4096
HOST = [numbers(SIDE, 2048, seed=k).pin_memory() for k in range(ITEMS)]
WEIGHT, VECTOR = numbers(2048, 2048, seed=100), numbers(2048, seed=101)
EXPECTED = [product(x, WEIGHT, VECTOR) for x in HOST]
WEIGHT, OUT = WEIGHT.cuda(), [torch.zeros_like(x).pin_memory() for x in HOST]
UPLOAD, COMPUTE, DOWNLOAD = (torch.cuda.Stream() for _ in range(3))


def turned(run):
    return HOST[run:] + HOST[:run]


def guides(items):
    uploaded, computed, yielded = [], [], 0
    for item in items:
        with torch.cuda.stream(UPLOAD):
            uploaded.append(item.cuda(non_blocking=True))
        if len(uploaded) > 1:
            with torch.cuda.stream(COMPUTE):  # does not wait for the upload
                computed.append(uploaded[-2] @ WEIGHT)
        if len(computed) > 1:
            with torch.cuda.stream(DOWNLOAD):  # does not wait for the product
                yield OUT[yielded].copy_(computed[-2], non_blocking=True)
            yielded += 1


def staged(items):
    """Yields each result once, when it is complete. The host runs two items ahead."""
    uploaded, computed = {}, {}
    for n in range(len(items) + 2):
        if n < len(items):
            with torch.cuda.stream(UPLOAD):
                uploaded[n] = items[n].cuda(non_blocking=True), UPLOAD.record_event()
        if n - 1 in uploaded:
            x, ready = uploaded.pop(n - 1)
            with torch.cuda.stream(COMPUTE):
                COMPUTE.wait_event(ready)
                computed[n - 1] = x @ WEIGHT, COMPUTE.record_event()
            x.record_stream(COMPUTE)
        if n - 2 in computed:
            y, ready = computed.pop(n - 2)
            with torch.cuda.stream(DOWNLOAD):
                DOWNLOAD.wait_event(ready)
                OUT[n - 2].copy_(y, non_blocking=True)
            y.record_stream(DOWNLOAD)
            DOWNLOAD.synchronize()  # meanwhile the GPU has the upload of n and the product of n - 1
            yield OUT[n - 2]


def one_stream(run):
    for x, out in zip(turned(run), OUT):
        out.copy_(x.cuda(non_blocking=True) @ WEIGHT, non_blocking=True)
    return OUT


def verify(results, run):
    expected = EXPECTED[run:] + EXPECTED[:run]
    return len(results) == ITEMS and all(torch.equal(out @ VECTOR, e) for out, e in zip(results, expected))


assert len(list(guides(HOST))) == ITEMS - 2, "the guide's loop never yields the last two items"
compare("staged", lambda run: list(guides(turned(run))), lambda run: list(staged(turned(run))), verify,
        {"one stream": one_stream}, may_be_wrong=["bad"])
