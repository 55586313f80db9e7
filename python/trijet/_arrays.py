"""Arrays of other packages as sources and targets of jobs."""

from __future__ import annotations

import os
from typing import Any, Protocol, runtime_checkable

import numpy as np

from trijet import _native


@runtime_checkable
class ArrayLike(Protocol):
    """An array that is read or written by parts along its first axis: of h5py, zarr or dask."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def dtype(self) -> Any: ...

    def __getitem__(self, index: Any, /) -> Any: ...


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of NumPy with this name. ``bfloat16`` needs the package ml_dtypes."""
    if name == "bfloat16":
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found
    return np.dtype(name)


def name_of(dtype: Any) -> str:
    """The name of a type of elements, for the library. A bool is read as an unsigned byte."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return dtype
    found = np.dtype(dtype)
    return "uint8" if found == np.bool_ else found.newbyteorder("=").name


def bytes_of(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of an array in C order, without a copy."""
    return array.reshape(-1).view(np.uint8)


def is_path(value: object) -> bool:
    """Whether a source or a target is the path of a file or a folder."""
    return isinstance(value, (str, os.PathLike))


def path_of(array: Any) -> str | None:
    """The path under which the library itself can read an array of h5py or zarr; None if there is none."""
    kind = type(array).__module__.split(".")[0]
    path: str | None
    try:
        if kind == "h5py" and array.file.mode == "r":
            path = f"{array.file.filename}::{array.name}"
        elif kind == "zarr" and type(array.store).__name__ in ("LocalStore", "DirectoryStore"):
            root = getattr(array.store, "root", None) or array.store.path
            path = os.path.join(os.fspath(root), array.path)
        else:
            return None
    except (AttributeError, TypeError):
        return None
    return path if path and _native.can_open(path) else None


def _file_of(array: Any) -> str | None:
    """The file of a path or a memmap, or of an array of h5py or zarr with its name inside."""
    if is_path(array):
        return str(os.path.realpath(array))
    if isinstance(array, np.memmap) and array.filename is not None:
        return os.path.realpath(array.filename)
    try:
        return f"{os.path.realpath(array.file.filename)}::{array.name}"
    except (AttributeError, TypeError):
        return None


def refuse_shared(source: Any, target: Any) -> None:
    """Refuses a target whose memory or file the run also reads: later chunks would read results."""
    shares = source is target and not is_path(source)
    if isinstance(source, np.ndarray) and isinstance(target, np.ndarray):
        shares = shares or np.may_share_memory(source, target)
    elif not (is_path(source) and is_path(target)):
        # Two paths are compared by the library.
        own, other = _file_of(source), _file_of(target)
        shares = shares or (own is not None and own == other)
    if shares:
        raise ValueError("the source and the target share memory or a file; use another target")


def source_of(source: Any, options: dict[str, Any]) -> Any:
    """The source of a job. ``options`` are about files of plain bytes."""
    if is_path(source):
        return _native.PathSource(os.fspath(source), **options)
    if any(value for value in options.values()):
        named = next(name for name, value in options.items() if value)
        raise TypeError(f"`{named}` is about files, and the source is an array")
    path = path_of(source)
    if path is not None:
        return _native.PathSource(path)
    if isinstance(source, (list, tuple)):
        source = np.asarray(source)
    if isinstance(source, np.ndarray) and source.flags.c_contiguous:
        big = source.dtype.byteorder == ">"
        return _native.MemorySource(bytes_of(source), name_of(source.dtype), list(source.shape), big)
    if not isinstance(source, ArrayLike):
        raise TypeError(f"{type(source).__name__} is no source: pass a path or an array")

    def read(first: int, last: int) -> np.ndarray[Any, Any]:
        part = np.asarray(source[first:last])
        return bytes_of(np.ascontiguousarray(part.astype(part.dtype.newbyteorder("="), copy=False)))

    return _native.PullSource(read, name_of(source.dtype), list(source.shape))


def _checked(target: Any, dtype: str, shape: list[int]) -> None:
    if tuple(target.shape) != tuple(shape) or name_of(target.dtype) != dtype:
        raise ValueError(
            f"the target is {name_of(target.dtype)} {tuple(target.shape)}, and the result is {dtype} {tuple(shape)}"
        )


class MadeTarget:
    """A target in memory. The array is known after the run."""

    def __init__(self, array: np.ndarray[Any, Any] | None = None) -> None:
        self.array = array
        self.native = _native.MemoryTarget(self._make)

    def _make(self, dtype: str, shape: list[int]) -> np.ndarray[Any, Any]:
        if self.array is None:
            self.array = np.empty(shape, dtype_of(dtype))
        _checked(self.array, dtype, shape)
        return bytes_of(self.array)


def target_of(target: Any, any_name: bool) -> Any:
    """The target of a job."""
    if is_path(target):
        return _native.PathTarget(os.fspath(target), any_name)
    if isinstance(target, np.ndarray):
        if not target.flags.c_contiguous or not target.flags.writeable:
            raise ValueError("a target array must be in C order, and writable")
        if target.dtype.byteorder == ">" or target.dtype == np.bool_:
            raise ValueError(f"a target array must have little-endian numbers, and not {target.dtype}")
        return MadeTarget(target).native
    if not isinstance(target, ArrayLike) or not hasattr(target, "__setitem__"):
        raise TypeError(f"{type(target).__name__} is no target: pass a path or an array")
    checked = False

    def write(dtype: str, shape: list[int], first: int, last: int, data: bytes) -> None:
        nonlocal checked
        if not checked:
            _checked(target, dtype, shape)
            checked = True
        target[first:last] = np.frombuffer(data, dtype_of(dtype)).reshape(last - first, *shape[1:])

    return _native.PushTarget(write)
