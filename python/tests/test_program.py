"""`trijet check` on programs in Python, over stand-ins for the CUDA driver and for CUPTI, which
`cargo xtask python` makes. Nothing runs on a device; the program reports its calls to the stand-in."""

import json
import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

STAND_INS = Path(os.environ.get("TRIJET_STAND_INS", "/nowhere"))
pytestmark = [
    pytest.mark.skipif(not STAND_INS.is_dir(), reason="TRIJET_STAND_INS names no folder"),
    pytest.mark.skipif(sys.version_info[:2] not in [(3, 11), (3, 12), (3, 13)], reason="other frames of Python"),
]

# The plug-ins that an installed package has registered.
PLUGINS = {point.name for point in entry_points(group="pytest11")}

DRIVER = """
    import ctypes, mmap, os

    driver = ctypes.CDLL(os.environ["TRIJET_LIBCUDA"])
    assert driver.cuInit(0) == 0
    cupti = ctypes.CDLL(os.environ["TRIJET_LIBCUPTI"])
    kept = []

    def call(name, *words):
        cupti.empty_cupti_call(name, (ctypes.c_uint64 * len(words))(*words), 0)

    def result(word):
        kept.append(ctypes.c_uint64(word))
        return ctypes.addressof(kept[-1])

    BYTES, DATA, STREAM = 1 << 20, 0x7F0000000000, 0x10000

"""

PROGRAM = DRIVER + """
    class Loader:
        def __init__(self):
            self.memory = mmap.mmap(-1, BYTES)
            self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
            call(b"cuStreamCreate", result(STREAM), 1)
            call(b"cuMemAlloc_v2", result(DATA), BYTES)
            call(b"cuMemHostAlloc", result(self.address), BYTES, 0)

        def download(self):
            call(
                b"cuMemcpyDtoHAsync_v2",
                self.address, DATA, BYTES, STREAM,
            )

        def first(self):
            found = (
                self.memory
                [0]
            )
            return found

    def main():
        loader = Loader()
        loader.download()
        loader.first()
        call(b"cuStreamSynchronize", STREAM)

    def deep(depth):
        return main() if depth == 0 else deep(depth - 1)

    deep(20)
"""


def line(text):
    """The number of the first line of the program with a text."""
    lines = textwrap.dedent(PROGRAM).splitlines()
    return next(number for number, one in enumerate(lines, 1) if text in one)


def environment():
    """The environment of a program that uses the stand-ins."""
    return {
        **os.environ,
        "TRIJET_LIBCUDA": str(STAND_INS / "libempty_cuda.so"),
        "TRIJET_LIBCUPTI": str(STAND_INS / "libempty_cupti.so"),
        "TRIJET_LIBSANITIZER": str(STAND_INS / "libempty_cupti.so"),
    }


@pytest.fixture
def finding(tmp_path):
    """The finding in a program whose name is not of ASCII."""
    program = tmp_path / "l\u00f6ader.py"
    program.write_text(textwrap.dedent(PROGRAM))
    trijet = "import sys, trijet._cli; sys.exit(trijet._cli.main())"
    check = [sys.executable, "-c", trijet, "check", "--json", "--", sys.executable, str(program)]
    ran = subprocess.run(check, capture_output=True, text=True, timeout=60, env=environment())
    assert ran.returncode == 1, ran.stderr
    (process,) = json.loads(ran.stdout)["processes"]
    (error,) = process["errors"]
    return error, program


def test_a_stack_has_the_functions_and_lines_of_python(finding):
    """Both calls are named by their lines, whether a call or an access of the interpreter made them."""
    error, program = finding
    assert error["class"] == "HOST/RAW"
    copy, access = error["stacks"]
    assert copy[0] == f"call in {program}:{line('cupti.empty_cupti_call')}"
    assert copy[1] == f"Loader.download in {program}:{line('def download') + 1}"
    assert access[0] == f"Loader.first in {program}:{line('found = (') + 1}"
    assert access[1] == f"main in {program}:{line('loader.first()')}"


def test_a_key_has_neither_lines_nor_folders(finding):
    """A baseline holds on another machine, and after a change of other lines."""
    error, program = finding
    assert f"from Loader.first in {program.name} from main in {program.name}" in error["key"]
    assert str(program.parent) not in error["key"]


def test_of_a_deep_stack_the_innermost_frames_are_told(finding):
    """Eight frames of Python, and then the frames of the libraries."""
    error, program = finding
    for stack in error["stacks"]:
        ours = [frame for frame in stack if str(program) in frame]
        assert len(ours) == 8 and stack[:8] == ours


