"""Arrays in the memory of a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trijet import _native
from trijet._arrays import bytes_of, dtype_of, name_of

Buffer = _native.Buffer


def empty(shape: Sequence[int], dtype: Any = "float32", device: str = "auto") -> Any:
    """An array in the memory of a device, whose elements have any values.

    NumPy (on the host device), CuPy, PyTorch and others take it without a copy, by DLPack: their stream waits for
    the pending work on the array, and when all of them have dropped it, its memory is used again after the work in
    their streams. A consumer of ``__cuda_array_interface__`` counts as work of the legacy default stream, and one
    that takes it with ``stream=-1`` keeps it until its work is complete.

    >>> import numpy, trijet
    >>> numpy.from_dlpack(trijet.empty((2, 3), "int16", device="host")).shape
    (2, 3)
    """
    return _native.empty(name_of(dtype), list(shape), device)


def asarray(array: Any, device: str = "auto") -> Any:
    """An array of a device with the elements of an array of NumPy.

    >>> import numpy, trijet
    >>> trijet.asarray(numpy.arange(3, dtype="int8"), device="host")
    <trijet.Buffer i8 [3] on host>
    """
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
