"""Batches of a DataLoader, or of any iterator, on the GPU: their upload overlaps the training step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from trijet._feed import BatchFeed, FeedReport

__all__ = ["DeviceFeed", "FeedReport"]


class DeviceFeed(BatchFeed):
    """Batches of ``loader`` as tensors on a GPU, uploaded before the loop needs them.

    ``loader`` is a ``torch.utils.data.DataLoader``, an iterator of Ray (``iter_batches`` with NumPy batches), or
    anything else that gives tensors or arrays of NumPy in lists, tuples and dicts. A thread takes ``depth``
    batches ahead, copies them into page-locked memory (``pin_memory`` is not needed), and uploads them in a
    stream of its own. The tensors that the loop gets are ordered before its current stream, and their memory is
    used again after the work that the loop has enqueued until it drops them: no ``record_stream`` is needed for
    use in that stream.

    ``on_device`` changes a batch on the GPU, in the stream of the loop: ``lambda x, y: (x.float() / 255, y)``.
    ``channels_last`` makes tensors of four axes so. ``device`` is ``"cuda:N"`` or ``"host"``, where the tensors
    stay on the processor.

    >>> import numpy
    >>> from trijet.torch import DeviceFeed
    >>> feed = DeviceFeed([{"x": numpy.ones((2, 3))}] * 4, device="host")  # doctest: +SKIP
    >>> [batch["x"].shape[0] for batch in feed]  # doctest: +SKIP
    [2, 2, 2, 2]
    """

    def __init__(
        self,
        loader: Iterable[Any],
        device: str = "cuda:0",
        depth: int = 3,
        on_device: Callable[..., Any] | None = None,
        channels_last: bool = False,
    ) -> None:
        super().__init__(loader, device, depth, on_device)
        self._channels_last = channels_last

    def _stream(self) -> int | None:
        if self._feed.is_host:
            return None
        import torch

        # The handle 0 is the legacy default stream.
        return torch.cuda.current_stream(torch.device(self._device)).cuda_stream or 1

    def _array(self, buffer: Any, dtype: Any) -> Any:
        import torch

        tensor = torch.from_dlpack(buffer)
        if isinstance(dtype, np.dtype):
            dtype = torch.bool
        if dtype is not None and tensor.dtype != dtype:
            tensor = tensor.view(dtype)
        if self._channels_last and tensor.ndim == 4:
            tensor = tensor.contiguous(memory_format=torch.channels_last)
        return tensor
