"""Rates of `trijet map` from and to each file format, beside npy in the same run.

    formats.py BUNDLE FOLDER GIB [DEVICE]

BUNDLE has the programs `trijet` and `xtask`. FOLDER is in memory (tmpfs). Needs tifffile, imagecodecs,
h5py, hdf5plugin, zarr 3 and mrcfile. Prints CSV: the direction, the format, the median of the rates in
GB/s, the rate of npy in the same rounds, the median of the ratios of the rounds, and for encoded inputs the
rate of decoding alone in the same rounds, and the median of the ratios to it. `numpy again` is a second npy file: the file alone makes this difference. The
direction `max` is a run whose result is the maximum along the rows of each image, so that the output takes
no time; the direction `axis 1` reads the stack along its second axis. Every result is compared with NumPy's.
ROUNDS and FORMATS are variables of the environment.
"""
import json
import os
import shutil
import statistics
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import h5py
import hdf5plugin
import mrcfile
import numpy as np
import tifffile
import zarr

BUNDLE, FOLDER, GIB = sys.argv[1], sys.argv[2], float(sys.argv[3])
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "cuda:0"
SIDE, ROUNDS = 2048, int(os.environ.get("ROUNDS", 7))
PAGES = int(GIB * 2**30) // (SIDE * SIDE * 2)
THREADS = os.cpu_count()


def at(name):
    return os.path.join(FOLDER, name)


def stack():
    """Camera images: Poisson noise on a slow background, 32 different pages in turn."""
    draw = np.random.default_rng(1)
    y, x = np.mgrid[0:SIDE, 0:SIDE] / SIDE
    pages = np.stack([draw.poisson(400 + 300 * np.sin(6 * x + n) * y) for n in range(32)]).astype(np.uint16)
    return pages[np.arange(PAGES) % 32]


def run(source, target, *options):
    """The rate of a run in GB/s of elements. The target is written over if it exists."""
    call = [os.path.join(BUNDLE, "trijet"), "map", at(source), "-o", at(target), "--json"]
    call += ["--no-sync", "--device", DEVICE, *(options or ("--op", "affine:1,0"))]
    call += ["--overwrite"] if os.path.exists(at(target)) else []
    ran = subprocess.run(call, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{source} to {target}: {ran.stderr}")
    return PAGES * SIDE * SIDE * 2 / json.loads(ran.stdout)["elapsed_ns"]


def decoded(source):
    """The rate of decoding alone, with all processors."""
    call = [os.path.join(BUNDLE, "xtask"), "read-all", at(source)]
    words = subprocess.run(call, capture_output=True, text=True, check=True).stdout
    return float(words.split(", ")[-1].split()[0]) / 1000


def gzip_chunks(path, data):
    """What h5py writes with compression="gzip", compressed by all processors."""
    shape = (1, *data.shape[1:])
    with h5py.File(path, "w") as file, ThreadPoolExecutor(THREADS) as threads:
        stored = file.create_dataset("data", data.shape, data.dtype, chunks=shape, compression="gzip")
        for page, packed in enumerate(threads.map(lambda page: zlib.compress(page, 4), data)):
            stored.id.write_direct_chunk((page, 0, 0), packed)


def row(direction, name, call, *beside):
    """Prints the medians of runs in turn, and of their ratios. `call` is the first run in every other round."""
    rates = []
    for number in range(ROUNDS):
        first = call() if number % 2 == 0 else None
        others = [other() for other in beside]
        rates.append((first or call(), *others))
    own, *others = (statistics.median(column) for column in zip(*rates))
    ratios = (statistics.median(one[0] / one[at] for one in rates) for at in range(1, len(beside) + 1))
    cells = ",".join(f"{rate:.3f},{ratio:.3f}" for rate, ratio in zip(others, ratios))
    print(f"{direction},{name},{own:.3f},{cells}", flush=True)


def main():
    data = stack()
    npy = lambda: run("in.npy", "out.npy")
    greatest = ("--op", "project:max")
    np.save(at("in.npy"), data)
    deflate = dict(compression="zlib", maxworkers=THREADS)
    h5 = lambda **options: lambda path: h5py.File(path, "w").create_dataset("data", data=data, **options).file.close()
    chunk = (1, SIDE, SIDE)
    inputs = {
        "numpy again": ("again.npy", lambda path: np.save(path, data)),
        "tifffile": ("in.tif", lambda path: tifffile.imwrite(path, data, bigtiff=True)),
        "h5py": ("in.h5", h5()),
        "mrcfile": ("in.mrc", lambda path: mrcfile.write(path, data)),
        "zarr plain": ("plain.zarr", lambda path: zarr.create_array(path, data=data, chunks=chunk, compressors=None)),
        "tifffile zlib": ("zlib.tif", lambda path: tifffile.imwrite(path, data, bigtiff=True, **deflate)),
        "tifffile lzw": ("lzw.tif", lambda path: tifffile.imwrite(path, data, bigtiff=True, **{**deflate, "compression": "lzw"})),
        "zarr default": ("zstd.zarr", lambda path: zarr.create_array(path, data=data, chunks=chunk)),
        "h5py bitshuffle lz4": ("bslz4.h5", h5(chunks=chunk, **hdf5plugin.Bitshuffle())),
        "h5py gzip 4": ("gzip.h5", lambda path: gzip_chunks(path, data)),
    }
    every = [*inputs, "axis 1", "tif", "h5", "mrc", "zarr"]
    only = os.environ["FORMATS"].split(",") if "FORMATS" in os.environ else every
    print("direction,format,gbps,npy_gbps,of_npy,decoding_gbps,of_decoding", flush=True)
    for name, (file, write) in inputs.items():
        if name not in only:
            continue
        write(at(file))
        run("in.npy", "out.npy"), run(file, "out.npy")
        assert np.array_equal(np.load(at("out.npy"), mmap_mode="r"), data), name
        is_encoded = " " in name and name not in ("zarr plain", "numpy again")
        alone = [lambda: decoded(file)] if is_encoded else []
        row("in", name, lambda: run(file, "out.npy"), npy, *alone)
        if is_encoded:
            run(file, "max.npy", *greatest)
            assert np.array_equal(np.load(at("max.npy")), data.max(axis=1)), name
            row("max", name, lambda: run(file, "max.npy", *greatest), lambda: run("in.npy", "max.npy", *greatest), *alone)
        shutil.rmtree(at(file)) if os.path.isdir(at(file)) else os.remove(at(file))
    if "axis 1" in only:
        along = ("--axis", "1", "--op", "affine:1,0")
        run("in.npy", "out.npy", *along)
        assert np.array_equal(np.load(at("out.npy"), mmap_mode="r"), data.swapaxes(0, 1)), "axis 1"
        row("axis 1", "npy", lambda: run("in.npy", "out.npy", *along), npy)
    npy()
    os.remove(at("out.npy"))
    read = {
        "tif": tifffile.imread,
        "h5": lambda path: h5py.File(path)["data"][:],
        "mrc": lambda path: mrcfile.read(path),
        "zarr": lambda path: zarr.open_array(path)[:],
    }
    for extension, load in read.items():
        if extension not in only:
            continue
        target = f"out.{extension}"
        run("in.npy", "out.npy"), run("in.npy", target)
        assert np.array_equal(load(at(target)), data), extension
        row("out", extension, lambda: run("in.npy", target), npy)
        shutil.rmtree(at(target)) if os.path.isdir(at(target)) else os.remove(at(target))


if __name__ == "__main__":
    main()
