"""`trijet check` on programs in Python, over stand-ins for the CUDA driver and for CUPTI, which
`cargo xtask python` makes. Nothing runs on a device; the program reports its calls to the stand-in."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

STAND_INS = Path(os.environ.get("TRIJET_STAND_INS", "/nowhere"))
pytestmark = [
    pytest.mark.skipif(not STAND_INS.is_dir(), reason="TRIJET_STAND_INS names no folder"),
    pytest.mark.skipif(sys.version_info[:2] not in [(3, 11), (3, 12), (3, 13)], reason="other frames of Python"),
]

PROGRAM = """
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


@pytest.fixture
def finding(tmp_path):
    """The finding in a program whose name is not of ASCII."""
    program = tmp_path / "l\u00f6ader.py"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = {
        **os.environ,
        "TRIJET_LIBCUDA": str(STAND_INS / "libempty_cuda.so"),
        "TRIJET_LIBCUPTI": str(STAND_INS / "libempty_cupti.so"),
    }
    trijet = "import sys, trijet._cli; sys.exit(trijet._cli.main())"
    check = [sys.executable, "-c", trijet, "check", "--json", "--", sys.executable, str(program)]
    ran = subprocess.run(check, capture_output=True, text=True, timeout=60, env=environment)
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
