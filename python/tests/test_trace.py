"""``trijet.trace`` on stand-ins for the driver and for CUPTI, and without a driver.

``$TRIJET_STAND_INS`` is the folder of ``libempty_cuda.so`` and ``libempty_cupti.so``, which
``cargo build -p empty-driver -p empty-cupti`` makes. Without it, the tests that need them are left out.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import trijet
from trijet import errors

STAND_INS = Path(os.environ.get("TRIJET_STAND_INS", "/nowhere"))
needs_stand_ins = pytest.mark.skipif(not STAND_INS.is_dir(), reason="TRIJET_STAND_INS names no folder")

HEAD = """
    import ctypes, os, sys
    import trijet
    def cuda():
        driver = ctypes.CDLL(os.environ["TRIJET_LIBCUDA"])
        driver.cuInit(0)
        return driver
    def emit(count, what="", cupti=[]):
        cupti[:] = cupti or [ctypes.CDLL(os.environ["TRIJET_LIBCUPTI"])]
        getattr(cupti[0], "empty_cupti_emit" + what)(ctypes.c_uint64(count))
    def process(t):
        [found] = t.json()["processes"]
        return found
"""


def python(code, tmp_path, status=0, **environment):
    """Runs a program whose driver and whose CUPTI are stand-ins, and returns its standard error."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    libraries = {
        "TRIJET_LIBCUDA": str(STAND_INS / "libempty_cuda.so"),
        "TRIJET_LIBCUPTI": str(STAND_INS / "libempty_cupti.so"),
        "TMPDIR": str(tmp_path / "tmp"),
    }
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HEAD) + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env={**os.environ, **libraries, **environment},
    )
    assert ran.returncode == status, ran.stderr
    assert list((tmp_path / "tmp").iterdir()) == [], "a folder was left behind"
    return ran.stderr


def test_without_a_driver_the_reason_is_told(monkeypatch):
    monkeypatch.setenv("TRIJET_LIBCUDA", "/nowhere/libcuda.so.1")
    names = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "TRIJET_RECORDINGS")
    with trijet.trace(memory=True) as t:
        assert all(name in os.environ for name in names)
        assert "without an end" in repr(t)
        with pytest.raises(RuntimeError, match="end of its block"):
            t.summary()
        with pytest.raises(errors.TrijetError, match="already"), trijet.trace():
            pass
    assert not any(name in os.environ for name in names)
    assert "no CUDA driver" in t.missing and t.missing in t.summary() and t.json()["processes"] == []
    assert t.findings == [] and t.memory is None and "not checked" in t.verdict
    with pytest.raises(ValueError, match="nothing was traced"):
        t.save("run.html")
    with pytest.raises(RuntimeError, match="before"), t:
        pass


def test_another_tool_is_refused(monkeypatch):
    monkeypatch.setenv("TRIJET_LIBCUDA", "/nowhere/libcuda.so.1")
    monkeypatch.setenv("CUDA_INJECTION64_PATH", "other.so")
    with pytest.raises(ValueError, match="another tool"), trijet.trace():
        pass
    monkeypatch.delenv("CUDA_INJECTION64_PATH")
    with pytest.raises(KeyError), trijet.trace():
        raise KeyError("of the block")


def test_a_function_tells_its_summary(capsys, monkeypatch):
    monkeypatch.setenv("TRIJET_LIBCUDA", "/nowhere/libcuda.so.1")

    @trijet.trace
    def step(x):
        """Words."""
        return x + 1

    assert step(1) == 2 and step.__doc__ == "Words."
    assert "nothing was traced" in capsys.readouterr().err


@needs_stand_ins
def test_a_block_is_recorded_and_saved(tmp_path):
    python(
        """
        with trijet.trace(save="run.html") as t:
            cuda()
            emit(200)
        assert t.missing is None, t.summary()
        found = process(t)
        assert found["activities"] == 200 and found["complete"], found
        assert "stand_in_kernel" in t.summary() and not t.memory
        t.save("run.trijet")
        assert trijet.read("run.trijet").summary() == t.summary()
        assert "<html" in open("run.html").read().lower()
        """,
        tmp_path,
    )


