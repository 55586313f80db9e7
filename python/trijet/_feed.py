"""Batches of any iterator on a device: their upload overlaps the work on earlier batches."""

from __future__ import annotations

import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from trijet import _native
from trijet._arrays import bytes_of, name_of

_LOADER_LIMITS = 0.05
"""A share of waiting above which a part limits the loop."""


@dataclass
class FeedReport:
    """Where the time of a loop over a :class:`trijet.torch.DeviceFeed` went."""

    batches: int = 0
    """The number of batches that the loop has got."""
    elapsed: float = 0.0
    """The seconds from the first batch to the last one."""
    waited: float = 0.0
    """The seconds that the loop has waited for batches."""
    loading: float = 0.0
    """The seconds that the loader has worked, on the thread of the feed."""
    uploading: float = 0.0
    """The seconds for copies into page-locked memory, including waits for earlier uploads."""

    @property
    def limit(self) -> str:
        """What the loop waited for: ``"loader"``, ``"upload"``, or ``"hidden"`` if it hardly waited."""
        if self.elapsed <= 0 or self.waited < _LOADER_LIMITS * self.elapsed:
            return "hidden"
        return "loader" if self.loading >= self.uploading else "upload"

    def __str__(self) -> str:
        share = 100 * self.waited / self.elapsed if self.elapsed > 0 else 0.0
        words = {
            "hidden": "the uploads are hidden",
            "loader": "the loader limits: use more workers",
            "upload": "the upload limits: make the batches smaller, or upload a narrower type",
        }
        return f"{self.batches} batches, waited {share:.0f} % of {self.elapsed:.2f} s: {words[self.limit]}"


_END_SECONDS = 0.5
"""The time that a loop which ends early waits for the thread of its feed."""


def _put(batches: queue.Queue[Any], ended: threading.Event, item: Any) -> None:
    """Puts an item, unless the loop has ended."""
    while not ended.is_set():
        try:
            return batches.put(item, timeout=0.1)
        except queue.Full:
            pass


class _End:
    """The end of the batches, with the exception of the loader."""

    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Leaf:
    """The place of an array in the structure of a batch."""

    def __init__(self, number: int, dtype: Any, is_scalar: bool) -> None:
        self.number = number
        self.dtype = dtype
        self.is_scalar = is_scalar


def _bytes(leaf: Any) -> tuple[np.ndarray[Any, Any], str, list[int], Any]:
    """The bytes of an array or a tensor of the host, its type for the library, its shape, and its own type."""
    if isinstance(leaf, np.ndarray):
        own = np.ascontiguousarray(leaf.astype(leaf.dtype.newbyteorder("="), copy=False))
        dtype = own.dtype if own.dtype == np.bool_ else None
        return bytes_of(own), name_of(own.dtype), list(leaf.shape) or [1], dtype
    import torch

    dense = leaf.detach().contiguous()
    name = str(dense.dtype).removeprefix("torch.")
    # NumPy has no bfloat16 and other small types, so the bytes are viewed as bytes.
    flat = dense.reshape(-1).view(torch.uint8).numpy() if dense.numel() else np.zeros(0, np.uint8)
    kind = {"bool": "uint8"}.get(name, name)
    if kind not in dict(_native.dtype_names()):
        kind = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}[dense.element_size()]
    return flat, kind, list(dense.shape) or [1], dense.dtype


