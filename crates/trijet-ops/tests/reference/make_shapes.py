"""Writes shapes.cases: results of NumPy and scikit-image that tests/shapes/reference.rs compares.

Versions: numpy 2.4.6, scikit-image 0.26.0, ml_dtypes 0.6.0.

    pip install numpy==2.4.6 scikit-image==0.26.0 ml_dtypes==0.6.0
    python3 make_shapes.py

Each case is the length of a JSON text in 4 bytes (little-endian), the text, the bytes of the input
and the bytes of the output. Floats are results with a tolerance if the text has "tolerance": the
order of NumPy's additions is another one.
"""

import json
import pathlib
import struct

import ml_dtypes
import numpy as np
from skimage.measure import block_reduce

TYPES = {
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "i32": np.int32, "u64": np.uint64,
    "i64": np.int64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32,
    "f64": np.float64,
}
INTEGERS = [name for name, of in TYPES.items() if np.issubdtype(of, np.integer)]
random = np.random.default_rng(39)
cases = []


def drawn(name, shape):
    of = TYPES[name]
    if name in INTEGERS:
        info = np.iinfo(of)
        low, high = max(info.min, -3000), min(info.max, 3000)
        return random.integers(low, high, shape, dtype=of, endpoint=True)
    return (random.standard_normal(shape) * random.choice([1.0, 100.0])).astype(of)


def shape_of(axes):
    return tuple(int(n) for n in random.integers(1, 7, axes))


def case(operation, x, y, tolerance=None, **more):
    names = {np.dtype(of): name for name, of in TYPES.items()}
    text = {"operation": operation, "x": [names[x.dtype], x.shape], "y": [names[y.dtype], y.shape]}
    if tolerance is not None:
        text["tolerance"] = tolerance
    text |= more
    encoded = json.dumps(text, separators=(",", ":")).encode()
    cases.append(struct.pack("<I", len(encoded)) + encoded + x.tobytes() + y.tobytes())


def converted(x, name):
    """The type `name` of values, rounded to nearest and held to the range."""
    of = TYPES[name]
    if name not in INTEGERS:
        return x.astype(of)
    info = np.iinfo(of)
    if np.issubdtype(x.dtype, np.integer):
        return np.array([min(max(int(v), info.min), info.max) for v in x.flat], of).reshape(x.shape)
    rounded = np.rint(x.astype(np.float64))
    held = [min(max(int(v), info.min), info.max) for v in rounded.flat]
    return np.array(held, of).reshape(x.shape)


for name in TYPES:
    for to in TYPES:
        x = drawn(name, shape_of(2))
        # From 64 bit integers and f64, NumPy and ml_dtypes round twice on the way to bf16.
        if to != "bf16" or name in ("u8", "u16", "f16", "f32", "bf16"):
            case({"convert": to}, x, converted(x, to))
    x = drawn(name, shape_of(3))
    case({"swap": 0}, x, x.byteswap() if name != "bf16" else
         x.view(np.uint16).byteswap().view(ml_dtypes.bfloat16))
    low, high = sorted(float(v) for v in random.integers(-50, 200, 2))
    low = max(low, 0.0) if name.startswith("u") else low
    high = max(high, low)
    case({"clip": [low, high]}, x, np.clip(x.astype(np.float64), low, high).astype(x.dtype))
    case({"threshold": low}, x, (x.astype(np.float64) > low).astype(np.uint8))
    short = name in ("u8", "u16", "f16", "bf16", "f32")
    of = np.float32 if short else np.float64
    case({"affine": [0.37, -4.25]}, x,
         converted(of(0.37) * x.astype(of) + of(-4.25), name))
    v = np.clip(x.astype(np.float64), -20.0, 130.5)
    case({"rescale": [-20.0, 130.5, 0.0, 255.0]}, x,
         converted((v + 20.0) / 150.5 * 255.0 + 0.0, name))
    dark, flat = drawn("u8", x.shape[1:]), drawn("u16", x.shape[1:])
    flat.flat[0] = dark.flat[0]
    divisor = flat.astype(np.float64) - dark
    with np.errstate(all="ignore"):
        field = np.where(divisor == 0, 0, (x.astype(np.float64) - dark) / divisor)
    case({"field": [dark.tolist(), flat.tolist()]}, x, field.astype(np.float32))
    case({"crop": [0, 1, 0, 1]}, x, np.ascontiguousarray(x[:, 0:1, 0:1]))
    for how in ("mean", "sum"):
        x = drawn(name, tuple(int(n) for n in random.integers(4, 9, 3)))
        by = [int(n) for n in random.integers(1, 4, 3)]
        kept = x[tuple(slice(0, n // f * f) for n, f in zip(x.shape, by))]
        if how == "sum":
            wide = {"u8": "u32", "u16": "u32", "u32": "u64", "i32": "i64", "f16": "f32",
                    "bf16": "f32", "f32": "f32"}.get(name, name)
            of = TYPES[wide] if name in INTEGERS else np.float64
            y = block_reduce(kept.astype(of), tuple(by), np.sum).astype(TYPES[wide])
        else:
            y = converted(block_reduce(kept.astype(np.float64), tuple(by), np.mean), name)
        # The last bit of a float may differ.
        tolerance = None if name in INTEGERS else {"f16": 2e-3, "bf16": 1e-2}.get(name, 1e-6)
        if how == "sum" and name not in INTEGERS:
            tolerance = 1e-6
        case({"bin": [by, how]}, x, y, tolerance)
    for axis in (1, 2):
        x = drawn(name, shape_of(3))
        wide = "f64" if name == "f64" else "f32"
        for how in ("max", "min"):
            case({"project": [axis, how]}, x, getattr(x, how)(axis))
        for how in ("mean", "std"):
            y = getattr(x.astype(np.float64), how)(axis).astype(TYPES[wide])
            case({"project": [axis, how]}, x, y, 1e-6)
        if name in INTEGERS:
            case({"project": [axis, "sum"]}, x, x.sum(axis))
        else:
            y = x.astype(np.float64).sum(axis).astype(TYPES[wide])
            case({"project": [axis, "sum"]}, x, y, 1e-6)

pathlib.Path(__file__).with_name("shapes.cases").write_bytes(b"".join(cases))
print(len(cases), "cases")
