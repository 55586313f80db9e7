"""Kernels of the user."""

from __future__ import annotations

import operator
import os
from typing import Any

from trijet import _native
from trijet._arrays import name_of


def _number(value: Any) -> float | int | str:
    """A number of Python. An integer of NumPy is an ``int``, and not a ``float``."""
    if isinstance(value, str):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return float(value)


class Kernel:
    """A kernel in CUDA C++, PTX or a cubin, as a step of :func:`trijet.map`.

    ``code`` is the path of a file (.cu, .ptx, .cubin), or CUDA C++ itself if it has more than one line.
    ``entry`` is the name of the kernel. Its signature is on the page docs/your-kernel.md. ``args`` are its
    further arguments, in order: an int is passed as ``int``, a float as ``float``, and a text has its own type,
    such as ``"3u64"`` or ``"2.5f64"``. ``halo`` is the number of rows that the kernel reads before and after
    its own. ``out_dtype`` is the type that it writes, and with ``out_rows="1/2"`` it writes one row for two.

    The kernel runs only on a GPU. Its code is compiled when the job starts, even without one.
    """

    def __init__(
        self,
        code: str | os.PathLike[str],
        entry: str,
        *,
        halo: int | None = None,
        out_dtype: Any = None,
        out_rows: str | None = None,
        **args: float | str,
    ) -> None:
        self._code = os.fspath(code)
        self._entry = entry
        self._halo = halo
        self._out_dtype = None if out_dtype is None else name_of(out_dtype)
        self._out_rows = out_rows
        self._args = {name: _number(value) for name, value in args.items()}

    def _native(self) -> Any:
        is_source = "\n" in self._code
        file = f"{self._entry}.cu" if is_source else self._code
        source = self._code if is_source else None
        args = list(self._args.items())
        return _native.Operation.of_kernel(
            file, source, self._entry, args, self._halo, self._out_dtype, self._out_rows
        )

    def __repr__(self) -> str:
        return f"trijet.Kernel({self._entry!r})"
