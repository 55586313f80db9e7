"""Do two operations run at once? The guide's check counts waiting as work; the corrected one compares with the times of
each operation alone. Here the verdicts matter, and not the times of the checks."""
import torch

from common import compare, numbers

SIDE = 4096
A, HOST = numbers(SIDE, SIDE, seed=1).cuda(), numbers(2 * SIDE, SIDE, seed=2).pin_memory()
PRODUCTS, COPY = [torch.empty_like(A) for _ in range(2)], torch.empty_like(HOST, device="cuda")
STREAMS = [torch.cuda.Stream() for _ in range(2)]


def multiply(k):
    torch.mm(A, A, out=PRODUCTS[k])  # fills the GPU: two of them take as long as one after the other


def upload(k):
    COPY.copy_(HOST, non_blocking=True)


PAIRS = {(multiply, multiply): False, (multiply, upload): True}


def timed_event():
    return torch.cuda.Event(enable_timing=True)


def guides(first, second):
    events = [[timed_event(), timed_event()] for _ in STREAMS]
    for k, (work, stream) in enumerate(zip((first, second), STREAMS)):
        events[k][0].record(stream)
        with torch.cuda.stream(stream):
            work(k)
        events[k][1].record(stream)
    torch.cuda.synchronize()
    t1, t2 = (begin.elapsed_time(end) for begin, end in events)
    return events[0][0].elapsed_time(events[1][1]) < 0.9 * (t1 + t2)


def time_of(*works):
    """The time from a common start to the last end, with a stream for each work."""
    begin, ends = timed_event(), []
    begin.record(STREAMS[0])
    for k, (work, stream) in enumerate(zip(works, STREAMS)):
        stream.wait_event(begin)
        with torch.cuda.stream(stream):
            work(k)
        ends.append(stream.record_event(timed_event()))
    torch.cuda.synchronize()
    return max(begin.elapsed_time(end) for end in ends)


def overlaps(first, second):
    """Whether the pair saves at least half of the shorter time."""
    alone = time_of(first), time_of(second)
    return sum(alone) - time_of(first, second) > 0.5 * min(alone)


def verify(verdicts, run):
    return verdicts == list(PAIRS.values())


for _ in range(10):  # loads the kernels and brings the clocks up, before any time is compared
    time_of(multiply, multiply), time_of(upload)
compare("concurrency", lambda run: [guides(*pair) for pair in PAIRS], lambda run: [overlaps(*pair) for pair in PAIRS],
        verify, may_be_wrong=["bad"])
