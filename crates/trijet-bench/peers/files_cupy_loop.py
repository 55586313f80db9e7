"""A peer of `trijet bench files`: a loop in CuPy, one part of the stack after the other.
Arguments: input, output, pages, height, width, and the rule."""
import os
import sys
import time

import cupy as cp
import numpy as np
from files_cupy_rule import compute

PART = 16  # pages


def main():
    source, target, (pages, height, width) = sys.argv[1], sys.argv[2], map(int, sys.argv[3:6])
    rule, page = sys.argv[6:], cp.zeros((1, height, width), cp.uint16)
    compute(rule, page, cp.empty_like(page))  # compiles the kernel
    begin = time.perf_counter()
    stack = np.memmap(source, np.uint16, "r", shape=(pages, height, width))
    with open(target, "r+b" if os.path.exists(target) else "xb") as out:
        for at in range(0, pages, PART):
            x = cp.asarray(stack[at:at + PART])
            y = cp.empty_like(x)
            compute(rule, x, y)
            y.get().tofile(out)
    print(f"run\ts\t{time.perf_counter() - begin:.6f}")


main()
