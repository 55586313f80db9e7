"""Functions of the program as stages."""

from __future__ import annotations

import functools
import inspect
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from trijet import _native
from trijet._arrays import bytes_of, dtype_of, name_of
from trijet._identity import Unstable, identity

_OWN = ("version", "out_shape")
_BOUNDARIES = {"periodic": "wrap"}

__all__ = ["Stage", "array_module", "array_of", "bytes_of", "empty_of", "stage"]


def array_of(data: bytes, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The input of a call on the host device. It is only read."""
    return np.frombuffer(data, np.uint8).view(dtype_of(dtype)).reshape(shape)


def empty_of(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The output of a call on the host device."""
    return np.empty(shape, dtype_of(dtype))


def array_module(x: Any) -> Any:
    """The package whose functions take the array: ``numpy``, ``cupy`` or ``torch``."""
    if isinstance(x, np.ndarray):
        return np
    kind = type(x).__module__.split(".")[0]
    if kind == "torch":
        import torch

        return torch
    import cupy

    return cupy


def _copied(out: Any, result: Any) -> None:
    """Copies what a function has returned into the array that the pipeline writes."""
    if result is None:
        return
    if tuple(result.shape) != tuple(out.shape):
        raise ValueError(f"the stage returned an array of shape {tuple(result.shape)}, and {tuple(out.shape)} is needed")
    out[...] = result


def _cupy_stream(cupy: Any, stream: Any) -> Any:
    """The stream of a stage as a stream of CuPy."""
    make = getattr(getattr(cupy.cuda, "Stream", None), "from_external", None)  # CuPy 14 has it
    return cupy.cuda.ExternalStream(stream.handle, stream.device) if make is None else make(stream)


def _call_of(function: Callable[..., Any], arrays: str) -> Callable[[Any, Any, Any], None]:
    """The function that the pipeline calls for each chunk."""
    names = list(inspect.signature(function).parameters)
    takes_out, takes_stream = "out" in names, "stream" in names

    def called(x: Any, out: Any, stream: Any) -> Any:
        if takes_out:
            return function(x, out, stream) if takes_stream else function(x, out)
        return function(x, stream) if takes_stream else function(x)

    def on_host(x: Any, out: Any, stream: Any) -> None:
        if arrays != "torch":
            return _copied(out, called(x, out, stream))
        import torch

        _copied(torch.from_numpy(out), called(torch.tensor(x), torch.from_numpy(out), stream))

    def with_cupy(x: Any, out: Any, stream: Any) -> None:
        import cupy

        with cupy.cuda.Device(stream.device), _cupy_stream(cupy, stream):
            own = cupy.from_dlpack(out)
            _copied(own, called(cupy.from_dlpack(x), own, stream))

    def with_torch(x: Any, out: Any, stream: Any) -> None:
        import torch

        with torch.cuda.stream(torch.cuda.ExternalStream(stream.handle, device=stream.device)):
            own = torch.from_dlpack(out)
            _copied(own, called(torch.from_dlpack(x), own, stream))

    def with_device_arrays(x: Any, out: Any, stream: Any) -> None:
        result = called(x, out, stream)
        if result is not None:
            raise TypeError(
                "a stage over device arrays writes `out` and returns nothing; with arrays='cupy' or "
                "arrays='torch' it may return its result"
            )

    on_gpu = {"cupy": with_cupy, "torch": with_torch, "device": with_device_arrays}[arrays]

    def call(x: Any, out: Any, stream: Any) -> None:
        on_host(x, out, stream) if stream.device < 0 else on_gpu(x, out, stream)

    return call


class Stage:
    """A function as a step of :func:`trijet.map`. Made by :func:`stage`."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._options = options

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function itself."""
        return self._function(*args, **kwargs)

    def _native(self) -> Any:
        options = self._options
        shape = options["out_shape"]
        if shape is not None and not callable(shape):
            fixed = list(shape)
            shape_of: Any = lambda _own: fixed  # noqa: E731
        else:
            shape_of = shape
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        version = options["version"] or self.identity or f"only once: {uuid.uuid4()}"
        kept = ", ".join(f"{key}={value}" for key, value in options.items() if value and key not in _OWN)
        return _native.Stage(
            _call_of(self._function, options["arrays"]),
            f"{name} {version} {kept}".strip(),
            options["halo"],
            options["edges"],
            options["out_dtype"],
            shape_of,
        )

    @property
    def identity(self) -> str | None:
        """A hash of the function and of everything that it uses; None if it uses an object without a stable form."""
        shape = self._options["out_shape"]
        try:
            return identity((self._function, shape if callable(shape) else tuple(shape or ())))
        except Unstable:
            return None

    def demand_identity(self) -> None:
        """Refuses a stage that a later run could not recognise."""
        if self._options["version"] is None:
            shape = self._options["out_shape"]
            identity((self._function, shape if callable(shape) else ()))

    def __repr__(self) -> str:
        return f"<trijet.Stage {getattr(self._function, '__qualname__', '')}>"


def _halo(value: int | Sequence[int] | Mapping[int, int]) -> int:
    """The halo of the first axis. The other axes are whole, so a halo there is allowed and needs nothing."""
    if isinstance(value, Mapping):
        return int(value.get(0, 0))
    return int(next(iter(value), 0)) if isinstance(value, Sequence) else int(value)


@overload
def stage(function: Callable[..., Any], /) -> Stage: ...
@overload
def stage(
    *,
    arrays: str = "device",
    halo: int | Sequence[int] = 0,
    edges: str = "nearest",
    out_dtype: Any = None,
    out_shape: Sequence[int] | Callable[[tuple[int, ...]], Sequence[int]] | None = None,
    version: str | None = None,
    depth: int | Sequence[int] | Mapping[int, int] | None = None,
    boundary: str | None = None,
) -> Callable[[Callable[..., Any]], Stage]: ...
def stage(
    function: Callable[..., Any] | None = None,
    /,
    *,
    arrays: str = "device",
    halo: int | Sequence[int] = 0,
    edges: str = "nearest",
    out_dtype: Any = None,
    out_shape: Sequence[int] | Callable[[tuple[int, ...]], Sequence[int]] | None = None,
    version: str | None = None,
    depth: int | Sequence[int] | Mapping[int, int] | None = None,
    boundary: str | None = None,
) -> Any:
    """Makes a function over device arrays a step of :func:`trijet.map`.

    The function is called for each chunk, with any of the parameters ``x``, ``out`` and ``stream``, in this
    order. ``x`` has whole items of the first axis: images of a stack. ``out`` is written completely. The
    function enqueues its work in ``stream``, and does not wait for it, so that other chunks are copied
    meanwhile. The arrays are valid during the call only.

    ``arrays`` is the package of the arrays. With ``"cupy"`` and ``"torch"`` the stream is the current stream
    of the package, and a function without ``out`` returns its result. With ``"device"`` the arrays are
    :class:`DeviceArray` objects, which other packages take by DLPack or ``__cuda_array_interface__``. On the
    host device, ``x`` and ``out`` are arrays of NumPy (tensors with ``"torch"``): :func:`array_module`.

    ``halo`` is the number of items that ``x`` has before and after the items of ``out``; beyond the ends of the
    array, ``edges`` is the mode of SciPy with that name. ``out_dtype`` is the type of ``out``, and
    ``out_shape`` the shape of an item of it: a tuple, or a function of the shape of an item of ``x``.
    ``depth`` and ``boundary`` are dask's names of ``halo`` and ``edges``. ``version`` names the function in a
    run that is resumed; by default its code and the values that it uses do.

    >>> import numpy, trijet
    >>> @trijet.stage(out_dtype="f4", out_shape=())
    ... def mean(x, out):
    ...     out[...] = trijet.array_module(x).asarray(x).mean((1, 2))
    >>> trijet.map(numpy.ones((3, 4, 4), "u1"), [mean], device="host")
    array([1., 1., 1.], dtype=float32)
    """
    if arrays not in ("device", "cupy", "torch"):
        raise ValueError(f"arrays is 'device', 'cupy' or 'torch', and not {arrays!r}")
    edges = boundary if boundary is not None else edges
    options = {
        "arrays": arrays,
        "halo": _halo(halo if depth is None else depth),
        "edges": _BOUNDARIES.get(edges, edges),
        "out_dtype": None if out_dtype is None else name_of(out_dtype),
        "out_shape": out_shape,
        "version": version,
    }
    if function is not None:
        return Stage(function, options)
    return lambda function: Stage(function, options)
