"""The plug-in of pytest: with ``--trijet-check``, every test runs inside :func:`trijet.check`.

A test fails with the verdict if a job that it or its fixtures started had a race. Jobs of other threads and of
other processes are not checked. The last line of the summary has the number of jobs that were checked.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

_JOBS = "trijet_jobs"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    group = parser.getgroup("trijet")
    group.addoption("--trijet-check", action="store_true", help="check the trijet jobs of each test for races")


def _checked(item: pytest.Item) -> Generator[None, object, object]:
    if not item.config.getoption("--trijet-check"):
        return (yield)
    from trijet._check import Check

    with Check(raises=False) as check:
        try:
            result = yield
        finally:
            if check.verdicts:
                item.user_properties.append((_JOBS, len(check.verdicts)))
    if check.races:
        pytest.fail("\n".join(str(verdict) for verdict in check.races), pytrace=False)
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
    terminalreporter.write_line(f"trijet: {jobs} jobs were checked")
