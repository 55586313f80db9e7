"""``trijet.check``, and the plug-in of pytest."""

import asyncio
import os
import threading

import numpy as np
import pytest

import trijet
from trijet import _map, ops
from trijet.errors import CheckError

pytest_plugins = ["pytester"]


class Native:
    """A report of a job that has a race. The library itself orders its work, so no real job has one."""

    job = "u1 [2, 4, 4], affine"
    verdict = "error[RACE]: two writes that nothing orders"
    is_clean = False


@pytest.fixture
def racy(monkeypatch):
    """Makes every job one with a race, and returns the options of the jobs."""
    seen = []

    def options(given, make=_map._options):
        seen.append(given["check"])
        return make(given)

    monkeypatch.setattr(_map, "_options", options)
    monkeypatch.setattr(_map._native, "run", lambda *job: Native)
    return seen


def job(**options):
    x = np.ones((2, 4, 4), "u1")
    return trijet.map(x, np.empty_like(x), [ops.affine(2)], device="host", **options)


def test_the_verdicts_of_a_block_are_collected(stack):
    with trijet.check() as c:
        assert np.array_equal(trijet.map(stack, [ops.affine(1)]), stack)
        report = trijet.map(stack, np.empty_like(stack), [ops.median(1)])
    assert [verdict.is_clean for verdict in c.verdicts] == [True, True] and c.is_clean and not c.races
    assert c.verdicts[1].text == report.verdict and "median" in c.verdicts[1].job
    c.raise_if_races()
    assert trijet.map(stack, np.empty_like(stack), ["affine"]).verdict is None


def test_a_race_raises_at_the_end_of_the_block(racy):
    reached = False
    with pytest.raises(CheckError, match="nothing orders"), trijet.check() as c:
        job()
        reached = True
    assert reached and racy == [True] and len(c.races) == 1 and not c.is_clean


def test_raises_false_leaves_the_decision_to_the_program(racy):
    with trijet.check(raises=False) as c:
        job()
    with pytest.raises(CheckError, match="affine"):
        c.raise_if_races()


def test_an_exception_of_the_block_is_kept(racy):
    with pytest.raises(KeyError), trijet.check():
        job()
        raise KeyError("mine")
    with pytest.raises(CheckError):
        job(check=True)


def test_a_job_with_its_own_check_raises_at_once(racy):
    with trijet.check(raises=False) as c:
        with pytest.raises(CheckError):
            job(check=True)
    assert len(c.races) == 1


def test_decorators_check_each_call(racy):
    @trijet.check
    def plain(factor):
        """Words."""
        job()
        return factor

    @trijet.check(raises=False)
    def lenient(factor):
        job()
        return factor

    @trijet.check()
    async def later():
        await asyncio.sleep(0)
        job()

    assert plain.__name__ == "plain" and plain.__doc__ == "Words."
    for _ in range(2):
        with pytest.raises(CheckError):
            plain(2)
    assert lenient(3) == 3
    with pytest.raises(CheckError):
        asyncio.run(later())
    with pytest.raises(TypeError, match="generator"):

        @trijet.check
        def values():
            yield 1


def test_the_innermost_check_gets_the_verdict(racy):
    with trijet.check() as outer, trijet.check(raises=False) as inner:
        job()
        with pytest.raises(RuntimeError, match="already"), inner:
            pass
    assert len(inner.races) == 1 and not outer.verdicts


def test_other_threads_are_not_checked(stack):
    with trijet.check() as c:
        thread = threading.Thread(target=lambda: trijet.map(stack, ["affine"]))
        thread.start()
        thread.join()
    assert c.verdicts == []


TESTS = """
    import numpy, pytest, trijet
    from trijet import _map

    class Native:
        job, verdict, is_clean = "affine", "error[RACE]: two writes", False

    def run(racy):
        x = numpy.ones((2, 4, 4), "u1")
        saved = _map._native.run
        if racy:
            _map._native.run = lambda *job: Native
        try:
            trijet.map(x, numpy.empty_like(x), ["affine"], device="host")
        finally:
            _map._native.run = saved

    @pytest.fixture
    def made():
        run(True)

    def test_good():
        run(False)

    def test_bad():
        run(True)

    def test_fixture(made):
        pass

    def test_own():
        with trijet.check(raises=False) as c:
            run(True)
        assert c.races

    def test_failing():
        run(False)
        assert False, "of the test"
"""


@pytest.fixture
def pytest_run(pytester):
    """Runs the tests above with the plug-in, which is loaded by its name if the package is not installed."""
    pytester.makepyfile(TESTS)
    pytester.makeconftest("")
    installed = pytest.Config.fromdictargs({}, []).pluginmanager.has_plugin("trijet")
    return lambda *args: pytester.runpytest_inprocess(*([] if installed else ["-p", "trijet.pytest_plugin"]), *args)


def test_the_plug_in_fails_tests_with_races(pytest_run):
    ran = pytest_run("--trijet-check", "-q")
    ran.assert_outcomes(passed=2, failed=2, errors=1)
    ran.stdout.fnmatch_lines(["*error?RACE?: two writes*"])
    ran.stdout.fnmatch_lines(["*of the test*", "trijet: 4 jobs were checked, 0 calls to the driver"])
    assert "CUDA_INJECTION64_PATH" not in os.environ


def test_without_its_option_the_plug_in_does_nothing(pytest_run):
    ran = pytest_run("-q", "-k", "good or own")
    ran.assert_outcomes(passed=2)
    ran.stdout.no_fnmatch_line("*were checked*")
