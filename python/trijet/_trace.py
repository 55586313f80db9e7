"""The recording of this process."""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from trijet import _native  # type: ignore[attr-defined, unused-ignore]
from trijet._read import Finding, Saved
from trijet.errors import InvalidValueError, TrijetError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NOT_INITIALIZED = 3

# The tracing library that the CUDA driver has loaded into this process. It stays loaded.
_recorder: ctypes.CDLL | None = None
# The reason why the first trace has nothing, if it does.
_trouble: str | None = None
_recording = threading.Lock()


def _loaded(path: str) -> ctypes.CDLL | None:
    """A library that this process has loaded already."""
    try:
        return ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        return None


def _driver() -> ctypes.CDLL | None:
    """The CUDA driver, if this process has initialised it."""
    driver = _loaded(os.environ.get("TRIJET_LIBCUDA", "libcuda.so.1"))
    # Without cuInit, the driver refuses the question.
    if driver is None or driver.cuDeviceGetCount(ctypes.byref(ctypes.c_int())) == _NOT_INITIALIZED:
        return None
    return driver


def _wait_for_gpus() -> None:
    """Waits for the work in the primary contexts of this process. Errors are left to the program."""
    driver = _driver()
    if driver is None:
        return
    count, current = ctypes.c_int(), ctypes.c_void_p()
    driver.cuDeviceGetCount(ctypes.byref(count))
    if driver.cuCtxGetCurrent(ctypes.byref(current)) != 0:
        return
    for device in range(count.value):
        flags, active, context = ctypes.c_uint(), ctypes.c_int(), ctypes.c_void_p()
        driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
        if not active.value or driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) != 0:
            continue
        if driver.cuCtxSetCurrent(context) == 0:
            driver.cuCtxSynchronize()
        driver.cuCtxSetCurrent(current)
        driver.cuDevicePrimaryCtxRelease_v2(device)


@contextmanager
def _environment(variables: list[tuple[str, str]]) -> Iterator[None]:
    """Sets variables that are not set."""
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, _ in variables:
            os.environ.pop(name, None)


