"""The plug-in of pytest: with ``--trijet-check``, every test runs inside :func:`trijet.check`.

A test fails with the verdict if a job that it or its fixtures started had a race, or if its calls to the CUDA driver
reveal a conflict of copies, fills, frees or the host, by whatever library. ``--trijet-check-kernels`` also checks what
kernels read and write. Jobs of other threads and calls of other processes are not checked. The last line of the summary has the numbers of jobs and of calls that were checked.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import pytest

_JOBS = "trijet_jobs"


@dataclass
class _Counts:
    """The number of calls that workers have recorded, and the reason why calls are not checked."""

    calls: int = 0
    why: str | None = None


_COUNTS = pytest.StashKey[_Counts]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("trijet")
    group.addoption("--trijet-check", action="store_true", help="check the trijet jobs and the CUDA calls of each test for races")
    group.addoption(
        "--trijet-check-kernels", action="store_true", help="the same, and check the memory that kernels access (slow)"
    )


def _is_wanted(config: pytest.Config) -> bool:
    return bool(config.getoption("--trijet-check") or config.getoption("--trijet-check-kernels"))


def _is_controller(config: pytest.Config) -> bool:
    """Whether workers of pytest-xdist run the tests."""
    return bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")


def pytest_configure(config: pytest.Config) -> None:
    """Begins to record the calls of the process, before a test initialises CUDA."""
    config.stash[_COUNTS] = _Counts()
    if _is_wanted(config) and not _is_controller(config):
        from trijet import _program

        config.stash[_COUNTS].why = _program.begin(config.getoption("--trijet-check-kernels"))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leaves the environment of a process that did not use CUDA as it was."""
    if _is_wanted(config) and not _is_controller(config):
        from trijet import _program

        _program.end()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tells the controller of pytest-xdist what this worker has recorded."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None and _is_wanted(session.config):
        from trijet import _program

        output["trijet"] = (_program.calls(), session.config.stash[_COUNTS].why)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes what a worker of pytest-xdist has recorded."""
    calls, why = getattr(node, "workeroutput", {}).get("trijet", (0, None))
    counts = node.config.stash[_COUNTS]
    counts.calls, counts.why = counts.calls + calls, counts.why or why


def _checked(item: pytest.Item) -> Generator[None, object, object]:
    if not _is_wanted(item.config):
        return (yield)
    from trijet import _program
    from trijet._check import Check

    counts = item.config.stash[_COUNTS]
    # A forked test has no recorder.
    kernels = item.config.getoption("--trijet-check-kernels")
    counts.why = counts.why or _program.begin(kernels)
    is_recorded = counts.why is None
    with Check(raises=False, program=is_recorded, kernels=kernels and is_recorded) as check:
        try:
            result = yield
        finally:
            if check.verdicts:
                item.user_properties.append((_JOBS, len(check.verdicts)))
    counts.why = counts.why or check.trouble
    if check.races or check.errors:
        pytest.fail(check.words(), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Checks the jobs of fixtures."""
    return (yield from _checked(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Checks the jobs of a test."""
    return (yield from _checked(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Checks the jobs of the ends of fixtures."""
    return (yield from _checked(item))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the number of jobs that were checked, so that a run without any does not look like a check."""
    if not _is_wanted(config):
        return
    # The last report of a test has the jobs of its fixtures and of its call.
    last = {
        report.nodeid: report.user_properties
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    }
    jobs = sum(int(str(value)) for found in last.values() for name, value in found if name == _JOBS)
    from trijet import _program

    counts = config.stash[_COUNTS]
    calls = f"{counts.calls + _program.calls()} calls to the driver"
    if counts.why is not None:
        calls = f"calls to the driver were not: {counts.why}"
    terminalreporter.write_line(f"trijet: {jobs} jobs were checked, {calls}")
