"""A stack of images filtered from file to file by `trijet map` and by programs in Python, in one run.

    clean.py BUNDLE FOLDER GIB [DEVICE]

BUNDLE has the program `trijet`. FOLDER is in memory (tmpfs). Needs CuPy, SciPy, tifffile, dask and
dask-image. The jobs are a median of 3 x 3 pixels and a Gaussian of sigma 2, over u16 images of 2048 x 2048
pixels, from a TIFF file that tifffile wrote and from an npy file, to an npy file:

- `trijet map, run`: `elapsed_ns` of its report. The ratios of all rows are to this rate.
- `trijet map, process`: the same commands as a user sees them, with the start of the process and of CUDA.
- `CuPy loop`: reads images from a memmap, uploads, filters, downloads and writes them, one batch after another.
- `TomocuPy scheme`: threads that read and write, page-locked buffers, two buffers of the device each way,
  and three streams. In turn k, batch k is uploaded, batch k - 1 filtered and batch k - 2 downloaded.
- `dask-image, CuPy`: a dask array whose blocks are memmaps, with CuPy's filters, stored into a memmap by threads.
- `dask-image, NumPy`: the same on the processors, over the first images only, whose rate is given.

The programs in Python run in this process. Only their loops are measured, from the opening of the input to
the last write, after two runs at least: imports, kernels and CuPy's pools of memory cost them nothing. The
run of `trijet map` has no start of CUDA either, but allocates its buffers. The sizes of batches and the
numbers of threads that read are the fastest of CHOICES over the first input of each job.

All write over an existing output, and not to the disk. Before each run, every pixel of the output differs
from the result. Prints CSV: the job, the contestant, the input, the median of the rates of 5 rounds in GB/s
of input, its ratio, whether all outputs equal those of `trijet map`, the largest difference of a pixel, and
whether the first and the last image equal SciPy's. A contestant that fails is named on standard error. The
variable JOBS of the environment names some of the jobs, with commas between them.
"""
import functools
import json
import os
import statistics
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import cupyx.scipy.ndimage
import dask
import dask.array as da
import dask_image
import dask_image.ndfilters
import numpy as np
import scipy
import scipy.ndimage
import tifffile

BUNDLE, FOLDER, GIB = sys.argv[1], sys.argv[2], float(sys.argv[3])
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "cuda:0"
SIDE, ROUNDS, THREADS = 2048, 5, os.cpu_count()
IMAGE = SIDE * SIDE * 2  # bytes
COUNT = int(GIB * 2**30) // IMAGE
FEW = min(COUNT, 2 * THREADS)  # images of dask-image on the processors
WRITERS, QUEUE = 8, 32  # of the TomocuPy scheme: its default threads, and the batches that it reads ahead
INPUTS, TARGET = ("in.tif", "in.npy"), os.path.join(FOLDER, "out.npy")
FILTERS = {
    "median:1": lambda nd, x, **out: nd.median_filter(x, size=(1, 3, 3), mode="nearest", **out),
    "gaussian:2": lambda nd, x, **out: nd.gaussian_filter(x, (0, 2, 2), mode="nearest", **out),
}
POOL = ThreadPoolExecutor(THREADS)


