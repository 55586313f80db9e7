"""The calls of this process to the CUDA driver, which a check judges."""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

from trijet import _native  # type: ignore[attr-defined, unused-ignore]
from trijet._trace import _driver, _loaded
from trijet.errors import TrijetError

# The recording, which lasts until the process ends. A forked child has none.
_watched: Any = None
_process = 0
# Whether the memory that kernels access is recorded too.
_has_kernels = False
# Whether the recorder writes no more.
_ended = False
_lock = threading.Lock()


@dataclass(frozen=True)
class ProgramFinding:
    """A conflict between calls of this process, or with an access of the host."""

    text: str
    """The report, as ``trijet check -- PROGRAM`` prints it."""
    is_error: bool
    """Whether it is an error. If not, it is a possible conflict with an argument of a kernel."""

    def __str__(self) -> str:
        return self.text


def begin(kernels: bool = False) -> str | None:
    """Begins to record the calls of this process, if it does not yet. Returns the reason why it cannot."""
    global _watched, _process, _has_kernels
    with _lock:
        if _watched is not None:
            if _process != os.getpid():
                return "this process was forked from one that is checked"
            return None if _has_kernels or not kernels else "they are recorded without what kernels access"
        if _driver() is not None:
            return (
                "this process has initialised CUDA before, and the driver loads the recorder only then: begin the check "
                "before the first use of the GPU, or run the program with `trijet check -- PROGRAM`"
            )
        try:
            watched = _native.WatchedProcess(kernels)
        except TrijetError as error:
            return str(error)
        # The driver reads them when the process initialises CUDA, which may be after the check.
        os.environ.update(watched.environment())
        _watched, _process, _has_kernels = watched, os.getpid(), kernels
        return None


def end() -> None:
    """Ends a recording that the driver has not begun, so that the environment is as it was before."""
    global _watched
    with _lock:
        if _watched is None or _process != os.getpid() or _loaded(str(_watched.library)) is not None:
            return
        for name, value in _watched.environment():
            if os.environ.get(name) == value:
                del os.environ[name]
        _watched = None


def look() -> list[ProgramFinding]:
    """The findings since the last look."""
    global _ended
    with _lock:
        if _watched is None or _process != os.getpid():
            return []
        recorder = _loaded(str(_watched.library))
        if recorder is not None and recorder.trijet_calls_flush() != 1:
            _ended = True
        return [ProgramFinding(text, is_error) for text, is_error in _watched.look()]


def calls() -> int:
    """The number of calls up to the last look."""
    return 0 if _watched is None else int(_watched.calls)


def trouble() -> str | None:
    """The reason why calls were not recorded, if some were not."""
    if _watched is None:
        return None
    return _watched.trouble or ("the recorder has ended" if _ended else None)
