"""
The native module.
"""

from _typeshed import SupportsGetItem, SupportsLenAndGetItem
from os import PathLike
from pathlib import Path
from typing import Any, SupportsIndex, final

__all__ = ["Buffer", "DeviceArray", "Feed", "MemorySource", "MemoryTarget", "Operation", "Options", "PathSource", "PathTarget", "Plan", "PullSource", "PushTarget", "Recording", "Report", "Saved", "Stage", "Stream", "WatchedProcess", "can_open", "dtype_names", "empty", "from_dlpack", "from_interface", "main", "operations", "plan", "run", "upload"]

@final
class Buffer:
    """
    An array in the memory of a device.
    """
    @property
    def __cuda_array_interface__(self, /) -> dict: ...
    def __dlpack__(self, /, *, stream: SupportsIndex | None = None, max_version: tuple[SupportsIndex, SupportsIndex] | None = None, dl_device: tuple[SupportsIndex, SupportsIndex] | None = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self, /) -> tuple[int, int]: ...
    def __repr__(self, /) -> str: ...
    @property
    def device(self, /) -> str:
        """
        The device, such as `cuda:0` or `host`.
        """
    @property
    def dtype(self, /) -> str:
        """
        The name of the element type in NumPy.
        """
    @property
    def nbytes(self, /) -> int:
        """
        The size in bytes.
        """
    @property
    def read_only(self, /) -> bool:
        """
        Whether the elements must not be written.
        """
    @property
    def shape(self, /) -> tuple:
        """
        The lengths of the axes.
        """
    def tobytes(self, /) -> bytes:
        """
        The bytes of the elements, in C order. Waits for the pending work on the array.
        """

@final
class DeviceArray:
    """
    An array in device memory, for the time of one call of a stage.
    """
    @property
    def __cuda_array_interface__(self, /) -> dict: ...
    def __dlpack__(self, /, *, stream: SupportsIndex | None = None, max_version: tuple[SupportsIndex, SupportsIndex] | None = None, dl_device: tuple[SupportsIndex, SupportsIndex] | None = None, copy: bool | None = None) -> Any: ...
    def __dlpack_device__(self, /) -> tuple[int, int]: ...
    def __repr__(self, /) -> str: ...
    @property
    def device(self, /) -> int:
        """
        The ordinal of the GPU.
        """
    @property
    def dtype(self, /) -> str:
        """
        The name of the element type in NumPy.
        """
    @property
    def nbytes(self, /) -> int:
        """
        The size in bytes.
        """
    @property
    def shape(self, /) -> tuple:
        """
        The lengths of the axes.
        """

@final
class Feed:
    """
    The upload of batches to one device.
    """
    def __new__(cls, /, device: str, depth: SupportsIndex) -> Feed:
        """
        A feed with `depth` batches in page-locked memory.
        """
    def begin(self, /) -> None:
        """
        Begins a loop over batches.
        """
    @property
    def is_host(self, /) -> bool:
        """
        Whether the device is a host device.
        """
    def passed(self, /, stream: SupportsIndex) -> None:
        """
        Frees the memory of batches of this loop that were dropped, after the work that `stream` has
        now. This is the stream in which the batches are used, and it lives as long as the loop.
        """
    def put(self, /, batch: SupportsGetItem[int, tuple[Any, str, SupportsGetItem[int, SupportsIndex]]]) -> list[Buffer]:
        """
        Enqueues the upload of a batch: for each array its bytes in C order, its element type and
        its shape. The arrays may be changed when the call returns.
        """

@final
class MemorySource:
    """
    An array in host memory, in C order.
    """
    def __new__(cls, /, buffer: Any, dtype: str, shape: SupportsGetItem[int, SupportsIndex], big_endian: bool) -> MemorySource:
        """
        `buffer` has the bytes of the array in C order.
        """

@final
class MemoryTarget:
    """
    An array in host memory that is written, in C order. Its shape and its type are known when the
    operations are: `make(dtype, shape)` returns the array.
    """
    def __new__(cls, /, make: Any) -> MemoryTarget: ...

@final
class Operation:
    """
    An operation with its parameters, or a kernel of the user.
    """
    @staticmethod
    def of_kernel(file: str | PathLike[str], source: str | None, entry: str, args: SupportsGetItem[int, tuple[str, Any]], halo: SupportsIndex | None, out_dtype: str | None, out_rows: str | None) -> Operation:
        """
        A kernel in a file or, with `source`, in a text. `args` are pairs of a name and a number;
        an `int` is passed as `int`, a `float` as `float`, and a text names the type: `3u64`.
        """
    @staticmethod
    def of_text(text: str, images: SupportsGetItem[int, tuple[str, str, SupportsLenAndGetItem[SupportsIndex], Any]]) -> Operation:
        """
        The operation of a text such as `median:3,reflect`. `images` are images in memory.
        """

