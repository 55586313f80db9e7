"""The heap of the library as the allocator of PyTorch and CuPy.

>>> import trijet.alloc as ta
>>> ta.install(limit="70 GiB")  # doctest: +SKIP
('torch', 'cupy')
>>> ta.stats()  # doctest: +SKIP
Stats(live=1048576, live_high=1048576, reserved=2097152, reserved_high=2097152, driver_calls=3, waits=0)

Both then share one heap for each GPU: memory that one frees is memory for the other, in the order of their
streams. The page docs/allocator.md tells how it works, and what does not work with it: CUDA graphs, sharing memory
between processes, and the statistics of ``torch.cuda.memory_stats``.

Nothing is loaded before the first call.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trijet._streams import stream_handle
from trijet.errors import FileError, InvalidValueError, OutOfMemoryError, TrijetError

__all__ = ["Stats", "forget_stream", "install", "library_path", "stats"]

_HERE = Path(__file__).with_name("libtrijet_alloc.so")


@dataclass(frozen=True)
class Stats:
    """The statistics of the heap of a device. All sizes are in bytes."""

    live: int
    """What is allocated, rounded up to whole units of the heap."""
    live_high: int
    """The maximum of ``live`` so far."""
    reserved: int
    """The memory that the heap has from the device."""
    reserved_high: int
    """The maximum of ``reserved`` so far."""
    driver_calls: int
    """The number of driver calls that took memory, recorded events or made streams wait."""
    waits: int
    """The number of these calls that made a stream wait."""


class _Statistics(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in Stats.__dataclass_fields__]


def library_path() -> Path:
    """The path of ``libtrijet_alloc.so``: ``$TRIJET_ALLOC``, or the file in this package."""
    named = os.environ.get("TRIJET_ALLOC")
    path = Path(named).absolute() if named else _HERE
    if not path.is_file():
        why = "which $TRIJET_ALLOC names" if named else "set $TRIJET_ALLOC to the path of the library"
        raise FileError(f"{path} does not exist; {why}")
    return path


@functools.cache
def _library() -> ctypes.CDLL:
    path = library_path()
    size, device, pointer = ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p
    try:
        library = ctypes.CDLL(str(path))
        for name, result, arguments in [
            ("trijet_alloc", pointer, [size, device, pointer]),
            ("trijet_free", None, [pointer, size, device, pointer]),
            ("trijet_record_stream", None, [pointer, pointer]),
            ("trijet_forget_stream", device, [device, pointer]),
            ("trijet_alloc_limit", device, [ctypes.c_uint64]),
            ("trijet_alloc_stats", device, [device, ctypes.POINTER(_Statistics)]),
            ("trijet_alloc_last_error", ctypes.c_char_p, []),
        ]:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise FileError(f"{path} cannot be loaded: {error}") from error
    return library


def _last_error() -> str:
    text: bytes | None = _library().trijet_alloc_last_error()
    return (text or b"the library tells no reason").decode(errors="replace")


def _checked(status: int) -> None:
    if status != 0:
        raise TrijetError(_last_error())


# The streams that CuPy has allocated in, by device and handle. The library may still use a stream after its last
# array, so a stream is not destroyed before `forget_stream`.
_streams: dict[tuple[int, int], Any] = {}
_installed: dict[str, Any] = {}
_installing = threading.Lock()


class _Block:
    """Memory that is freed with the last array of CuPy that uses it."""

    def __init__(self, size: int, device: int, stream: int) -> None:
        library = _library()
        self.address: int = library.trijet_alloc(size, device, stream) or 0
        if not self.address:
            raise OutOfMemoryError(_last_error())
        self._free = functools.partial(library.trijet_free, self.address, size, device, stream)

    def __del__(self, is_finalizing: Any = sys.is_finalizing) -> None:
        # When the interpreter ends, CUDA may have ended before.
        if getattr(self, "_free", None) is not None and not is_finalizing():
            self._free()


def _install_cupy(cupy: Any) -> Any:
    cuda = cupy.cuda

    def allocate(size: int) -> Any:
        device = int(cuda.runtime.getDevice())
        if size == 0:
            return cuda.MemoryPointer(cuda.UnownedMemory(0, 0, None, device), 0)
        stream = cuda.get_current_stream()
        block = _Block(size, device, stream.ptr)
        _streams.setdefault((device, stream.ptr), stream)
        return cuda.MemoryPointer(cuda.UnownedMemory(block.address, size, block, device), 0)

    cuda.set_allocator(allocate)
    return allocate


def _install_torch(torch: Any) -> Any:
    late = "PyTorch has already started its own allocator; call trijet.alloc.install() before the first tensor on a GPU"
    if torch.cuda.is_initialized():
        raise TrijetError(late)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(_library()._name, "trijet_alloc", "trijet_free")
    # Without this call, `Tensor.record_stream` does nothing, and memory of two streams is given away too early.
    record = ctypes.cast(_library().trijet_record_stream, ctypes.c_void_p).value
    allocator.allocator().set_record_stream_fn(record)
    try:
        torch.cuda.memory.change_current_allocator(allocator)
    except RuntimeError as error:
        raise TrijetError(f"{late} ({error})") from error
    return allocator


def install(
    limit: int | str | None = None, *, torch: bool | None = None, cupy: bool | None = None
) -> tuple[str, ...]:
    """Makes PyTorch and CuPy allocate from the heap of the library, and returns their names.

    Call it before the first tensor on a GPU. By default, it is for the packages that the program has imported;
    ``torch=True`` or ``cupy=True`` imports the package, and False leaves it out. ``limit`` is the most memory in
    bytes, or as ``"70 GiB"``, that the heap of each GPU takes; a second call may change it, and ``None`` leaves it
    as it is.

    Memory of CuPy is freed in the stream that was current when it was made. A stream of CuPy that memory was made
    in lives until the process ends, or until :func:`forget_stream`. The default streams of threads, as in
    ``cupy.cuda.Stream.ptds``, are refused.
    """
    from trijet._map import _bytes

    wanted = {"torch": torch, "cupy": cupy}
    names = [name for name, use in wanted.items() if use or (use is None and name in sys.modules)]
    if not names:
        raise InvalidValueError("import torch or cupy first, or pass torch=True or cupy=True")
    most = _bytes(limit)
    if most is not None and most <= 0:
        raise InvalidValueError(f"the limit is {limit!r}, and must be more than 0 bytes")
    with _installing:
        library = _library()
        for name in names:
            if name not in _installed:
                make = _install_torch if name == "torch" else _install_cupy
                _installed[name] = make(importlib.import_module(name))
        if most is not None:
            _checked(library.trijet_alloc_limit(most))
    return tuple(names)


def stats(device: int = 0) -> Stats:
    """The statistics of the heap of the GPU with this number; -1 is the device that runs on the processor.

    All are 0 if nothing was allocated on the device.
    """
    found = _Statistics()
    _checked(_library().trijet_alloc_stats(device, ctypes.byref(found)))
    return Stats(*(int(getattr(found, name)) for name in Stats.__dataclass_fields__))


def forget_stream(stream: Any, device: int = 0) -> None:
    """Forgets a stream that memory was made in, so that it can be destroyed.

    ``stream`` is a stream of CuPy, PyTorch or ``cuda.core``, any object with ``__cuda_stream__``, or a handle. Call
    it after the last array of the stream is gone.
    """
    handle = stream_handle(stream)
    _checked(_library().trijet_forget_stream(device, handle))
    _streams.pop((device, handle), None)
