"""Functions of CuPy and PyTorch as stages of `trijet.map`, beside the loop that users write, in one run.

    python_stages.py FOLDER GIB

FOLDER is in memory (tmpfs). Needs the package trijet, CuPy and PyTorch. The stack has u16 images of 2048 x 2048
pixels, in an npy file; the results are written to an npy file. The jobs are a Gaussian of sigma 1 by CuPy, and
a convolution of 5 x 5 by PyTorch in f32. Contestants:

- `copy`: all processors read the file into the mapping of a new file, and nothing is computed.
- `copy through a buffer`: the same with a buffer between the two, which a GPU needs: the bound of the same bytes.
- `trijet.map`: with `durable=False`.
- `trijet.map, affine`: the same bytes through the library's own affine.
- `loop`: reads images from a memmap, uploads, filters, downloads and writes them, one batch after another; the
  fastest of four batch sizes over the first 2 GiB.
- `dask-cuda`: the same for each block of a Dask array, by a `LocalCUDACluster` with one GPU, and `da.store`; the
  fastest of three sizes of blocks, with one thread and with four. Left out if dask-cuda is not there.

The first four write a new file in each round, in turn; the others write over it. Prints CSV: job, contestant,
rate in GB/s of input (median of 3), the medians of its ratios to the copy and to the copy through a buffer of the
same round, and whether the result of the first and the last 8 images that it wrote equals the function applied at
once, or by how much it differs. Then the time of a stage for each chunk: of a run of small chunks with a stage that
does nothing, minus the same run with the library's own affine.
"""
import mmap
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np
import torch
import trijet
from cupyx.scipy.ndimage import gaussian_filter

FOLDER, GIB = sys.argv[1], float(sys.argv[2])
SIDE, ROUNDS = 2048, 3
COUNT = int(GIB * 2**30) // (SIDE * SIDE * 2)
SOURCE, TARGET = os.path.join(FOLDER, "in.npy"), os.path.join(FOLDER, "out.npy")
WEIGHT = torch.full((1, 1, 5, 5), 1 / 25, device="cuda")


def blurred(x):
    return gaussian_filter(x, (0, 1, 1), mode="nearest")


def convolved(x):
    image = x.to(torch.float32)[:, None]
    return torch.nn.functional.conv2d(image, WEIGHT, padding=2)[:, 0].clamp_(0, 65535).to(torch.uint16)


STAGES = {
    "cupy gaussian": (trijet.stage(arrays="cupy")(blurred), lambda x: cp.asnumpy(blurred(cp.asarray(x)))),
    "torch conv2d": (
        trijet.stage(arrays="torch")(convolved),
        lambda x: convolved(torch.from_numpy(x).cuda()).cpu().numpy(),
    ),
}


def map_rate(steps):
    """The rate of a run that writes a new file."""
    remove()
    report = trijet.map(SOURCE, TARGET, steps, durable=False)
    return report.bytes_in / report.elapsed / 1e9


def copy_rate(has_buffer, part=8 << 20):
    """The rate at which all processors read the file into the mapping of a new file."""
    remove()
    size, threads = os.path.getsize(SOURCE), os.cpu_count()
    source, target = os.open(SOURCE, os.O_RDONLY), os.open(TARGET, os.O_RDWR | os.O_CREAT)
    began = time.perf_counter()
    os.truncate(target, size)
    with mmap.mmap(target, size) as mapping, memoryview(mapping) as bytes_of_target:

        def copy(thread):
            buffer = bytearray(part)
            for offset in range(thread * part, size, threads * part):
                with bytes_of_target[offset : offset + part] as place:
                    if has_buffer:
                        os.preadv(source, [buffer], offset)
                        np.copyto(np.frombuffer(place, np.uint8), np.frombuffer(buffer, np.uint8, len(place)))
                    else:
                        os.preadv(source, [place], offset)

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(copy, range(threads)))
        elapsed = time.perf_counter() - began
    os.close(source), os.close(target)
    return size / elapsed / 1e9


def remove():
    if os.path.exists(TARGET):
        os.remove(TARGET)


def ends(count):
    return [slice(0, 8), slice(count - 8, count)]


def clear(count):
    target = np.load(TARGET, mmap_mode="r+")
    for part in ends(count):
        target[part] = 0


def is_equal(once, count):
    """True, or by how much the results differ: a convolution may depend on the number of images."""
    source, target = np.load(SOURCE, mmap_mode="r"), np.load(TARGET, mmap_mode="r")
    wanted = np.concatenate([once(np.ascontiguousarray(source[part])) for part in ends(count)])
    found = np.concatenate([target[part] for part in ends(count)])
    return int(np.abs(wanted.astype(np.int64) - found).max()) or True


def loop(once, count, batch):
    source, target = np.load(SOURCE, mmap_mode="r"), np.load(TARGET, mmap_mode="r+")
    began = time.perf_counter()
    for first in range(0, count, batch):
        target[first : first + batch] = once(np.ascontiguousarray(source[first : first + batch]))
    return source[:count].nbytes / (time.perf_counter() - began) / 1e9


