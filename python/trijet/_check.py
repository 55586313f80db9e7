"""Checks of jobs for races: a context manager and a decorator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import nullcontext, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, overload

from trijet import _program
from trijet._program import ProgramFinding
from trijet.errors import CheckError, TrijetError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_ACTIVE: ContextVar[Check | None] = ContextVar("trijet.check", default=None)


@dataclass(frozen=True)
class Verdict:
    """The verdict of the checker about one job."""

    job: str
    """The array and the operations of the job."""
    text: str
    """The verdict, as the command prints it."""
    is_clean: bool
    """Whether there is no error. There may be warnings."""

    def __str__(self) -> str:
        return f"{self.job}\n{self.text}"


class Check:
    """The jobs of a block or of a function, and the verdicts about them. :func:`check` makes it."""

    def __init__(self, *, raises: bool = True, program: bool = False, kernels: bool = False) -> None:
        if kernels and not program:
            raise ValueError("`kernels=True` is a part of `program=True`")
        self.verdicts: list[Verdict] = []
        """The verdict about each job that has ended, in order."""
        self.findings: list[ProgramFinding] = []
        """With ``program=True``, the conflicts in the calls of this process, after the block."""
        self.trouble: str | None = None
        """The reason why calls of this process were not recorded, if some were not."""
        self._raises = raises
        self._program = program
        self._kernels = kernels
        self._token: Token[Check | None] | None = None

    @property
    def races(self) -> list[Verdict]:
        """The verdicts that are not clean."""
        return [verdict for verdict in self.verdicts if not verdict.is_clean]

    @property
    def errors(self) -> list[ProgramFinding]:
        """The conflicts in the calls of this process that are errors."""
        return [finding for finding in self.findings if finding.is_error]

    @property
    def is_clean(self) -> bool:
        """Whether no job and no call had an error so far, and all calls that should be checked were recorded."""
        return not self.races and not self.errors and self.trouble is None

    def raise_if_races(self) -> None:
        """Raises :class:`trijet.errors.CheckError` with the verdicts and conflicts that are errors, if there is one.
        Raises :class:`trijet.errors.TrijetError` if calls were not recorded."""
        if self.races or self.errors:
            raise CheckError(self.words())
        if self.trouble is not None:
            raise TrijetError(f"calls of this process were not recorded: {self.trouble}")

    def words(self) -> str:
        """The verdicts and conflicts that are errors."""
        return "\n".join(str(one) for one in [*self.races, *self.errors])

    def __enter__(self) -> Check:
        if self._token is not None:
            raise RuntimeError("this check is already entered; make a new one with trijet.check()")
        if self._program:
            if why := _program.begin(self._kernels):
                raise TrijetError(f"the calls of this process cannot be checked: {why}")
            # Findings from before the block belong to the check around it, if there is one.
            before, around = _program.look(), active()
            if around is not None and around._program:
                around.findings += before
        self._token = _ACTIVE.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            _ACTIVE.reset(self._token)
            self._token = None
        # An exception of the block is not replaced.
        with suppress(TrijetError) if kind is not None else nullcontext():
            if self._program:
                self.findings += _program.look()
                self.trouble = _program.trouble()
        if self._raises and kind is None:
            self.raise_if_races()

    def __call__(self, function: Callable[_P, _R]) -> Callable[_P, _R]:
        """A function that runs inside a check of its own at each call."""
        options = {"raises": self._raises, "program": self._program, "kernels": self._kernels}
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"{function.__name__} is a generator: use `with trijet.check():` in its body")
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def waited(*args: _P.args, **kwargs: _P.kwargs) -> Any:
                with Check(**options):
                    return await function(*args, **kwargs)

            return waited  # type: ignore[return-value]

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with Check(**options):
                return function(*args, **kwargs)

        return checked

    def __repr__(self) -> str:
        return f"<trijet.check: {len(self.verdicts)} jobs, {len(self.races)} with errors>"

    def _add(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)


@overload
def check(function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
@overload
def check(*, raises: bool = True, program: bool = False, kernels: bool = False) -> Check: ...
def check(
    function: Callable[..., Any] | None = None, /, *, raises: bool = True, program: bool = False, kernels: bool = False
) -> Any:
    """Checks every job that this thread starts in a block, or in a function.

    Inside, :func:`trijet.map` runs with ``check=True``, and its verdict is collected instead of raised. Leaving
    the block raises :class:`trijet.errors.CheckError` if a job had a race, unless ``raises`` is false or the block
    itself has raised. Other threads are not checked. The innermost of several checks gets the verdict.

    With ``program=True``, the calls of the whole process to the CUDA driver are recorded from then on, as
    ``trijet check -- PROGRAM`` does, and conflicts that calls of the block have revealed are its ``findings``: of
    copies, fills, frees and the host, whatever library made them. The driver loads the recorder when the process
    initialises CUDA, so the first such check must come before; otherwise it raises
    :class:`trijet.errors.TrijetError`. A profiler cannot be used in the same process. With ``kernels=True`` too, the memory
    that kernels access is recorded, as by ``trijet check --kernels``: the block ends when its kernels have, and kernels
    take many times as long.

    >>> import numpy, trijet
    >>> with trijet.check() as c:
    ...     x = trijet.map(numpy.ones((2, 4, 4), "uint8"), ["affine:2"], device="host")
    >>> len(c.verdicts), c.is_clean
    (1, True)

    As a decorator, it checks each call:

    >>> @trijet.check
    ... def double(x):
    ...     return trijet.map(x, ["affine:2"], device="host")
    >>> double(numpy.ones((1, 1, 2), "uint8"))
    array([[[2, 2]]], dtype=uint8)
    """
    made = Check(raises=raises, program=program, kernels=kernels)
    return made if function is None else made(function)


def active() -> Check | None:
    """The innermost check of this thread; None outside of every check."""
    return _ACTIVE.get()