def _is_leaf(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biufc"
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and not value.is_cuda


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The structure of a batch with every leaf changed."""
    if isinstance(value, Mapping):
        return {key: _mapped(item, change) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_mapped(item, change) for item in value))
    if isinstance(value, (list, tuple)):
        return type(value)(_mapped(item, change) for item in value)
    return change(value)


class BatchFeed:
    """The feed, without the package of the arrays that it gives: :class:`trijet.torch.DeviceFeed`."""

    def __init__(
        self,
        loader: Iterable[Any],
        device: str = "cuda:0",
        depth: int = 3,
        on_device: Callable[..., Any] | None = None,
    ) -> None:
        if depth < 1:
            raise ValueError(f"depth is at least 1, and not {depth}")
        self._loader = loader
        self._device = device
        self._depth = depth
        self._on_device = on_device
        self._feed: Any = None
        self._running = threading.Event()
        self._running.set()
        self._consumed = 0
        self._skip = 0
        self._state: Any = None
        self.report = FeedReport()

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        if self._feed is None:
            self._feed = _native.Feed(self._device, self._depth + 1)
        self._feed.begin()
        self.report = FeedReport()
        self._consumed = self._skip
        batches: queue.Queue[Any] = queue.Queue(self._depth)
        ended = threading.Event()
        producer = threading.Thread(target=self._produce, args=(batches, ended), name="trijet feed", daemon=True)
        producer.start()
        begin = None
        try:
            while True:
                current = self._stream()
                if current is not None:
                    self._feed.passed(current)
                asked = time.perf_counter()
                item = batches.get()
                now = time.perf_counter()
                if begin is None:
                    # The first batch has nothing to hide behind.
                    begin = now
                else:
                    self.report.waited += now - asked
                    self.report.elapsed = now - begin
                if isinstance(item, _End):
                    if item.error is not None:
                        raise item.error
                    self._consumed = 0
                    return
                structure, buffers, self._state = item
                self._consumed += 1
                self.report.batches += 1
                yield self._taken(structure, buffers)
                del structure, buffers, item
        finally:
            # A loader that works on a batch ends with it; the loop does not wait for it.
            ended.set()
            self._running.set()
            producer.join(_END_SECONDS)

    def _produce(self, batches: queue.Queue[Any], ended: threading.Event) -> None:
        error: BaseException | None = None
        try:
            iterator = iter(self._loader)
            skip, self._skip = self._skip, 0
            while not ended.is_set():
                self._running.wait()
                began = time.perf_counter()
                try:
                    batch = next(iterator)
                except StopIteration:
                    break
                loaded = time.perf_counter()
                self.report.loading += loaded - began
                if skip > 0:
                    skip -= 1
                    continue
                found = self._put(batch)
                self.report.uploading += time.perf_counter() - loaded
                _put(batches, ended, (*found, self._loader_state()))
        except BaseException as raised:  # noqa: BLE001
            error = raised
        _put(batches, ended, _End(error))

    def _put(self, batch: Any) -> tuple[Any, list[Any]]:
        parts: list[Any] = []

        def change(value: Any) -> Any:
            if not _is_leaf(value):
                return value
            data, name, shape, dtype = _bytes(value)
            parts.append((data, name, shape))
            return _Leaf(len(parts) - 1, dtype, np.ndim(value) == 0)

        structure = _mapped(batch, change)
        return structure, self._feed.put(parts)

    def _stream(self) -> int | None:
        """The handle of the current stream, in which the loop uses its batches. None on the host device."""
        return None

    def _array(self, buffer: Any, dtype: Any) -> Any:
        """The array of a buffer, of the type that the batch of the loader had."""
        raise NotImplementedError

    def _taken(self, structure: Any, buffers: list[Any]) -> Any:
        """The batch as arrays that the current stream may use."""

        def change(value: Any) -> Any:
            if not isinstance(value, _Leaf):
                return value
            array = self._array(buffers[value.number], value.dtype)
            return array.reshape(()) if value.is_scalar else array

        batch = _mapped(structure, change)
        if self._on_device is None:
            return batch
        return self._on_device(*batch) if isinstance(batch, (list, tuple)) else self._on_device(batch)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Takes no further batch from the loader in this block, so that the link is free for other work.

        The loop itself must not ask for a batch inside, because it would wait for ever.
        """
        self._running.clear()
        try:
            yield
        finally:
            self._running.set()

    def _loader_state(self) -> Any:
        state_dict = getattr(self._loader, "state_dict", None)
        return state_dict() if callable(state_dict) else None

    def state_dict(self) -> dict[str, Any]:
        """The place in the batches: of the last batch that the loop has got, and not of those ahead of it."""
        return {"batches": self._consumed, "loader": self._state}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues at a place of :meth:`state_dict`. Batches of a loader without states are skipped."""
        self._consumed = state["batches"]
        if state["loader"] is not None:
            self._loader.load_state_dict(state["loader"])  # type: ignore[attr-defined]
        else:
            self._skip = state["batches"]