class Trace:
    """The trace of a block or a function. :func:`trace` makes it. After the block it has the figures."""

    def __init__(
        self,
        *,
        memory: bool = False,
        whole: bool = False,
        save: str | os.PathLike[str] | None = None,
        record: Sequence[str] | None = None,
        graphs: str = "nodes",
    ) -> None:
        if memory and record is not None and "memory" not in record:
            raise InvalidValueError("memory=True keeps allocations: add 'memory' to record")
        self._record = None if record is None else list(record)
        self._graphs = graphs
        self._memory = memory
        self._whole = whole
        self._save = save
        self._saved: Saved | None = None
        self._native: Any = None
        self._variables: Any = None
        self.memory: str | None = None
        """The allocations of device memory as text for ``trijet replay``, with ``memory=True`` and if there are any."""

    def __enter__(self) -> Trace:
        if self._native is not None or self._saved is not None:
            raise RuntimeError("this trace was used before; make a new one with trijet.trace()")
        if not _recording.acquire(blocking=False):
            raise TrijetError("this process is traced by another trijet.trace() already")
        try:
            self._begin()
        except BaseException:
            if self._variables is not None:
                self._variables.__exit__(None, None, None)
            self._native = self._variables = None
            _recording.release()
            raise
        return self

    def _begin(self) -> None:
        driver = _driver()
        if driver is not None and _recorder is None:
            raise TrijetError(
                "this process has initialised CUDA before, and the driver loads the tracing library only then: "
                "enter trijet.trace() before the first use of the GPU, or run the program with `trijet trace`"
            )
        self._native = _native.Recording(self._record, self._graphs)
        # The tracing library reads the chosen records from the environment.
        self._variables = _environment(self._native.environment())
        self._variables.__enter__()
        if _recorder is not None:
            _wait_for_gpus()
            if _recorder.trijet_trace_resume(os.fsencode(self._native.path)) != 1:
                why = _trouble or "it cannot write to the folder for temporary files, or this process was forked"
                raise TrijetError(f"the tracing library of this process records nothing more: {why}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        except TrijetError:
            # An exception of the block is not replaced.
            if kind is None:
                raise
        finally:
            _recording.release()

    def _end(self) -> None:
        global _recorder, _trouble
        self._variables.__exit__(None, None, None)
        before = _recorder
        _recorder = _recorder or _loaded(str(self._native.library))
        if _recorder is not None:
            _wait_for_gpus()
            _recorder.trijet_trace_pause()
        self._saved = Saved(self._native.finish(self._whole))
        if before is None:
            _trouble = self.missing
        if self.missing is not None:
            return
        if self._memory:
            with suppress(InvalidValueError):
                self.memory = self._saved.allocations()
        if self._save is not None:
            self._saved.save(self._save)

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """A function that is traced at each call. Without ``save``, the summary is printed on standard error."""
        memory, whole, save = self._memory, self._whole, self._save
        record, graphs = self._record, self._graphs

        @functools.wraps(function)
        def traced(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with Trace(memory=memory, whole=whole, save=save, record=record, graphs=graphs) as found:
                result = function(*args, **kwargs)
            if save is None or found.missing is not None:
                print(found, file=sys.stderr)
            return result

        return traced

    @property
    def _done(self) -> Saved:
        if self._saved is None:
            raise RuntimeError("the trace has no figures before the end of its block")
        return self._saved

    @property
    def missing(self) -> str | None:
        """The reason why nothing was traced; None if something was."""
        return self._done.missing

    @property
    def verdict(self) -> str:
        """What a trace proves about races: nothing, because it has no accesses of kernels."""
        return self._done.verdict

    @property
    def findings(self) -> list[Finding]:
        """The habits that cost time, the most expensive first."""
        return self._done.findings

    def summary(self) -> str:
        """The text that ``trijet trace`` prints."""
        return self._done.summary()

    def json(self) -> dict[str, Any]:
        """Every figure, with the names of docs/json.md."""
        return self._done.json()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves a page if the name ends with ``.html``, and otherwise a file that :func:`trijet.read` reads."""
        self._done.save(path)

    def __repr__(self) -> str:
        return "<trijet.trace without an end>" if self._saved is None else str(self._saved)

    def _repr_html_(self) -> str:
        return self._done._repr_html_()


@overload
def trace(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def trace(
    *,
    memory: bool = False,
    whole: bool = False,
    save: str | os.PathLike[str] | None = None,
    record: Sequence[str] | None = None,
    graphs: str = "nodes",
) -> Trace: ...
def trace(
    function: Callable[..., Any] | None = None,
    /,
    *,
    memory: bool = False,
    whole: bool = False,
    save: str | os.PathLike[str] | None = None,
    record: Sequence[str] | None = None,
    graphs: str = "nodes",
) -> Any:
    """Records what this process does on its GPUs in a block, or in a function, with CUPTI.

    The CUDA driver loads the tracing library when a process initialises CUDA. So the first trace of a process must
    begin before that, and is refused otherwise; later traces may begin at any time. All threads are traced, and
    processes that start inside. Both ends of the block wait for the GPUs. CUPTI accepts one subscriber: after a
    trace, ``torch.profiler`` gets no records of the GPU in this process, and after ``torch.profiler`` nothing is
    traced, which ``missing`` and the summary tell.

    The figures are about the steps of the block; with ``whole`` they are about all of it. ``memory`` also keeps the
    allocations. ``save`` saves a page or a file at the end. A function is traced at each call, and its summary is
    printed on standard error if ``save`` is not given.

    ``record`` has the records beside operations and calls: ``ranges`` and ``memory`` by default, ``events``, and
    ``environment``. With ``graphs="launch"``, each launch of a CUDA graph is recorded as a whole, without its nodes.

    >>> import trijet
    >>> with trijet.trace(memory=True) as t:
    ...     pass  # training steps
    >>> t.missing is None  # nothing ran on a GPU
    False
    >>> t.save("run.html")  # doctest: +SKIP
    """
    made = Trace(memory=memory, whole=whole, save=save, record=record, graphs=graphs)
    return made if function is None else made(function)
