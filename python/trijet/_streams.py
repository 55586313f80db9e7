"""Streams of other packages."""

from __future__ import annotations

from typing import Any

_VERSION = 0
"""The version of the protocol ``__cuda_stream__``."""


def stream_handle(stream: Any) -> int:
    """The ``CUstream`` of a stream: by ``__cuda_stream__``, of CuPy or PyTorch, or a handle itself."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is None:
        for name in ("ptr", "cuda_stream"):
            if hasattr(stream, name):
                return int(getattr(stream, name))
        raise TypeError(f"{type(stream).__name__} is no stream: it has no `__cuda_stream__`")
    if not callable(protocol):
        raise TypeError(f"`__cuda_stream__` of {type(stream).__name__} is no method")
    found = protocol()
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise TypeError(f"`__cuda_stream__` of {type(stream).__name__} returned {found!r}, and not (version, handle)")
    version, handle = found
    if version != _VERSION:
        raise TypeError(f"`__cuda_stream__` of {type(stream).__name__} has the version {version}, and not {_VERSION}")
    return int(handle)