@final
class Options:
    """
    The options of a job.
    """
    def __new__(cls, /, *, device: str, memory: SupportsIndex | None, chunk: SupportsIndex | None, depth: SupportsIndex | None, check: bool, resume: bool, restart: bool, overwrite: bool, same_input: bool, durable: bool, shard: tuple[SupportsIndex, SupportsIndex] | None, claim: SupportsIndex | None, axis: SupportsIndex, slice: tuple[SupportsIndex, SupportsIndex | None] | None) -> Options: ...

@final
class PathSource:
    """
    A file or a folder.
    """
    def __new__(cls, /, path: str | PathLike[str], *, dtype: str | None = None, shape: SupportsGetItem[int, SupportsIndex] | None = None, header: SupportsIndex = 0, big_endian: bool = False, any_name: bool = False, skip_damaged: bool = False) -> PathSource: ...

@final
class PathTarget:
    """
    A file or a folder.
    """
    def __new__(cls, /, path: str | PathLike[str], any_name: bool) -> PathTarget: ...

@final
class Plan:
    """
    The plan of a job: its bytes, its memory and its least time.
    """
    @property
    def bytes_in(self, /) -> int:
        """
        The bytes that are read from the source.
        """
    @property
    def bytes_out(self, /) -> int:
        """
        The bytes that are written to the target.
        """
    @property
    def chunks(self, /) -> int:
        """
        The number of chunks.
        """
    @property
    def copies_seconds(self, /) -> float:
        """
        The least time of the copies on a modelled H200, in seconds.
        """
    @property
    def device_bytes(self, /) -> int:
        """
        The memory of the device in bytes.
        """
    @property
    def dtype(self, /) -> str:
        """
        The name of the element type of the result in NumPy.
        """
    @property
    def left_out(self, /) -> list[str]:
        """
        Parts of the source that the target does not have.
        """
    @property
    def operation(self, /) -> str:
        """
        The operations.
        """
    @property
    def pinned_bytes(self, /) -> int:
        """
        The page-locked host memory in bytes.
        """
    @property
    def refused(self, /) -> str | None:
        """
        The reason why the run would be refused.
        """
    @property
    def shape(self, /) -> list[int]:
        """
        The shape of the result.
        """
    @property
    def slots(self, /) -> int:
        """
        The number of chunks in flight.
        """

@final
class PullSource:
    """
    An object of Python that returns items of the first axis: `read(first, last)` returns their
    bytes in C order, as an object with the buffer protocol.
    """
    def __new__(cls, /, read: Any, dtype: str, shape: SupportsGetItem[int, SupportsIndex]) -> PullSource: ...

@final
class PushTarget:
    """
    An object of Python that takes items of the first axis in order: `write(dtype, shape, first,
    last, bytes)` gets their bytes in C order.
    """
    def __new__(cls, /, write: Any) -> PushTarget: ...

@final
class Recording:
    """
    The folder of a recording of this process, until it is finished.
    """
    def __new__(cls, /, record: SupportsGetItem[int, str] | None, graphs: str) -> Recording: ...
    def environment(self, /) -> list[tuple[str, str]]: ...
    def finish(self, /, whole: bool) -> Saved:
        """
        Ends the recording, and reads it.
        """
    @property
    def library(self, /) -> Path: ...
    @property
    def path(self, /) -> Path: ...

@final
class Report:
    """
    The reports of the devices of a job, and the state of its output.
    """
    def __str__(self, /) -> str: ...
    def brief(self, /) -> str:
        """
        The report in a few lines.
        """
    @property
    def bytes_in(self, /) -> int:
        """
        The bytes that the run has read from the source.
        """
    @property
    def bytes_out(self, /) -> int:
        """
        The bytes that the run has written to the target.
        """
    @property
    def damaged(self, /) -> list[tuple[str, str]]:
        """
        The damaged images that were skipped, each with its name and the reason.
        """
    @property
    def devices(self, /) -> list[str]:
        """
        The names of the devices.
        """
    @property
    def elapsed(self, /) -> float:
        """
        The time of the run in seconds.
        """
    @property
    def fraction(self, /) -> float | None:
        """
        The bound of the run divided by its time; `None` if no bound is known.
        """
    def full(self, /) -> str:
        """
        Every figure of the report.
        """
    @property
    def is_clean(self, /) -> bool:
        """
        Whether the checker has found no error. True without `check=True`.
        """
    @property
    def is_complete(self, /) -> bool:
        """
        Whether the target is complete. Otherwise other processes may still write their rows.
        """
    @property
    def job(self, /) -> str:
        """
        The array and the operations of the job.
        """
    def json(self, /) -> str:
        """
        The figures of the command's `--json`, as JSON.
        """
    @property
    def kept_rows(self, /) -> int:
        """
        The number of rows of an earlier run that were kept.
        """
    @property
    def left_out(self, /) -> list[str]:
        """
        Parts of the source that the target does not have.
        """
    @property
    def limit(self, /) -> str | None:
        """
        The part that limited the run: `link`, `upload`, `download`, `compute`, `reader`, `writer`,
        `sync`, `output`, `calls`, `none` or `unclear`. `None` if nothing was run.
        """
    @property
    def losses(self, /) -> list[tuple[str, float, str | None]]:
        """
        The time that the run lost, by cause: the cause, the seconds, and what to do.
        """
    def page(self, /) -> str | None:
        """
        The page with the timeline of the slowest device, as HTML; `None` if nothing was run.
        """
    @property
    def rows(self, /) -> int:
        """
        The number of rows that the run has computed.
        """
    @property
    def verdict(self, /) -> str | None:
        """
        The verdict of the checker as text; `None` without `check=True`.
        """

