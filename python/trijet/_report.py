"""Reports and plans of jobs."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from typing import Any

_PAGE_BYTES_MAX = 5_000_000


@dataclass(frozen=True)
class Loss:
    """Time that an engine was idle."""

    cause: str
    """The cause in words."""
    seconds: float
    """The idle time."""
    fix: str | None
    """What to do about it, if the user can do something."""


_FACTS = (
    "fraction limit losses elapsed rows kept_rows bytes_in bytes_out is_complete left_out damaged verdict is_clean devices"
).split()
_TEXTS = "brief full json page".split()


class _Kept:
    """The facts and the texts of a report that another process has made."""

    def __init__(self, facts: dict[str, Any], texts: dict[str, Any]) -> None:
        self.__dict__.update(facts)
        for name, text in texts.items():
            setattr(self, name, lambda text=text: text)


class Report:
    """The report of a run. ``print(report)`` prints the few lines of the command, and Jupyter shows the page."""

    def __init__(self, native: Any) -> None:
        self._native = native

    def __getstate__(self) -> tuple[dict[str, Any], dict[str, Any]]:
        facts = {name: getattr(self._native, name) for name in _FACTS}
        return facts, {name: getattr(self._native, name)() for name in _TEXTS}

    def __setstate__(self, state: tuple[dict[str, Any], dict[str, Any]]) -> None:
        self._native = _Kept(*state)

    @property
    def fraction(self) -> float | None:
        """The bound of the run divided by its time: 1 is perfect. None if no bound is known."""
        return self._native.fraction  # type: ignore[no-any-return]

    @property
    def limit(self) -> str | None:
        """The part that limited the run, such as ``"link"``, ``"compute"``, ``"reader"`` or ``"writer"``."""
        return self._native.limit  # type: ignore[no-any-return]

    @property
    def losses(self) -> list[Loss]:
        """The time that the run lost, by cause."""
        return [Loss(*loss) for loss in self._native.losses]

    @property
    def elapsed(self) -> float:
        """The time of the run in seconds, without the start of the devices."""
        return self._native.elapsed  # type: ignore[no-any-return]

    @property
    def rows(self) -> int:
        """The number of rows that the run has computed."""
        return self._native.rows  # type: ignore[no-any-return]

    @property
    def kept_rows(self) -> int:
        """The number of rows of an earlier run that were kept."""
        return self._native.kept_rows  # type: ignore[no-any-return]

    @property
    def bytes_in(self) -> int:
        """The bytes that were read."""
        return self._native.bytes_in  # type: ignore[no-any-return]

    @property
    def bytes_out(self) -> int:
        """The bytes that were written."""
        return self._native.bytes_out  # type: ignore[no-any-return]

    @property
    def is_complete(self) -> bool:
        """Whether the target is complete. Otherwise other processes may still write their rows."""
        return self._native.is_complete  # type: ignore[no-any-return]

    @property
    def left_out(self) -> list[str]:
        """Parts of the source that the target does not have."""
        return self._native.left_out  # type: ignore[no-any-return]

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """The damaged images that were skipped: the name of each, and the reason."""
        return self._native.damaged  # type: ignore[no-any-return]

    @property
    def verdict(self) -> str | None:
        """The verdict of the checker, with ``check=True``."""
        return self._native.verdict  # type: ignore[no-any-return]

    @property
    def devices(self) -> list[str]:
        """The names of the devices."""
        return self._native.devices  # type: ignore[no-any-return]

    def json(self) -> list[dict[str, Any]]:
        """Every figure of each device, with the names of docs/json.md."""
        return json.loads(self._native.json())  # type: ignore[no-any-return]

    def full(self) -> str:
        """Every figure as text."""
        return self._native.full()  # type: ignore[no-any-return]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the page with the timeline, as HTML."""
        page = self._native.page()
        if page is None:
            raise ValueError("nothing was run, so there is no timeline")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)

    def __str__(self) -> str:
        return self._native.brief()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        page = self._native.page()
        if page is None or len(page) > _PAGE_BYTES_MAX:
            return f"<pre>{html.escape(str(self))}</pre>"
        return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:600px;border:0"></iframe>'


class Plan:
    """The plan of a job."""

    def __init__(self, native: Any) -> None:
        self.shape: tuple[int, ...] = tuple(native.shape)
        """The shape of the result."""
        self.dtype: str = native.dtype
        """The name of the element type of the result in NumPy."""
        self.operation: str = native.operation
        """The operations."""
        self.bytes_in: int = native.bytes_in
        """The bytes that are read."""
        self.bytes_out: int = native.bytes_out
        """The bytes that are written."""
        self.chunks: int = native.chunks
        """The number of chunks."""
        self.slots: int = native.slots
        """The number of chunks in flight."""
        self.pinned_bytes: int = native.pinned_bytes
        """The page-locked host memory."""
        self.device_bytes: int = native.device_bytes
        """The memory of the device."""
        self.copies_seconds: float = native.copies_seconds
        """The least time of the copies on a modelled H200."""
        self.left_out: list[str] = native.left_out
        """Parts of the source that the target does not have."""
        self.refused: str | None = native.refused
        """The reason why the run would be refused."""

    def __repr__(self) -> str:
        return (
            f"{self.dtype} {self.shape}, {self.operation}\n"
            f"reads {self.bytes_in} bytes, writes {self.bytes_out} bytes\n"
            f"chunks: {self.chunks}, {self.slots} in flight\n"
            f"memory: {self.pinned_bytes} bytes page-locked, {self.device_bytes} bytes of the device\n"
            f"time: at least {self.copies_seconds:.3g} s for the copies of a modelled H200"
        )