@needs_stand_ins
def test_only_the_blocks_are_recorded(tmp_path):
    python(
        """
        counts = []
        for count in (20, 0, 60):
            with trijet.trace() as t:
                cuda()
                emit(count)
            emit(1000)  # CUPTI collects nothing here
            counts.append(sum(one["activities"] for one in t.json()["processes"]))
            assert all(one["complete"] for one in t.json()["processes"])
            assert (t.missing is None) == (count > 0), t.missing
        assert counts == [20, 0, 60], counts
        assert "CUDA_INJECTION64_PATH" not in os.environ
        """,
        tmp_path,
    )


@needs_stand_ins
def test_the_allocations_are_kept_if_asked_for(tmp_path):
    python(
        """
        with trijet.trace(memory=True) as t:
            cuda()
            emit(2)
            emit(3, "_memory")
        assert t.memory.count("\\n") > 3, t.memory
        open("run.csv", "w").write(t.memory)
        with trijet.trace(memory=True) as t:
            emit(2)
        assert t.memory is None and t.missing is None
        """,
        tmp_path,
    )
    ran = subprocess.run([sys.executable, "-m", "trijet", "replay", "run.csv"], cwd=tmp_path, capture_output=True)
    assert ran.returncode == 0, ran.stderr


def test_records_are_chosen_by_known_words(monkeypatch):
    monkeypatch.setenv("TRIJET_LIBCUDA", "/nowhere/libcuda.so.1")
    with trijet.trace(record=["events"], graphs="launch"):
        assert os.environ["TRIJET_RECORD"] == "events,graphs"
    with trijet.trace():
        assert "TRIJET_RECORD" not in os.environ
    with pytest.raises(errors.InvalidValueError, match="clocks"), trijet.trace(record=["clocks"]):
        pass
    with pytest.raises(errors.InvalidValueError, match="edges"), trijet.trace(graphs="edges"):
        pass
    with pytest.raises(errors.InvalidValueError, match="add 'memory'"):
        trijet.trace(memory=True, record=["events"])


@needs_stand_ins
def test_each_block_chooses_its_records(tmp_path):
    python(
        """
        def of(**options):
            with trijet.trace(**options) as t:
                cuda()
                emit(1, "_graphs")
                emit(3, "_environment")
            [graph] = process(t)["graphs"]
            return graph["nodes"], graph["edges"], process(t)["devices"][0]["environment"] is not None
        found = [of(), of(record=["environment"]), of(graphs="launch"), of()]
        # The graph is made in the first block.
        assert found == [(2, 1, False), (2, 1, True), (0, 0, False), (2, 1, False)], found
        assert "TRIJET_RECORD" not in os.environ
        """,
        tmp_path,
    )


@needs_stand_ins
def test_a_trace_after_the_start_of_cuda_is_refused(tmp_path):
    python(
        """
        cuda()
        try:
            with trijet.trace():
                raise AssertionError
        except trijet.TrijetError as error:
            assert "before the first use" in str(error), error
        assert "CUDA_INJECTION64_PATH" not in os.environ
        """,
        tmp_path,
    )


@needs_stand_ins
def test_another_profiler_has_cupti(tmp_path):
    python(
        """
        with trijet.trace() as t:
            cuda()
        assert "another tool in this process" in t.missing, t.missing
        try:
            trijet.trace().__enter__()
        except trijet.TrijetError as error:
            assert "another tool in this process" in str(error), error
        """,
        tmp_path,
        EMPTY_CUPTI_TAKEN="1",
    )


@needs_stand_ins
def test_a_program_that_ends_inside_of_a_block_loses_nothing(tmp_path):
    err = python(
        """
        @trijet.trace(save="run.trijet")
        def work():
            cuda()
            emit(40)
            sys.exit(3)
        work()
        """,
        tmp_path,
        status=3,
    )
    assert err == ""
    assert trijet.read(tmp_path / "run.trijet").json()["processes"][0]["activities"] == 40


@needs_stand_ins
def test_processes_that_start_inside_are_recorded(tmp_path):
    python(
        """
        import subprocess
        code = "import ctypes, os; ctypes.CDLL(os.environ['TRIJET_LIBCUDA']).cuInit(0); " \
               "ctypes.CDLL(os.environ['TRIJET_LIBCUPTI']).empty_cupti_emit(ctypes.c_uint64(8))"
        with trijet.trace() as t:
            subprocess.run([sys.executable, "-c", code], check=True)
        assert process(t)["activities"] == 8
        # This process has not initialised CUDA, so it can still be traced.
        with trijet.trace() as t:
            cuda()
            emit(4)
        assert process(t)["activities"] == 4
        """,
        tmp_path,
    )
