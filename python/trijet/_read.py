"""Saved runs."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from typing import Any

from trijet import _native  # type: ignore[attr-defined, unused-ignore]

_PAGE_BYTES_MAX = 5_000_000


@dataclass(frozen=True)
class Finding:
    """A habit of a program that costs time."""

    rule: str
    """The name of the rule, such as ``"PERF/GPU-IDLE"``; ``trijet explain`` explains it."""
    text: str
    """What was found, in words."""
    seconds: float
    """What the fix saves: the gain of a trace's finding, if it has one, and otherwise an estimate.

    The estimates of several findings overlap, and do not add up."""
    fix: str | None
    """What to do about it."""


class Saved:
    """A saved run: a ledger, or a trace. :func:`read` makes it. ``print(saved)`` prints what the command prints."""

    def __init__(self, native: Any) -> None:
        self._native = native

    @property
    def kind(self) -> str:
        """``"ledger"`` or ``"trace"``."""
        return str(self._native.kind)

    @property
    def verdict(self) -> str:
        """The verdict of the checker about a ledger. A trace has no accesses of kernels, so it is not checked."""
        found = self._native.verdict
        return str(found[0]) if found else str(self.json()["races"])

    @property
    def is_clean(self) -> bool | None:
        """Whether the verdict has no error; None for a trace."""
        found = self._native.verdict
        return bool(found[1]) if found else None

    @property
    def missing(self) -> str | None:
        """The reason why nothing was traced; None if something was, and for a ledger."""
        reason = self._native.missing
        return None if reason is None else str(reason)

    @property
    def findings(self) -> list[Finding]:
        """The habits that cost time, the most expensive first."""
        found = self.json()
        if self.kind == "ledger":
            all_ = [
                Finding(one["rule"], one["text"], one["saved_ns"] / 1e9, one["fix"]) for one in found["lints"] or []
            ]
        else:
            all_ = [
                Finding(
                    one["key"],
                    one["title"],
                    (one["cost_ns"] if one["gain_ns"] is None else one["gain_ns"]) / 1e9,
                    one["fix"],
                )
                for process in found["processes"]
                for device in process["devices"]
                for one in device["findings"]
            ]
        return sorted(all_, key=lambda one: -one.seconds)

    def summary(self) -> str:
        """The text of ``trijet check FILE`` or ``trijet trace --read FILE``."""
        return str(self._native.summary())

    def json(self) -> dict[str, Any]:
        """Every figure, with the names of docs/json.md."""
        found: dict[str, Any] = json.loads(self._native.json())
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves a trace: a page if the name ends with ``.html``, and otherwise a file that :func:`read` reads.

        An existing file is replaced.
        """
        self._native.save(os.fspath(path))

    def allocations(self) -> str:
        """The allocations of device memory of a trace, as text for ``trijet replay``."""
        return str(self._native.memory())

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        if self.kind == "trace" and self.missing is None:
            page = str(self._native.page())
            if len(page) <= _PAGE_BYTES_MAX:
                return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:600px;border:0"></iframe>'
        return f"<pre>{html.escape(str(self))}</pre>"


def read(path: str | os.PathLike[str], *, whole: bool = False) -> Saved:
    """Reads a saved run: a ledger, a file of ``trijet trace -o``, or a folder of such files. No GPU is needed.

    A ledger is checked for races, as ``trijet check FILE`` does. The figures of a trace are about the steps of the
    program; with ``whole`` they are about the whole run.

    >>> import trijet
    >>> run = trijet.read("run.trijet")  # doctest: +SKIP
    >>> run.findings[0].rule  # doctest: +SKIP
    'PERF/GPU-IDLE'
    >>> run.save("run.html")  # doctest: +SKIP
    """
    return Saved(_native.Saved.read(os.fspath(path), whole))