BLOCKS = """
    import trijet
    from trijet.errors import CheckError, TrijetError

    UPLOAD = (b"cuMemcpyHtoDAsync_v2", DATA, 0x550000000000, BYTES)
    DOWNLOAD = (b"cuMemcpyDtoHAsync_v2", 0x550000000000 + BYTES, DATA, BYTES)

    def race():
        call(*UPLOAD, STREAM)
        call(*DOWNLOAD, 2 * STREAM)
        call(b"cuStreamSynchronize", STREAM)
        call(b"cuStreamSynchronize", 2 * STREAM)

    def prepare():
        call(b"cuStreamCreate", result(STREAM), 1)
        call(b"cuStreamCreate", result(2 * STREAM), 1)
        call(b"cuMemAlloc_v2", result(DATA), BYTES)
        call(b"cuMemHostAlloc", result(0x550000000000), 2 * BYTES, 0)
"""


KERNELS = """
    def launch(stream, mode):
        cupti.empty_sanitizer_touch(ctypes.c_uint64(DATA), ctypes.c_uint64(BYTES), mode)
        extra = (ctypes.c_uint64 * 6)(1, result(DATA), 2, result(8), 0, 0)
        kept.append(extra)
        call(b"cuLaunchKernel", 0x770000, *[1 | 1 << 32] * 3, 1, stream, 0, ctypes.addressof(extra))

    def race_of_kernels():
        launch(STREAM, 2)
        launch(2 * STREAM, 1)
        call(b"cuStreamSynchronize", 2 * STREAM)
"""


def run(code, **more):
    """Runs a program over the stand-ins; it has not initialised CUDA."""
    begin = "def initialise(): return ctypes.CDLL(os.environ['TRIJET_LIBCUDA']).cuInit(0)"
    load, init = [line for line in textwrap.dedent(DRIVER).splitlines() if "driver" in line]
    before = textwrap.dedent(DRIVER).replace(load, begin).replace(init, "")
    program = before + textwrap.dedent(BLOCKS) + textwrap.dedent(KERNELS) + textwrap.dedent(code)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env={**environment(), **more}
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_block_has_the_findings_of_its_calls():
    """Each block has its own findings, and a block without a conflict has none."""
    run(
        """
        with trijet.check(program=True, raises=False) as first:
            initialise()
            prepare()
            race()
        assert [one.is_error for one in first.findings] == [True], first.findings
        assert "RACE/RAW" in first.findings[0].text and "race in <string>" in first.findings[0].text
        assert not first.is_clean

        race()  # in no block
        with trijet.check(program=True) as second:
            call(*UPLOAD, STREAM)
        assert second.is_clean and second.findings == []

        @trijet.check
        def unseen():
            race()
        unseen()

        try:
            with trijet.check(program=True):
                race()
        except CheckError as error:
            assert "RACE/RAW" in str(error)
        else:
            raise AssertionError("the race was not told")

        try:
            with trijet.check(program=True):
                race()
                raise KeyError("own")
        except KeyError:
            pass
        """
    )


def test_a_block_that_records_kernels_has_their_conflicts():
    """A conflict of two kernels is an error of the block in which the second one was launched."""
    run(
        """
        with trijet.check(program=True, kernels=True, raises=False) as first:
            initialise()
            prepare()
            launch(STREAM, 2)
        assert first.is_clean, (first.findings, first.trouble)
        with trijet.check(program=True, kernels=True, raises=False) as second:
            launch(2 * STREAM, 1)
        assert [one.is_error for one in second.findings] == [True], (second.findings, second.trouble)
        """
    )


def test_kernels_cannot_be_recorded_later():
    """The first check of a process decides what is recorded."""
    run(
        """
        with trijet.check(program=True):
            initialise()
        try:
            with trijet.check(program=True, kernels=True):
                raise AssertionError("the block was entered")
        except TrijetError as error:
            assert "without what kernels access" in str(error), error
        try:
            trijet.check(kernels=True)
        except ValueError:
            pass
        else:
            raise AssertionError("kernels without the program were accepted")
        """
    )


def test_a_missing_library_for_kernels_is_told():
    """Without the Compute Sanitizer API, no call is recorded, and the block is not clean."""
    run(
        """
        with trijet.check(program=True, kernels=True, raises=False) as c:
            initialise()
        assert not c.is_clean and "Compute Sanitizer API was not found" in c.trouble, c.trouble
        """,
        TRIJET_LIBSANITIZER="/none",
    )