class Images:
    """The images of an npy file, as a source and as a target of a Dask array. Each worker opens the file."""

    def __init__(self, path, count):
        self.path, self.shape, self.dtype, self.ndim = path, (count, SIDE, SIDE), np.dtype(np.uint16), 3

    def __getitem__(self, part):
        return np.ascontiguousarray(np.load(self.path, mmap_mode="r")[part])

    def __setitem__(self, part, images):
        np.load(self.path, mmap_mode="r+")[part] = images


def dask_cuda(once, count):
    """The best rate, its threads and its images in a block. `None` without dask-cuda."""
    try:
        from dask.distributed import Client
        from dask_cuda import LocalCUDACluster
        import dask.array as da
    except ImportError:
        return None

    def rate(images, batch):
        began = time.perf_counter()
        source = da.from_array(Images(SOURCE, images), (batch, SIDE, SIDE), asarray=False, name=False)
        done = source.map_blocks(once, dtype=np.uint16, meta=np.empty((0, 0, 0), np.uint16))
        da.store(done, Images(TARGET, images), lock=False)
        return images * SIDE * SIDE * 2 / (time.perf_counter() - began) / 1e9

    best = (0.0, 0, 0)
    for threads in (1, 4):
        with LocalCUDACluster(CUDA_VISIBLE_DEVICES="0", threads_per_worker=threads) as cluster, Client(cluster):
            few = min(count, 256)
            rate(few, 16)  # starts CUDA in the worker
            batch = max((4, 16, 64), key=lambda batch: rate(few, batch))
            best = max(best, (rate(count, batch), threads, batch))
    return best


def main():
    pages = np.random.default_rng(1).integers(0, 65536, (64, SIDE, SIDE), dtype=np.uint16)
    stack = np.lib.format.open_memmap(SOURCE, "w+", np.uint16, (COUNT, SIDE, SIDE))
    for first in range(0, COUNT, 64):
        stack[first : first + 64] = pages[: COUNT - first]
    del stack
    print(f"cupy {cp.__version__}, torch {torch.__version__}, numpy {np.__version__}; {COUNT} images")
    print("job,contestant,gbps,of_copy,of_copy_through_a_buffer,equal", flush=True)
    runs = {"affine": lambda: map_rate(["affine:1,0"])}
    runs |= {job: lambda stage=stage: map_rate([stage]) for job, (stage, _) in STAGES.items()}
    for run in runs.values():
        run()
    rounds, equal = [], {}
    for _ in range(ROUNDS):
        copies, rates = (copy_rate(False), copy_rate(True)), {}
        for job, run in runs.items():
            rates[job] = run()
            if job in STAGES:
                equal.setdefault(job, set()).add(is_equal(STAGES[job][1], COUNT))
        rounds.append((copies, rates))
    for number, name in enumerate(["copy", "copy through a buffer"]):
        print(f"every,{name},{statistics.median(copies[number] for copies, _ in rounds):.3f},,,", flush=True)
    for job in runs:
        rate = statistics.median(rates[job] for _, rates in rounds)
        of = [statistics.median(rates[job] / copies[number] for copies, rates in rounds) for number in (0, 1)]
        print(f"{job},trijet.map,{rate:.3f},{of[0]:.3f},{of[1]:.3f},{' '.join(map(str, equal.get(job, [])))}", flush=True)
    for job, (_, once) in STAGES.items():
        few = min(COUNT, 256)
        best = max((1, 4, 16, 64), key=lambda batch: loop(once, few, batch))
        many = min(COUNT, 1024)
        clear(many)
        print(f"{job},\"loop, batch {best}\",{loop(once, many, best):.3f},,,{is_equal(once, many)}", flush=True)
        clear(COUNT)
        if of_dask := dask_cuda(once, COUNT):
            rate, threads, batch = of_dask
            print(f"{job},\"dask-cuda, {threads} threads, blocks of {batch}\",{rate:.3f},,,{is_equal(once, COUNT)}", flush=True)
    small = np.zeros((20000, 64, 64), np.uint8)

    @trijet.stage
    def nothing(x, out, stream):
        pass

    times = {}
    for name, step in [("stage", nothing), ("affine", "affine:1,0"), ("stage", nothing), ("affine", "affine:1,0")]:
        report = trijet.map(small, np.empty_like(small), [step], chunk=64 * 64)
        times[name] = report.elapsed
    print(f"per chunk of a stage over affine: {(times['stage'] - times['affine']) / len(small) * 1e6:.2f} us")
    checked = trijet.map(SOURCE, TARGET, [STAGES["cupy gaussian"][0]], overwrite=True, durable=False, check=True, slice=(0, 512))
    print(f"check: {checked.verdict.splitlines()[0]}")


if __name__ == "__main__":  # a worker of Dask imports this file
    main()
