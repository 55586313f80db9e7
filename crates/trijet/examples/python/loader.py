"""A prefetching loader: the guide's, which loses batches and overwrites batches in use, and a corrected one."""
from collections import deque
from itertools import islice

import torch

from common import compare, numbers, product

BATCHES, SIDE = 22, 2048
HOST = [numbers(SIDE, SIDE, seed=k).pin_memory() for k in range(BATCHES)]
WEIGHT, VECTOR = numbers(SIDE, SIDE, seed=100), numbers(SIDE, seed=101)
EXPECTED = torch.stack([product(x, WEIGHT, VECTOR) for x in HOST])
WEIGHT, VECTOR = WEIGHT.cuda(), VECTOR.cuda()


class GuidesLoader:
    def __init__(self, batches, num_streams=4):
        self.batches, self.streams = batches, [torch.cuda.Stream() for _ in range(num_streams)]
        self.buffers = [None] * num_streams

    def __iter__(self):
        batches = iter(self.batches)
        for i, stream in enumerate(self.streams):
            with torch.cuda.stream(stream):
                self.buffers[i] = next(batches).cuda(non_blocking=True)
        i = 0
        for batch in batches:
            torch.cuda.current_stream().wait_stream(self.streams[i])
            yield self.buffers[i]
            with torch.cuda.stream(self.streams[i]):  # drops a tensor that the consumer may still read
                self.buffers[i] = batch.cuda(non_blocking=True)
            i = (i + 1) % len(self.streams)
        for j in range(i, len(self.streams)):  # the buffers before i are never yielded
            torch.cuda.current_stream().wait_stream(self.streams[j])
            yield self.buffers[j]


class Loader:
    def __init__(self, batches, depth=2):
        self.batches, self.depth, self.stream = batches, depth, torch.cuda.Stream()

    def __iter__(self):
        batches, queue = iter(self.batches), deque()
        for _ in range(self.depth):
            self.upload(batches, queue)
        consumer = torch.cuda.current_stream()
        while queue:
            batch, ready = queue.popleft()
            self.upload(batches, queue)
            consumer.wait_event(ready)
            batch.record_stream(consumer)  # its memory is used again only after the consumer's work
            yield batch

    def upload(self, batches, queue):
        for batch in islice(batches, 1):
            with torch.cuda.stream(self.stream):
                queue.append((batch.cuda(non_blocking=True), self.stream.record_event()))


def turned(run):
    return HOST[run:] + HOST[:run]


def train(batches):
    results = []
    for batch in batches:
        batch = batch.cuda(non_blocking=True)  # nothing to do if a loader has uploaded it
        for _ in range(2):
            step = batch @ WEIGHT
        results.append(step @ VECTOR)
    return results


def verify(results, run):
    return len(results) == BATCHES and torch.equal(torch.stack(results).cpu(), EXPECTED.roll(-run, 0))


assert len(train(GuidesLoader(HOST))) == BATCHES - 2, "22 batches, 4 buffers: two are lost"
compare("loader", lambda run: train(GuidesLoader(turned(run))), lambda run: train(Loader(turned(run))), verify,
        {"without prefetching": lambda run: train(turned(run))}, may_be_wrong=["bad"])
