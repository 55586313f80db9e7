"""The identity of functions: a hash of their code and of the values that they use.

A run is continued only by the same job, so a changed function must have another identity, and the same function
the same one in another process.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Iterator
from typing import Any

import numpy as np


class Unstable(ValueError):
    """A value that has no form that is the same in every process."""


_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))


def identity(value: Any) -> str:
    """The hash of a value.

    >>> identity(lambda x: x + 1) == identity(lambda x: x + 1), identity(lambda x: x + 1) == identity(lambda x: x + 2)
    (True, False)
    """
    digest = hashlib.sha256()
    for part in _parts(value, []):
        digest.update(f"{len(part)}:".encode())
        digest.update(part)
    return digest.hexdigest()[:16]


def _parts(value: Any, above: list[int]) -> Iterator[bytes]:
    """The bytes that make up a value. ``above`` are the values that contain it."""
    if id(value) in above:
        yield b"again"
        return
    above = [*above, id(value)]
    if isinstance(value, _PLAIN):
        yield f"{type(value).__name__} {value!r}".encode()
    elif isinstance(value, (tuple, list)):
        yield f"{type(value).__name__} {len(value)}".encode()
        for item in value:
            yield from _parts(item, above)
    elif isinstance(value, (set, frozenset)):
        yield b"set"
        yield from sorted(b"".join(_parts(item, above)) for item in value)
    elif isinstance(value, dict):
        yield f"dict {len(value)}".encode()
        for key, item in value.items():
            yield from _parts(key, above)
            yield from _parts(item, above)
    elif isinstance(value, (np.ndarray, np.generic)):
        yield f"array {value.dtype.str} {np.shape(value)}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.dtype):
        yield f"dtype {value.str}".encode()
    elif isinstance(value, types.CodeType):
        yield from _code(value, above)
    elif isinstance(value, types.FunctionType):
        yield from _function(value, above)
    elif isinstance(value, functools.partial):
        yield b"partial"
        yield from _parts((value.func, value.args, value.keywords), above)
    elif isinstance(value, types.MethodType):
        yield b"method"
        yield from _parts((value.__func__, value.__self__), above)
    elif isinstance(value, types.ModuleType):
        yield f"module {value.__name__}".encode()
    elif isinstance(value, (type, types.BuiltinFunctionType, np.ufunc)):
        yield f"named {getattr(value, '__module__', '')} {value.__name__}".encode()
    elif hasattr(value, "__wrapped__"):
        yield from _parts(value.__wrapped__, above)
    else:
        raise Unstable(
            f"the stage uses an object of {type(value).__name__}, which a later run cannot compare; name the stage "
            "with version="
        )


def _code(code: types.CodeType, above: list[int]) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, code.co_flags)).encode()
    for constant in code.co_consts:
        yield from _parts(constant, above)


def _function(function: types.FunctionType, above: list[int]) -> Iterator[bytes]:
    yield from _code(function.__code__, above)
    yield from _parts((function.__defaults__, function.__kwdefaults__), above)
    for cell in function.__closure__ or ():
        try:
            yield from _parts(cell.cell_contents, above)
        except ValueError as empty:
            if isinstance(empty, Unstable):
                raise
            yield b"empty"
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield name.encode()
            yield from _parts(function.__globals__[name], above)


def _names(code: types.CodeType) -> set[str]:
    """The names of globals that a function and the functions inside it may use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
