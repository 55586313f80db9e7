"""Arrays in the memory of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trijet import _native
from trijet._arrays import bytes_of, dtype_of, name_of

Buffer = _native.Buffer

_CUDA = 2
"""The type of devices of DLPack."""


def empty(shape: Sequence[int], dtype: Any = "float32", device: str = "auto") -> Any:
    """An array in the memory of a device, whose elements have any values.

    NumPy (on the host device), CuPy, PyTorch and others take it without a copy, by DLPack: their stream waits for
    the pending work on the array. Their later work, in any stream, comes before later uses of the array by this
    package, and before the memory of a dropped array is used again: their streams may be destroyed meanwhile. For
    this, it follows all work of the GPU, which needs a driver for CUDA 12.5 (with an older one it waits on the host).
    The driver ends a capture of a graph that goes on in any stream then, so do not use or make arrays during a
    capture.

    >>> import numpy, trijet
    >>> numpy.from_dlpack(trijet.empty((2, 3), "int16", device="host")).shape
    (2, 3)
    """
    return _native.empty(name_of(dtype), list(shape), device)


def asarray(array: Any, device: str = "auto") -> Any:
    """An array of a device with the elements of ``array``.

    An array in the memory of a GPU is taken without a copy: by DLPack, or by ``__cuda_array_interface__`` if it has
    only that, where ``device`` names its GPU. Its producer's pending work comes first. Any other array is converted
    by NumPy and uploaded.

    >>> import numpy, trijet
    >>> trijet.asarray(numpy.arange(3, dtype="int8"), device="host")
    <trijet.Buffer i8 [3] on host>
    """
    if hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == _CUDA:
        found = _native.from_dlpack(array, None)
        if device not in ("auto", found.device):
            raise BufferError(f"the array is on {found.device}, and not on {device}; copy it there first")
        return found
    if hasattr(array, "__cuda_array_interface__"):
        return _native.from_interface(array, device)
    own = np.ascontiguousarray(array)
    own = own.astype(own.dtype.newbyteorder("="), copy=False)
    return _native.upload(bytes_of(own), name_of(own.dtype), list(own.shape), device)


def from_dlpack(array: Any, /, *, copy: bool | None = None) -> Any:
    """A :class:`Buffer` over the memory of an array of another package, without a copy.

    The producer makes its pending work come first, by the DLPack protocol. ``copy=True`` demands a copy, and
    ``copy=False`` refuses one.

    >>> import numpy, trijet
    >>> x = numpy.arange(4.0)
    >>> numpy.from_dlpack(trijet.from_dlpack(x)).ctypes.data == x.ctypes.data
    True
    """
    return _native.from_dlpack(array, copy)


def to_numpy(array: Any) -> np.ndarray[Any, Any]:
    """A copy of a :class:`Buffer` in the memory of the host. Waits for the pending work on it."""
    return np.frombuffer(array.tobytes(), dtype_of(array.dtype)).reshape(array.shape)