@final
class Saved:
    """
    A saved run: a ledger or a trace.
    """
    def json(self, /) -> str: ...
    @property
    def kind(self, /) -> str: ...
    def memory(self, /) -> str: ...
    @property
    def missing(self, /) -> str | None: ...
    def page(self, /) -> str: ...
    @staticmethod
    def read(path: str | PathLike[str], whole: bool) -> Saved:
        """
        Reads a file or a folder.
        """
    def save(self, /, path: str | PathLike[str]) -> None: ...
    def summary(self, /) -> str: ...
    @property
    def verdict(self, /) -> tuple[str, bool] | None: ...

@final
class Stage:
    """
    A function of the program as a stage.
    """
    def __new__(cls, /, call: Any, description: str, halo: SupportsIndex, edges: str, out_dtype: str | None, shape_of: Any | None) -> Stage:
        """
        `call(x, out, stream)` computes `out` from `x`. `shape_of(shape)` returns the lengths of the
        axes of an item of the output, without the first axis.
        """

@final
class Stream:
    """
    The stream of a call of a stage.
    """
    def __cuda_stream__(self, /) -> tuple[int, int]:
        """
        The protocol of `cuda.core` for streams: version 0, and the handle.
        """
    def __repr__(self, /) -> str: ...
    @property
    def device(self, /) -> int:
        """
        The ordinal of the GPU; -1 for the host device.
        """
    @property
    def handle(self, /) -> int:
        """
        The `CUstream`; 0 on the host device.
        """

@final
class WatchedProcess:
    """
    The recording of the calls of this process.
    """
    def __new__(cls, /, kernels: bool) -> WatchedProcess: ...
    @property
    def calls(self, /) -> int: ...
    def environment(self, /) -> list[tuple[str, str]]: ...
    @property
    def library(self, /) -> Path: ...
    def look(self, /) -> list[tuple[str, bool]]:
        """
        The texts of the findings since the last look, and whether each is an error.
        """
    @property
    def trouble(self, /) -> str | None: ...

def can_open(path: str | PathLike[str]) -> bool:
    """
    Whether the library can read the array at this path.
    """

def dtype_names() -> list[tuple[str, str]]:
    """
    The names of the element types: each name of NumPy, with the name of the library.
    """

def empty(dtype: str, shape: SupportsGetItem[int, SupportsIndex], device: str) -> Buffer:
    """
    An array of a device, whose elements have any values.
    """

def from_dlpack(object: Any, copy: bool | None = None) -> Buffer:
    """
    An array over the memory of an object with `__dlpack__`, without a copy.
    """

def from_interface(object: Any, device: str) -> Buffer:
    """
    An array over the memory of an object with `__cuda_array_interface__`, without a copy.
    """

def main(args: SupportsGetItem[int, str]) -> int:
    """
    Runs a command line of the command `trijet` in this process, and returns its exit status.
    """

def operations() -> list[tuple[str, str, list[tuple[str, str | None]]]]:
    """
    The operations: the name of each, its help, and the name and the default of each parameter.
    """

def plan(source: PathSource | MemorySource | PullSource, target: PathTarget | MemoryTarget | PushTarget, steps: SupportsGetItem[int, Operation | Stage], options: Options) -> Plan:
    """
    The plan of a job: a list of names and values.
    """

def run(source: PathSource | MemorySource | PullSource, target: PathTarget | MemoryTarget | PushTarget, steps: SupportsGetItem[int, Operation | Stage], options: Options, on_progress: Any | None = None) -> Report:
    """
    Runs a job and waits for its end. `on_progress(done, all)` is called with numbers of rows.
    """

def upload(buffer: Any, dtype: str, shape: SupportsGetItem[int, SupportsIndex], device: str) -> Buffer:
    """
    An array of a device with the bytes of `buffer`.
    """
