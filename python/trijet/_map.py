"""Jobs: from a source through operations to a target."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from trijet import _native
from trijet._arrays import MadeTarget, refuse_shared, source_of, target_of
from trijet._check import Verdict, active
from trijet._kernel import Kernel
from trijet._report import Plan, Report
from trijet._stage import Stage
from trijet.errors import CheckError
from trijet.ops import Operation

_UNITS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def _bytes(value: int | str | None) -> int | None:
    """A number of bytes: a number, or a text such as ``"8 GiB"`` (2^30) or ``"8 GB"`` (10^9)."""
    if value is None or isinstance(value, int):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", value.lower())
    if not found:
        raise ValueError(f"{value!r} is no number of bytes: write it like '8 GiB' or '500 MB'")
    number, unit, binary = found.groups()
    is_binary = binary or not value.lower().rstrip().endswith("b")
    return int(float(number) * (1024 if is_binary else 1000) ** _UNITS[unit])


def _step(step: Any) -> Any:
    if isinstance(step, str):
        return _native.Operation.of_text(step, [])
    if isinstance(step, (Operation, Kernel, Stage)):
        return step._native()
    if callable(step):
        name = getattr(step, "__name__", type(step).__name__)
        raise TypeError(f"{name} is a function; make it a stage with @trijet.stage")
    raise TypeError(f"{type(step).__name__} is no step: use trijet.ops, trijet.Kernel or @trijet.stage")


def _slice(value: slice | tuple[int, int | None] | None) -> tuple[int, int | None] | None:
    if value is None or isinstance(value, tuple):
        return value
    if value.step not in (None, 1):
        raise ValueError("a slice of a source has no step")
    return (value.start or 0, value.stop)


def _lease(claim: bool | int) -> int | None:
    """The seconds without a sign of life after which the rows of a process fall back to the others."""
    if claim is False:
        return None
    if claim is True:
        return 30
    if not 1 <= claim <= 86_400:
        raise ValueError(f"`claim` is a number of seconds from 1 to 86400, and not {claim}")
    return claim


def _progress(wanted: bool | Callable[[int, int], None] | None) -> Callable[[int, int], None] | None:
    """The function that shows the progress: a line on a terminal, or the function of the caller."""
    if callable(wanted):
        return wanted
    if not wanted or not sys.stderr.isatty():
        return None

    def line(done: int, rows: int) -> None:
        sys.stderr.write(f"\r{100 * done // max(rows, 1):3} % of {rows} rows")
        sys.stderr.flush()

    return line


def _options(given: dict[str, Any]) -> Any:
    device = given["device"] or os.environ.get("TRIJET_DEVICE", "auto")
    return _native.Options(
        device=device,
        memory=_bytes(given["memory"]),
        chunk=_bytes(given["chunk"]),
        depth=given["depth"],
        check=given["check"],
        resume=given["resume"],
        restart=given["restart"],
        overwrite=given["overwrite"],
        same_input=given["same_input"],
        durable=given["durable"],
        shard=given["shard"],
        claim=_lease(given["claim"]),
        axis=given["axis"],
        slice=_slice(given["slice"]),
    )


def _file_options(given: dict[str, Any]) -> dict[str, Any]:
    shape = given["shape"]
    return {
        "dtype": given["dtype"],
        "shape": None if shape is None else list(shape),
        "header": given["header"],
        "big_endian": {"little": False, "big": True}[given["byteorder"]],
        "any_name": given["raw"],
        "skip_damaged": given["skip_bad"],
    }


def map(  # noqa: A001
    source: Any,
    target: Any = None,
    steps: Sequence[Any] | None = None,
    *,
    device: str | None = None,
    axis: int = 0,
    slice: slice | tuple[int, int | None] | None = None,  # noqa: A002
    memory: int | str | None = None,
    chunk: int | str | None = None,
    depth: int | None = None,
    resume: bool = False,
    restart: bool = False,
    overwrite: bool = False,
    same_input: bool = False,
    durable: bool = True,
    shard: tuple[int, int] | None = None,
    claim: bool | int = False,
    check: bool = False,
    progress: bool | Callable[[int, int], None] | None = None,
    dtype: str | None = None,
    shape: Sequence[int] | None = None,
    header: int = 0,
    byteorder: str = "little",
    raw: bool = False,
    skip_bad: bool = False,
) -> Any:
    """Maps an array that may be larger than the memory of the GPU, or of the host, through steps.

    ``source`` is a path of any format that the command reads (docs/files.md), an array of NumPy, a memmap, a
    data set of h5py, an array of zarr or dask, or anything else with ``shape``, ``dtype`` and slices of the
    first axis. ``target`` is a path, or an array that is written; without one, the result is returned.
    ``steps`` are operations of :mod:`trijet.ops`, :class:`trijet.Kernel`, functions with
    :func:`trijet.stage`, or texts such as ``"median:2"``.

    ``device`` is ``"auto"`` (a GPU, or the processors), ``"all"``, ``"cuda:N"`` or ``"host"``; the default is
    ``$TRIJET_DEVICE`` or ``"auto"``. ``axis=1`` exchanges the first two axes. ``slice`` processes only these
    indices of the first axis. ``memory`` is the most host memory in bytes or as ``"8 GiB"``. ``chunk`` and
    ``depth`` are the bytes of a chunk and the number of chunks in flight.

    ``resume`` continues a run from files to files that was stopped, ``restart`` discards it, ``overwrite`` replaces a target.
    ``durable=False`` does not wait for the disk. ``shard=(i, n)`` computes part i of n into one target. ``claim``
    shares the job from files to files with all processes that make the same call, on any machines that see the
    target: each takes rows as they are free, and returns when the target is complete. Rows of a process without
    a sign of life for 30 seconds, or for ``claim`` seconds, fall back to the others.
    ``check`` checks every call for races, and raises :class:`trijet.errors.CheckError`; :func:`trijet.check` does
    so for all jobs of a block. ``progress`` is True
    for a line on a terminal, or a function of the rows done and all rows.

    ``dtype``, ``shape``, ``header`` and ``byteorder`` describe a file of plain bytes; ``raw`` treats any file
    as one. ``skip_bad`` skips damaged images of a folder.

    Returns the array if there is no target, and a :class:`trijet.Report` otherwise. Ctrl-C ends the run after
    the chunks in flight, and leaves a state that ``resume`` continues if source and target are files.

    >>> import numpy, trijet
    >>> x = numpy.array([[1, 9, 1], [1, 1, 1], [1, 1, 5]], dtype="uint16")
    >>> trijet.map(x, ["median"]).max()
    np.uint16(1)
    """
    given = dict(locals())
    checking = active()
    given["check"] = check or checking is not None
    if steps is None and isinstance(target, (list, tuple)):
        target, steps = None, target
    refuse_shared(source, target)
    if resume or claim:
        for step in steps or ():
            if isinstance(step, Stage):
                step.demand_identity()
    made = MadeTarget() if target is None else None
    native = made.native if made else target_of(target, raw)
    shown = _progress(progress)
    ran = _native.run(
        source_of(source, _file_options(given)),
        native,
        [_step(step) for step in steps or ["affine"]],
        _options(given),
        shown,
    )
    if shown is not None and not callable(progress):
        sys.stderr.write("\r\033[K")
    report = Report(ran)
    if checking is not None and ran.verdict is not None:
        checking._add(Verdict(ran.job, ran.verdict, ran.is_clean))
    if not ran.is_clean and (check or checking is None):
        raise CheckError(ran.verdict)
    return made.array if made else report


def map_shard(shard: tuple[int, int], source: Any, target: Any, steps: Sequence[Any], **options: Any) -> Any:
    """:func:`map` for part ``shard`` of a job, for engines that call a function with each of several values.

    Each call may run in another process or on another host, and ``resume=True`` makes a repeated call of a part
    that is done end at once.
    """
    return map(source, target, steps, shard=shard, **options)


def plan(source: Any, target: Any = None, steps: Sequence[Any] | None = None, **options: Any) -> Plan:
    """The plan of :func:`map`: the bytes that it would read and write, its memory, and its least time.

    Takes the arguments of :func:`map`. Nothing is created, and no GPU is needed.

    >>> import numpy, trijet
    >>> trijet.plan(numpy.zeros((10, 64, 64), "uint16"), [trijet.ops.convert("f32")]).dtype
    'float32'
    """
    if steps is None and isinstance(target, (list, tuple)):
        target, steps = None, target
    given = {**_DEFAULTS, **options}
    unknown = set(options) - set(_DEFAULTS)
    if unknown:
        raise TypeError(f"plan() got an unexpected argument {sorted(unknown)[0]!r}")
    native = MadeTarget().native if target is None else target_of(target, given["raw"])
    steps = [_step(step) for step in steps or ["affine"]]
    return Plan(_native.plan(source_of(source, _file_options(given)), native, steps, _options(given)))


_DEFAULTS: dict[str, Any] = dict(map.__kwdefaults__ or {})
