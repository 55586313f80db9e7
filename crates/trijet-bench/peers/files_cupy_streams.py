"""A peer of `trijet bench files`: the overlap of TomocuPy in CuPy. In turn k, part k is uploaded,
part k - 1 computed and part k - 2 downloaded, each in its stream, and all three are synchronised.
Arguments: input, output, pages, height, width, and the rule."""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np
from files_cupy_rule import compute

PART, READERS, WRITERS = 8, 4, 8  # pages of a part; threads


def page_locked(shape):
    count = int(np.prod(shape))
    return np.frombuffer(cp.cuda.alloc_pinned_memory(2 * count), np.uint16, count).reshape(shape)


def main():
    source, target, (pages, height, width) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:6])
    rule, shape = sys.argv[6:], (PART, height, width)
    compute(rule, cp.zeros(shape, cp.uint16), cp.zeros(shape, cp.uint16))  # compiles the kernel
    begin = time.perf_counter()
    parts = [(at, min(PART, pages - at)) for at in range(0, pages, PART)]
    bytes_of = 2 * height * width
    into = os.open(target, os.O_RDWR | os.O_CREAT)
    read = lambda at, n: np.fromfile(source, np.uint16, n * height * width, offset=at * bytes_of)
    write = lambda rows, at: os.pwrite(into, memoryview(rows).cast("B"), at * bytes_of)
    up, work, down = (cp.cuda.Stream(non_blocking=False) for _ in range(3))
    x, y = (cp.zeros((2, *shape), cp.uint16) for _ in range(2))
    staged, results, writing = page_locked((2, *shape)), page_locked((WRITERS, *shape)), {}
    with ThreadPoolExecutor(READERS) as readers, ThreadPoolExecutor(WRITERS) as writers:
        queue = [readers.submit(read, *part) for part in parts[:32]]
        for k in range(len(parts) + 2):
            if 0 < k <= len(parts):
                with work:
                    compute(rule, x[(k - 1) % 2], y[(k - 1) % 2])
            if k > 1:
                (at, n), place = parts[k - 2], (k - 2) % WRITERS
                if place in writing:
                    writing[place].result()
                with down:
                    y[(k - 2) % 2].get(out=results[place])
            if k < len(parts):
                staged[k % 2, :parts[k][1]] = queue[k].result().reshape(-1, height, width)
                queue[k] = None
                queue += [readers.submit(read, *part) for part in parts[k + 32:k + 33]]
                with up:
                    x[k % 2].set(staged[k % 2])
            down.synchronize()
            if k > 1:
                writing[place] = writers.submit(write, results[place, :n], at)
            up.synchronize()
            work.synchronize()
        for written in writing.values():
            written.result()
    os.close(into)
    print(f"run\ts\t{time.perf_counter() - begin:.6f}")


main()
