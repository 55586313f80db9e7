"""A large stack through every format, and one large image, under a limit of memory.

    formats_large.py BUNDLE FOLDER GIB MEMORY SIDE [DEVICE]

Maps a stack of GIB GiB to each format that is written, and back to npy, both with `--memory MEMORY`, and
compares the bytes. Then maps one image of SIDE x SIDE u16 pixels through a median of 3 x 3 pixels, and
compares strips of the result with SciPy. Prints CSV: the format, the rates there and back in GB/s, the
highest resident memory of the runs without the pages of files and without page-locked memory, and whether
the bytes are equal.
"""
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import scipy.ndimage

BUNDLE, FOLDER, GIB, MEMORY, IMAGE = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
DEVICE = sys.argv[6] if len(sys.argv) > 6 else "cuda:0"
SIDE = 2048
PAGES = GIB * 2**30 // (SIDE * SIDE * 2)


def at(name):
    return os.path.join(FOLDER, name)


def run(source, target, operation="affine:1,0"):
    """The rate in GB/s, and the highest anonymous memory in GiB, sampled while the run goes on."""
    call = [os.path.join(BUNDLE, "trijet"), "map", at(source), "-o", at(target), "--op", operation, "--json"]
    call += ["--memory", MEMORY, "--no-sync", "--device", DEVICE, "--overwrite"]
    with subprocess.Popen(call, stdout=subprocess.PIPE, text=True) as process:
        most = 0
        while process.poll() is None:
            try:
                with open(f"/proc/{process.pid}/status") as status:
                    fields = dict(line.split(":", 1) for line in status)
                most = max(most, int(fields["RssAnon"].split()[0]))
            except (FileNotFoundError, KeyError, ProcessLookupError):
                pass
        told = process.stdout.read()
    if process.returncode:
        sys.exit(f"{source} to {target} failed")
    ran = json.loads(told)
    return ran["bytes_in"] / ran["elapsed_ns"], most / 2**20


def image():
    """One image whose rows are those of a smaller one in turn, with a median of 3 x 3 pixels."""
    tile = np.random.default_rng(2).integers(0, 65536, (1000, IMAGE), dtype=np.uint16)
    pixels = np.lib.format.open_memmap(at("image.npy"), "w+", np.uint16, (IMAGE, IMAGE))
    for first in range(0, IMAGE, 1000):
        pixels[first:first + 1000] = tile[:IMAGE - first]
    rate, most = run("image.npy", "median.npy", "median:1")
    result = np.load(at("median.npy"), mmap_mode="r")
    equal = True
    for first in (0, IMAGE // 2, IMAGE - 8):
        start, end = max(first - 1, 0), min(first + 9, IMAGE)
        strip = scipy.ndimage.median_filter(pixels[start:end], 3, mode="nearest")
        equal &= np.array_equal(strip[first - start:first - start + 8], result[first:first + 8])
    print(f"one image of {IMAGE} x {IMAGE},{rate:.3f},,{most:.2f},{equal}", flush=True)


def main():
    pages = np.random.default_rng(1).integers(0, 65536, (64, SIDE, SIDE), dtype=np.uint16)
    stack = np.lib.format.open_memmap(at("in.npy"), "w+", np.uint16, (PAGES, SIDE, SIDE))
    for first in range(0, PAGES, 64):
        stack[first:first + 64] = pages[:PAGES - first]
        stack[first] = first
    del stack
    print("format,to_gbps,from_gbps,memory_gib,equal", flush=True)
    for extension in ("npy", "tif", "h5", "mrc", "zarr"):
        target = f"out.{extension}"
        there, first = run("in.npy", target)
        back, second = run(target, "back.npy")
        equal = subprocess.run(["cmp", at("in.npy"), at("back.npy")]).returncode == 0
        print(f"{extension},{there:.3f},{back:.3f},{max(first, second):.2f},{equal}", flush=True)
        shutil.rmtree(at(target)) if os.path.isdir(at(target)) else os.remove(at(target))
    os.remove(at("in.npy")), os.remove(at("back.npy"))
    image()


main()