def write_inputs():
    """Camera images: Poisson noise on a slow background, no two alike."""
    draw = np.random.default_rng(1)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    means = [400 + 300 * np.sin(6 * x + n) * y for n in range(16)]
    seeds = zip(means, draw.spawn(16))
    images = np.stack(list(POOL.map(lambda one: one[1].poisson(one[0]).astype(np.uint16), seeds)))
    stack = np.concatenate([images + np.uint16(n) for n in range(-(-COUNT // 16))])[:COUNT]
    tifffile.imwrite(os.path.join(FOLDER, "in.tif"), stack, photometric="minisblack")
    np.save(os.path.join(FOLDER, "in.npy"), stack)
    return stack[[0, -1]]


def opened(source):
    path = os.path.join(FOLDER, source)
    return tifffile.memmap(path, mode="r") if source.endswith(".tif") else np.load(path, mmap_mode="r")


def trijet(op, source):
    """Returns the seconds of the run."""
    call = [os.path.join(BUNDLE, "trijet"), "map", os.path.join(FOLDER, source), "-o", TARGET, "--op", op]
    call += ["--json", "--no-sync", "--overwrite", "--device", DEVICE]
    ran = subprocess.run(call, capture_output=True, text=True)
    if ran.returncode:
        raise RuntimeError(ran.stderr)
    return json.loads(ran.stdout)["elapsed_ns"] / 1e9


def cupy_loop(op, source, batch):
    stack = opened(source)
    with open(TARGET, "r+b") as out:
        out.seek(np.load(TARGET, mmap_mode="r").offset)
        for at in range(0, COUNT, batch):
            FILTERS[op](cupyx.scipy.ndimage, cp.asarray(stack[at:at + batch])).get().tofile(out)


def page_locked(shape):
    size = int(np.prod(shape))
    return np.frombuffer(cp.cuda.alloc_pinned_memory(2 * size), np.uint16, size).reshape(shape)


def tomocupy_scheme(op, source, batch, readers):
    stack, path = opened(source), os.path.join(FOLDER, source)
    batches = [(at, min(batch, COUNT - at)) for at in range(0, COUNT, batch)]
    before, into = np.load(TARGET, mmap_mode="r").offset, os.open(TARGET, os.O_RDWR)
    read = lambda at, n: np.fromfile(path, np.uint16, n * SIDE * SIDE, offset=stack.offset + at * IMAGE)
    write = lambda images, at: os.pwrite(into, memoryview(images).cast("B"), before + at * IMAGE)
    up, work, down = (cp.cuda.Stream(non_blocking=False) for _ in range(3))
    x, y = (cp.zeros((2, batch, SIDE, SIDE), cp.uint16) for _ in range(2))
    staged, results = (page_locked((n, batch, SIDE, SIDE)) for n in (2, WRITERS))
    writing = {}
    with ThreadPoolExecutor(readers) as reading, ThreadPoolExecutor(WRITERS) as writers:
        queue = [reading.submit(read, *one) for one in batches[:QUEUE]]
        for k in range(len(batches) + 2):
            if 0 < k <= len(batches):
                with work:
                    FILTERS[op](cupyx.scipy.ndimage, x[(k - 1) % 2], output=y[(k - 1) % 2])
            if k > 1:
                (at, n), place = batches[k - 2], (k - 2) % WRITERS
                if place in writing:
                    writing[place].result()
                with down:
                    y[(k - 2) % 2].get(out=results[place])
            if k < len(batches):
                staged[k % 2, :batches[k][1]] = queue[k].result().reshape(-1, SIDE, SIDE)
                queue[k] = None
                queue += [reading.submit(read, *one) for one in batches[k + QUEUE:k + QUEUE + 1]]
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


def dask_filter(op, source, batch, count, on_gpu):
    path, before = os.path.join(FOLDER, source), opened(source).offset
    kind = lambda lib: dict(dtype=np.uint16, meta=lib.empty((0, 0, 0), np.uint16))

    def block(block_info):  # dask would copy or hash a whole memmap that it is given
        (first, last), *_ = block_info[None]["array-location"]
        place = before + first * IMAGE
        return np.asarray(np.memmap(path, np.uint16, "r", place, (last - first, SIDE, SIDE)))

    chunks = da.core.normalize_chunks((batch, SIDE, SIDE), (count, SIDE, SIDE))
    images = da.map_blocks(block, chunks=chunks, **kind(np))
    if on_gpu:
        images = images.map_blocks(cp.asarray, **kind(cp))
    images = FILTERS[op](dask_image.ndfilters, images)
    if on_gpu:
        images = images.map_blocks(cp.asnumpy, **kind(np))
    out = np.load(TARGET, mmap_mode="r+")[:count]
    da.store(images, out, lock=False, scheduler="threads", num_workers=THREADS)


# The images of a batch, and for the TomocuPy scheme the threads that read. Its defaults are 8 and 4.
CHOICES = {
    "CuPy loop": [(cupy_loop, dict(batch=n)) for n in (1, 8, 32)],
    "TomocuPy scheme": [
        (tomocupy_scheme, dict(batch=n, readers=r)) for n, r in ((1, 4), (8, 1), (8, 4), (32, 4))],
    "dask-image, CuPy": [(dask_filter, dict(batch=n, count=COUNT, on_gpu=True)) for n in (1, 8, 32)],
    "dask-image, NumPy": [(dask_filter, dict(batch=1, count=FEW, on_gpu=False))],
}


def largest_difference(wanted, count):
    out = np.load(TARGET, mmap_mode="r")
    one = lambda n: 0 if np.array_equal(out[n], wanted[n]) else int(
        np.abs(out[n].astype(np.int32) - wanted[n]).max())
    return max(POOL.map(one, range(count)))


def measured(call, op, source, wanted, count):
    """The seconds of a call, the seconds that it returned, and the largest difference of its output."""
    out = np.load(TARGET, mmap_mode="r+")
    for _ in POOL.map(lambda n: np.invert(wanted[n], out=out[n]), range(COUNT)):
        pass
    del out
    begin = time.perf_counter()
    returned = call(op, source)
    return time.perf_counter() - begin, returned, largest_difference(wanted, count)


def fastest(op, wanted):
    """The fastest of the choices of each contestant that works, after a run of each: its name and call."""
    found = []
    for name, choices in CHOICES.items():
        timed = []
        for call, options in choices:
            call = functools.partial(call, **options)
            count = options.get("count", COUNT)
            try:
                seconds = [measured(call, op, INPUTS[0], wanted, count)[0] for _ in range(2)][1]
            except Exception:
                print(f"{name} {options} fails:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                continue
            words = f"{name}, batch {options['batch']}"
            words += f", readers {options['readers']}" if "readers" in options else ""
            words += f", first {count} of {COUNT} images" if count < COUNT else ""
            timed.append((seconds, words, call, count))
            print(f"{op}: {words}: {count * IMAGE / seconds / 1e9:.3f} GB/s", file=sys.stderr, flush=True)
            cp.get_default_memory_pool().free_all_blocks()
            cp.get_default_pinned_memory_pool().free_all_blocks()
        found += [min(timed, key=lambda one: one[0])[1:]] if timed else []
    return found


def rounds(op, source, contestants, wanted, ends):
    """Measures the contestants in turn, a different one first in each round, and prints their rows."""
    rates, worst, as_scipy = {}, {}, {}
    for turn in range(-1, ROUNDS):  # the first round warms up
        order = contestants[turn % len(contestants):] + contestants[:turn % len(contestants)]
        for name, call, count in order:
            seconds, returned, difference = measured(call, op, source, wanted, count)
            worst[name] = max(worst.get(name, 0), difference)
            out, places = np.load(TARGET, mmap_mode="r"), (0, -1) if count == COUNT else (0,)
            same = all(np.array_equal(out[n], ends[n]) for n in places)
            as_scipy[name] = as_scipy.get(name, True) and same
            if turn >= 0:
                rates.setdefault(name, []).append([count * IMAGE / s / 1e9 for s in (seconds, returned or seconds)])
    of = {name: [statistics.median(column) for column in zip(*rows)] for name, rows in rates.items()}
    base = of["trijet map"][1]
    for name, (whole, run) in of.items():
        rows = [(", run", run), (", process", whole)] if name == "trijet map" else [("", whole)]
        for part, rate in rows:
            print(f'{op},"{name}{part}",{source[3:]},{rate:.3f},{rate / base:.3f},{worst[name] == 0},{worst[name]},'
                  f"{as_scipy[name]}", flush=True)


def main():
    versions = [f"{one.__name__} {one.__version__}" for one in (cp, np, scipy, dask, tifffile)]
    print(", ".join(versions), f"{COUNT} images, {THREADS} processors", sep="; ", file=sys.stderr, flush=True)
    ends = write_inputs()
    print("job,contestant,input,gbps,ratio,equal,difference,equal_scipy", flush=True)
    for op in os.environ.get("JOBS", ",".join(FILTERS)).split(","):
        if os.path.exists(TARGET):
            os.remove(TARGET)
        np.lib.format.open_memmap(TARGET, "w+", np.uint16, (COUNT, SIDE, SIDE))
        trijet(op, INPUTS[0])
        wanted = np.load(TARGET)
        scipy_ends = FILTERS[op](scipy.ndimage, ends)
        contestants = [("trijet map", trijet, COUNT)] + fastest(op, wanted)
        for source in INPUTS:
            rounds(op, source, contestants, wanted, scipy_ends)


main()
