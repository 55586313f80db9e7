"""Rates of the operations of `trijet map` beside CuPy and SciPy in one run.

    operations.py BUNDLE FOLDER GIB [DEVICE]

For each operation: the rate of the kernels of a run of `trijet map` (input bytes over the time in which
they ran, by CUPTI or events), the rate of CuPy on an array that is in device memory, the rate of SciPy on
one processor over one image, and whether the three results are equal. Rates in GB/s of input. Prints CSV.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import cupy as cp
import cupyx.scipy.ndimage as gpu
import numpy as np
import scipy.ndimage as cpu

BUNDLE, FOLDER, GIB = sys.argv[1], sys.argv[2], float(sys.argv[3])
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "cuda:0"
SIDE, ROUNDS = 2048, 5
PAGES = int(GIB * 2**30) // (SIDE * SIDE * 2)


def box(radius):
    return (1, 2 * radius + 1, 2 * radius + 1)


def per_image(radius):
    return dict(size=box(radius), mode="nearest")


def binned(lib, x):
    sums = x.reshape(len(x), SIDE // 2, 2, SIDE // 2, 2).astype(lib.uint32).sum((2, 4), dtype=lib.uint32)
    return lib.rint(sums / 4).astype(x.dtype)


# The text of the operation, and the same in CuPy and SciPy.
CASES = {
    "median:1": lambda lib, nd, x: nd.median_filter(x, **per_image(1)),
    "median:3": lambda lib, nd, x: nd.median_filter(x, **per_image(3)),
    "percentile:90,3": lambda lib, nd, x: nd.percentile_filter(x, 90, **per_image(3)),
    "median:1,z=1": lambda lib, nd, x: nd.median_filter(x, size=(3, 3, 3), mode="nearest"),
    "gaussian:2": lambda lib, nd, x: nd.gaussian_filter(x, (0, 2, 2), mode="nearest"),
    "gaussian:7.8": lambda lib, nd, x: nd.gaussian_filter(x, (0, 7.8, 7.8), mode="nearest"),
    "minimum:1": lambda lib, nd, x: nd.minimum_filter(x, **per_image(1)),
    "minimum:31": lambda lib, nd, x: nd.minimum_filter(x, **per_image(31)),
    "background:10": lambda lib, nd, x: nd.white_tophat(x, size=box(10), mode="nearest"),
    "affine:0.5,3": lambda lib, nd, x: lib.rint(x.astype(lib.float32) * lib.float32(0.5) + lib.float32(3)).astype(x.dtype),
    "convert:f32": lambda lib, nd, x: x.astype(lib.float32),
    "threshold:400": lambda lib, nd, x: (x > 400).astype(lib.uint8),
    "crop:100:1900,50:2000": lambda lib, nd, x: lib.ascontiguousarray(x[:, 100:1900, 50:2000]),
    "bin:2": lambda lib, nd, x: binned(lib, x),
    "project:max": lambda lib, nd, x: x.max(1),
    "project:mean": lambda lib, nd, x: x.mean(1).astype(lib.float32),
    "project:std,2": lambda lib, nd, x: x.std(2).astype(lib.float32),
}


def command(op, source, target):
    call = [os.path.join(BUNDLE, "trijet"), "map", source, "-o", target, "--op", op, "--json", "--no-sync"]
    call += ["--device", DEVICE, "--overwrite"]
    ran = subprocess.run(call, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{op}: {ran.stderr}")
    return json.loads(ran.stdout)


def main():
    draw = np.random.default_rng(1)
    pages = draw.poisson(400, (16, SIDE, SIDE)).astype(np.uint16)
    data = pages[np.arange(PAGES) % 16]
    source, target = os.path.join(FOLDER, "in.npy"), os.path.join(FOLDER, "out.npy")
    np.save(source, data)
    few = cp.asarray(data[:32])
    print("operation,trijet_kernel_gbps,trijet_run_gbps,cupy_gbps,scipy_gbps,equal_cupy,equal_scipy", flush=True)
    for op, peer in CASES.items():
        command(op, source, target)
        own = np.load(target, mmap_mode="r")
        reports = [command(op, source, target) for _ in range(ROUNDS)]
        kernels, runs = [], []
        for report in reports:
            busy = [one["busy_ns"] for one in report["engines"] if one["name"] == "compute"]
            kernels.append(data.nbytes / busy[0])
            runs.append(data.nbytes / report["elapsed_ns"])
        first = peer(cp, gpu, few)
        cp.cuda.Device().synchronize()
        times = []
        for _ in range(ROUNDS):
            begin = time.perf_counter()
            peer(cp, gpu, few)
            cp.cuda.Device().synchronize()
            times.append(time.perf_counter() - begin)
        inner = slice(1, 30) if "z=" in op else slice(0, 32)
        with_cupy = np.array_equal(cp.asnumpy(first)[inner], own[:32][inner])
        begin = time.perf_counter()
        one = peer(np, cpu, data[:3])
        scipy_s = time.perf_counter() - begin
        middle = slice(1, 2)
        with_scipy = np.array_equal(one[middle], own[:3][middle])
        print(
            f'"{op}",{statistics.median(kernels):.2f},{statistics.median(runs):.2f},'
            f"{few.nbytes / statistics.median(times) / 1e9:.2f},{data[:3].nbytes / scipy_s / 1e9:.4f},"
            f"{with_cupy},{with_scipy}",
            flush=True,
        )


main()
