"""Writes windows.txt and windows.bin: filters of scipy.ndimage on drawn arrays.

    NPY_DISABLE_CPU_FEATURES=X86_V4 python windows.py

Without its code for AVX-512, numpy.exp is the exp of the C library, as in Rust, and the weights of
Gaussians have the same bits. Each line of windows.txt is a case:

    operation, parameters, edges, type, shape

and windows.bin has the input and the output of each case, one after another. SciPy has no 16 bit
floats: ranks and extremes are computed in float32, which holds every 16 bit float, and each pass of
a Gaussian in float64, rounded after the pass. Integers of 64 bits stay below 2^53, because SciPy
computes with float64. There are no NaN and no -0.
"""

import math
import pathlib

import ml_dtypes
import numpy as np
import scipy
import scipy.ndimage as nd

EDGES = ["nearest", "reflect", "mirror", "constant", "wrap"]
TYPES = {
    "u8": "u1", "u16": "u2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8",
    "f16": "f2", "bf16": ml_dtypes.bfloat16, "f32": "f4", "f64": "f8",
}
SHAPES = [(5, 7), (2, 4, 5), (2, 2, 3, 4), (1, 12), (11, 1)]
FOLDER = pathlib.Path(__file__).parent

arguments = -8 * np.random.default_rng(0).random(1000)
assert np.exp(arguments).tolist() == [math.exp(one) for one in arguments], "see above"

random = np.random.default_rng(20261126)
lines = [f"# numpy {np.__version__}, scipy {scipy.__version__}, ml_dtypes {ml_dtypes.__version__}"]
blob = bytearray()


def drawn(name, shape):
    """Integers of the whole range, at most 2^53; floats of several sizes, some of them equal."""
    dtype = np.dtype(TYPES[name])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        least, most = max(info.min, -(2**53)), min(info.max, 2**53)
        return random.integers(least, most, shape, endpoint=True, dtype=dtype)
    x = random.normal(size=shape) * 10.0 ** random.integers(-3, 3, shape)
    return np.where(random.random(shape) < 0.2, 0.25, x).astype(dtype)


def wide(x):
    return x.astype("f4") if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x


def volumes(x):
    """The array as volumes of images, as trijet has it."""
    shape = x.shape if len(x.shape) > 1 else x.shape + (1,)
    return x.reshape((-1,) + ((1,) * (3 - len(shape)) + shape)[-3:])


def each(x, function):
    found = np.stack([function(wide(volume)) for volume in volumes(x)])
    return found.reshape(x.shape).astype(x.dtype)


def gaussian(x, sigma, mode):
    for axis, one in enumerate(sigma):
        if one == 0:
            continue
        if x.dtype.itemsize == 2 and x.dtype.kind not in "iu":
            passed = nd.gaussian_filter1d(x.astype("f8"), one, axis=axis, mode=mode)
            x = passed.astype(x.dtype)
        else:
            x = nd.gaussian_filter1d(x, one, axis=axis, mode=mode)
    return x


def gaussians(x, sigma, mode):
    if x.dtype.itemsize != 2 or x.dtype.kind in "iu":
        # The passes above are the passes of gaussian_filter.
        for volume in volumes(x):
            whole = nd.gaussian_filter(volume, sigma, mode=mode)
            assert np.array_equal(whole, gaussian(volume, sigma, mode))
    found = np.stack([gaussian(volume, sigma, mode) for volume in volumes(x)])
    return found.reshape(x.shape)


def case(operation, parameters, edges, name, shape, function):
    x = drawn(name, shape)
    with np.errstate(over="ignore"):
        y = function(x)
    assert y.dtype == x.dtype and y.shape == x.shape
    numbers = " ".join(str(one) for one in parameters)
    axes = "x".join(str(axis) for axis in shape)
    lines.append(f"{operation}, {numbers}, {edges}, {name}, {axes}")
    # ml_dtypes' arrays have no little-endian code; this machine is little-endian.
    blob.extend(x.tobytes() + y.tobytes())


def pick(items):
    return items[random.integers(len(items))]


for name in TYPES:
    for edges in EDGES:
        size = lambda radius: [2 * r + 1 for r in radius]
        radius = pick([(0, 1, 1), (0, 2, 3), (0, 4, 2), (1, 1, 1), (2, 1, 3)])
        percentile = pick([0, 12.5, 33, 50, 99, 100])
        case("percentile", (*radius, percentile), edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.percentile_filter(v, percentile, size(radius), mode=edges)))
        rank = int(random.integers(np.prod(size(radius))))
        case("rank", (*radius, rank), edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.rank_filter(v, rank, size(radius), mode=edges)))
        case("median", radius, edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.median_filter(v, size(radius), mode=edges)))
        radius = pick([(0, 1, 1), (0, 5, 2), (0, 0, 9), (1, 2, 0), (3, 1, 1)])
        case("minimum", radius, edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.minimum_filter(v, size(radius), mode=edges)))
        case("maximum", radius, edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.maximum_filter(v, size(radius), mode=edges)))
        case("opening", radius, edges, name, pick(SHAPES), lambda x: each(
            x, lambda v: nd.white_tophat(v, size(radius), mode=edges)))
        for sigma in [(0, 1.0, 1.0), pick([(0, 0.4, 2.5), (1.5, 0, 0), (0.7, 1.1, 0.9), (0, 0, 4.0)])]:
            case("gaussian", sigma, edges, name, pick(SHAPES), lambda x: gaussians(x, sigma, edges))

# Sums next to an integer: the fraction is dropped.
for name in ["u8", "u16", "i32"]:
    flat = lambda x: gaussians(np.full_like(x, np.iinfo(x.dtype).max), (0, 1.3, 2.2), "reflect")
    x = np.full((6, 7), np.iinfo(np.dtype(TYPES[name])).max, TYPES[name])
    lines.append(f"gaussian, 0 1.3 2.2, reflect, {name}, 6x7")
    blob.extend(x.tobytes() + flat(x).tobytes())

(FOLDER / "windows.txt").write_text("\n".join(lines) + "\n")
(FOLDER / "windows.bin").write_bytes(blob)
