"""The peer of `trijet bench memory` in PyTorch and CuPy: pairs of an allocation and its free, from Python. The
argument is the number of samples."""
import sys
import time

import cupy
import torch

# As in definitions/memory.toml.
PAIRS = 2000
SIZES = {"4 KiB": 4096, "1 MiB": 1048576, "16 MiB": 16777216}


def timed(name, who, alloc):
    begin = time.perf_counter_ns()
    for _ in range(PAIRS):
        alloc()
    print(f"pairs of {name}, {who}: allocation and free\tns\t{(time.perf_counter_ns() - begin) / PAIRS:.1f}")


def main():
    repeats = int(sys.argv[1])
    print(f"note\tpytorch {torch.__version__}, cupy {cupy.__version__}")
    pool = cupy.cuda.MemoryPool()
    for round in range(repeats + 1):
        for name, size in SIZES.items():
            ways = {
                "pytorch": lambda: torch.cuda.caching_allocator_delete(torch.cuda.caching_allocator_alloc(size)),
                "cupy": lambda: pool.malloc(size),
            }
            for who, way in ways.items():
                if round == 0:
                    way()
                else:
                    timed(name, who, way)


main()