def test_a_check_inside_of_another_leaves_the_findings_before_it_to_the_outer_one():
    """No finding is lost between two blocks."""
    run(
        """
        with trijet.check(program=True, raises=False) as outer:
            initialise()
            prepare()
            race()
            with trijet.check(program=True, raises=False) as inner:
                pass
        assert (len(outer.findings), len(inner.findings)) == (1, 0)
        """
    )


def test_a_block_whose_calls_were_not_recorded_is_not_clean():
    """A profiler in the process has CUPTI."""
    run(
        """
        with trijet.check(program=True, raises=False) as c:
            initialise()
            prepare()
            race()
        assert not c.is_clean and "has subscribed to CUPTI" in c.trouble, c.trouble
        try:
            with trijet.check(program=True):
                pass
        except TrijetError as error:
            assert "has subscribed to CUPTI" in str(error)
        else:
            raise AssertionError("nothing was told")
        """,
        EMPTY_CUPTI_TAKEN="1",
    )


def test_a_child_process_is_not_recorded():
    """A child has the variables of its parent."""
    run(
        """
        import subprocess, sys
        with trijet.check(program=True, raises=False) as c:
            initialise()
            prepare()
            child = "import ctypes, os; assert ctypes.CDLL(os.environ['TRIJET_LIBCUDA']).cuInit(0) == 0"
            subprocess.run([sys.executable, "-c", child], check=True)
            files = [name for name in os.listdir(os.environ["TRIJET_CALLS"]) if name.endswith(".calls")]
        assert [name.split("-")[0] for name in files] == [str(os.getpid())], files
        """
    )


def test_a_check_of_the_program_that_comes_too_late_is_an_error():
    """The driver loads the recorder only at its start."""
    run(
        """
        initialise()
        try:
            with trijet.check(program=True):
                raise AssertionError("the block was entered")
        except TrijetError as error:
            assert "initialised CUDA before" in str(error), error
        with trijet.check() as c:
            pass
        assert c.is_clean
        """
    )


def test_another_tool_in_the_process_is_named():
    """The driver loads one library."""
    run(
        """
        try:
            with trijet.check(program=True):
                raise AssertionError("the block was entered")
        except TrijetError as error:
            assert "CUDA_INJECTION64_PATH is set" in str(error), error
        """,
        CUDA_INJECTION64_PATH="/nowhere",
    )


def test_a_forked_child_is_not_checked():
    """A child has no CUDA."""
    run(
        """
        with trijet.check(program=True, raises=False) as c:
            initialise()
            prepare()
            race()
            child = os.fork()
            if child == 0:
                with trijet.check() as own:
                    pass
                try:
                    with trijet.check(program=True):
                        os._exit(1)
                except TrijetError as error:
                    os._exit(0 if "was forked" in str(error) else 2)
            assert os.waitpid(child, 0)[1] == 0
        assert len(c.findings) == 1
        """
    )


@pytest.mark.parametrize(
    ("option", "race", "words", "calls"),
    [("--trijet-check", "race()", "race in ", 9), ("--trijet-check-kernels", "race_of_kernels()", "launch in ", 8)],
)
def test_pytest_fails_the_test_whose_calls_race(tmp_path, option, race, words, calls):
    """The test with the race fails with the verdict, and the tests before and after it pass."""
    before = textwrap.dedent(DRIVER) + textwrap.dedent(BLOCKS) + textwrap.dedent(KERNELS)
    tests = f"""
    def test_prepares():
        prepare()

    def test_races():
        {race}

    def test_follows():
        call(*UPLOAD, STREAM)
    """
    (tmp_path / "test_it.py").write_text(before + textwrap.dedent(tests))
    call = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", option, "test_it.py"]
    call += [] if "trijet" in PLUGINS else ["-p", "trijet.pytest_plugin"]
    ran = subprocess.run(call, capture_output=True, text=True, timeout=60, env=environment(), cwd=tmp_path)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "FAILED test_it.py::test_races" in ran.stdout and "1 failed, 2 passed" in ran.stdout, ran.stdout
    assert "error[RACE/RAW]" in ran.stdout and words in ran.stdout, ran.stdout
    assert f"trijet: 0 jobs were checked, {calls} calls to the driver" in ran.stdout, ran.stdout
