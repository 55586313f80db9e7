"""The plug-in of pytest: with ``--trijet-check``, every test runs inside :func:`trijet.check`.

A test fails with the verdict if a job that it or its fixtures started had a race, or if its calls to the CUDA driver
reveal a conflict of copies, fills, frees or the host, by whatever library. Jobs of other threads and calls of other
processes are not checked. The last line of the summary has the numbers of jobs and of calls that were checked.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

_JOBS = "trijet_jobs"
# The reason why the calls of the process are not checked.
_WHY = pytest.StashKey[str | None]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("trijet")
    group.addoption("--trijet-check", action="store_true", help="check the trijet jobs and the CUDA calls of each test for races")


def pytest_configure(config: pytest.Config) -> None:
    """Begins to record the calls of the process, before a test initialises CUDA."""
    if config.getoption("--trijet-check"):
        from trijet import _program

        config.stash[_WHY] = _program.begin()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Leaves the environment of a process that did not use CUDA as it was."""
    if config.stash.get(_WHY, "") is None:
        from trijet import _program

        _program.end()


def _checked(item: pytest.Item) -> Generator[None, object, object]:
    if not item.config.getoption("--trijet-check"):
        return (yield)
    from trijet._check import Check

    with Check(raises=False, program=item.config.stash[_WHY] is None) as check:
        try:
            result = yield
        finally:
            if check.verdicts:
                item.user_properties.append((_JOBS, len(check.verdicts)))
    if not check.is_clean:
        pytest.fail("\n".join(str(one) for one in [*check.races, *check.errors]), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Checks the jobs of fixtures."""
    return (yield from _checked(item))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Checks the jobs of a test."""
    return (yield from _checked(item))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Prints the number of jobs that were checked, so that a run without any does not look like a check."""
    if not config.getoption("--trijet-check"):
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

    why = config.stash[_WHY] or _program.trouble()
    calls = f"{_program.calls()} calls to the driver" if why is None else f"calls to the driver were not: {why}"
    terminalreporter.write_line(f"trijet: {jobs} jobs were checked, {calls}")
