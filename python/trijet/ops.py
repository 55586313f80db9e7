"""The operations of ``trijet map`` as steps of :func:`trijet.map`.

Each computes the same bits on a GPU and on the processors. ``edges`` is the mode of SciPy with that name:
``nearest``, ``reflect``, ``mirror``, ``constant`` (zeros) or ``wrap``. With ``z``, a window also has that many
images before and after its own. ``docs/operations.md`` describes them.

>>> import numpy, trijet
>>> trijet.map(numpy.array([[0, 100, 200]], "u1"), [trijet.ops.threshold(99, 7)])
array([[0, 7, 7]], dtype=uint8)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from trijet import _native
from trijet._arrays import bytes_of, name_of

__all__ = [
    "Operation",
    "affine",
    "background",
    "bin",
    "clip",
    "convert",
    "crop",
    "divide",
    "flatfield",
    "gaussian",
    "maximum",
    "median",
    "minimum",
    "percentile",
    "project",
    "rank",
    "rescale",
    "subtract",
    "swap",
    "threshold",
]


class Operation:
    """An operation with its parameters."""

    def __init__(self, name: str, **parameters: Any) -> None:
        self._name = name
        self._parameters = {key: value for key, value in parameters.items() if value is not None}
        self._native()

    def _native(self) -> Any:
        images, given = [], []
        for key, value in self._parameters.items():
            if isinstance(value, np.ndarray):
                image = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("="), copy=False))
                if image.ndim != 2:
                    raise ValueError(f"{key} is one image of two axes, and not an array of shape {image.shape}")
                images.append((f"{key} of the program", name_of(image.dtype), list(image.shape), bytes_of(image)))
                value = f"{key} of the program"
            given.append(f"{key}={value}")
        text = f"{self._name}:{','.join(given)}" if given else self._name
        return _native.Operation.of_text(text, images)

    def __repr__(self) -> str:
        given = ", ".join(f"{key}={value!r}" for key, value in self._parameters.items())
        return f"trijet.ops.{self._name}({given})"


def median(radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """The median of the square of 2R+1 by 2R+1 pixels around each pixel, as ``scipy.ndimage.median_filter``."""
    return Operation("median", radius=radius, edges=edges, z=z)


def percentile(percent: float, radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """The percentile of the window around each pixel, as ``scipy.ndimage.percentile_filter``."""
    return Operation("percentile", percent=percent, radius=radius, edges=edges, z=z)


def rank(rank: int, radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """The element of a rank in the window around each pixel; rank 0 is the smallest."""
    return Operation("rank", rank=rank, radius=radius, edges=edges, z=z)


def gaussian(sigma: float, edges: str = "nearest", z: float = 0) -> Operation:
    """``scipy.ndimage.gaussian_filter`` with ``truncate=4``; ``sigma`` in pixels, below 7.875."""
    return Operation("gaussian", sigma=sigma, edges=edges, z=z)


def minimum(radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """The smallest element of the window around each pixel; the radius is at most 31."""
    return Operation("minimum", radius=radius, edges=edges, z=z)


def maximum(radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """The largest element of the window around each pixel; the radius is at most 31."""
    return Operation("maximum", radius=radius, edges=edges, z=z)


def background(radius: int = 1, edges: str = "nearest", z: int = 0) -> Operation:
    """Subtracts the maximum of the minimum of the window (an opening): structures larger than it."""
    return Operation("background", radius=radius, edges=edges, z=z)


def crop(y: slice | str = ":", x: slice | str = ":") -> Operation:
    """Keeps these rows and columns of each image: ``crop(slice(100, 900), slice(50, None))``."""

    def text(part: slice | str) -> str:
        if isinstance(part, str):
            return part
        if part.step not in (None, 1):
            raise ValueError("a crop has no step")
        return f"{'' if part.start is None else part.start}:{'' if part.stop is None else part.stop}"

    return Operation("crop", y=text(y), x=text(x))


def bin(by: int, how: str = "mean", z: int = 1) -> Operation:  # noqa: A001
    """One pixel for ``by`` by ``by`` pixels, and for ``z`` images: their ``"mean"`` or ``"sum"``."""
    return Operation("bin", by=by, how=how, z=z)


def project(how: str, axis: int = 1) -> Operation:
    """One value along an axis: ``how`` is ``"max"``, ``"min"``, ``"mean"``, ``"sum"`` or ``"std"``."""
    return Operation("project", how=how, axis=axis)


def affine(scale: float = 1, offset: float = 0) -> Operation:
    """``scale * x + offset``, each rounded; integers are limited to the range of their type."""
    return Operation("affine", scale=scale, offset=offset)


def rescale(lo: float, hi: float, to_lo: float, to_hi: float, dtype: Any = None) -> Operation:
    """Maps the values from lo..hi to to_lo..to_hi, and clips values outside."""
    kind = None if dtype is None else _short(dtype)
    return Operation("rescale", lo=lo, hi=hi, to_lo=to_lo, to_hi=to_hi, type=kind)


def clip(low: float, high: float) -> Operation:
    """Limits the values to low..high."""
    return Operation("clip", low=low, high=high)


def threshold(above: float, value: int = 1) -> Operation:
    """``value`` where the element is above ``above``, and 0 elsewhere, as uint8."""
    return Operation("threshold", above=above, value=value)


def convert(dtype: Any) -> Operation:
    """Converts the elements: rounded to the nearest, and limited to the range of integers."""
    return Operation("convert", type=_short(dtype))


def flatfield(dark: Any, flat: Any, scale: float = 1) -> Operation:
    """``scale * (x - dark) / (flat - dark)`` as float32. Images are arrays or paths."""
    return Operation("flatfield", dark=_image(dark), flat=_image(flat), scale=scale)


def subtract(image: Any) -> Operation:
    """``x - image`` as float32. The image is an array or a path."""
    return Operation("subtract", image=_image(image))


def divide(image: Any) -> Operation:
    """``x / image`` as float32, and 0 where the image is 0. The image is an array or a path."""
    return Operation("divide", image=_image(image))


def swap() -> Operation:
    """Reverses the bytes of each element."""
    return Operation("swap")


def _image(value: Any) -> Any:
    return value if isinstance(value, np.ndarray) else os.fspath(value)


def _short(dtype: Any) -> str:
    """The name of a type in the library: ``u16`` for ``uint16``."""
    names = dict(_native.dtype_names())
    if isinstance(dtype, str) and dtype in names.values():
        return dtype
    return names[name_of(dtype)]
