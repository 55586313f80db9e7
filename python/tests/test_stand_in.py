"""Stages, buffers and feeds on a stand-in for the CUDA driver: which calls are made, and what is refused.

Nothing is computed, so these tests look at what functions get, and not at results. ``$TRIJET_STAND_INS`` is the
folder of ``libempty_cuda.so``, which ``cargo xtask python`` sets.
"""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

STAND_INS = Path(os.environ.get("TRIJET_STAND_INS", "/nowhere"))
pytestmark = pytest.mark.skipif(not STAND_INS.is_dir(), reason="TRIJET_STAND_INS names no folder")

FAKES = """
    import ctypes, sys, types
    import numpy, trijet

    def pointer(capsule, name):
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        return get(capsule, name)

    class Array:
        \"\"\"An array of a fake CuPy.\"\"\"
        def __init__(self, source):
            self.source, self.shape = source, tuple(source.shape)
            self.capsule = source.__dlpack__(stream=current[-1], max_version=(1, 0))
        def __setitem__(self, index, value):
            copied.append((self.shape, value.shape))

    class Stream:
        def __init__(self, handle, device):
            self.handle = handle
        def __enter__(self):
            current.append(self.handle)
        def __exit__(self, *error):
            current.pop()

    class Device(Stream):
        def __init__(self, number):
            self.handle = 1

    current, copied = [1], []
    cupy = types.ModuleType("cupy")
    cupy.cuda = types.SimpleNamespace(Device=Device, ExternalStream=Stream)
    cupy.from_dlpack = Array
    sys.modules["cupy"] = cupy
    stack = numpy.zeros((12, 16, 16), "u2")
"""


def python(code, status=0):
    """Runs a program over the stand-in."""
    environment = {**os.environ, "TRIJET_LIBCUDA": str(STAND_INS / "libempty_cuda.so"), "TRIJET_DEVICE": "cuda:0"}
    call = [sys.executable, "-c", textwrap.dedent(FAKES) + textwrap.dedent(code)]
    ran = subprocess.run(call, capture_output=True, text=True, timeout=60, env=environment)
    assert ran.returncode == status, ran.stderr
    return ran.stdout


def test_a_stage_gets_device_arrays_and_the_stream_of_the_pipeline():
    python("""
        seen = []
        @trijet.stage(halo=1, out_dtype="f4", out_shape=(4,))
        def look(x, out, stream):
            assert stream.handle > 2 and stream.__cuda_stream__() == (0, stream.handle) and stream.device == 0
            for array in (x, out):
                found = array.__cuda_array_interface__
                assert found["stream"] == stream.handle and found["version"] == 3 and found["data"][0] > 0
                assert array.__dlpack_device__() == (2, 0)
            assert x.__cuda_array_interface__["data"][1] and not out.__cuda_array_interface__["data"][1]
            assert (x.dtype, out.dtype) == ("uint16", "float32")
            assert x.shape[1:] == (16, 16) and out.shape[1:] == (4,) and x.shape[0] == out.shape[0] + 2
            seen.append(out.shape[0])
        out = numpy.empty((12, 4), "f4")
        trijet.map(stack, out, [look], chunk=2048)
        assert sum(seen) >= 12, seen
    """)


def test_an_array_refuses_another_stream_and_a_call_that_has_ended():
    told = python("""
        kept = []
        @trijet.stage
        def look(x, out, stream):
            kept.append(x)
            x.__dlpack__(stream=stream.handle)
            x.__dlpack__(stream=-1)
            for wrong in (1, 2, stream.handle + 8, None):
                try:
                    x.__dlpack__(stream=wrong)
                except BufferError as error:
                    print(error)
                else:
                    raise AssertionError(wrong)
        trijet.map(stack, numpy.empty_like(stack), [look])
        try:
            kept[0].__dlpack__(stream=-1)
        except BufferError as error:
            print(error)
    """)
    assert told.count("must be in the stream of the stage") >= 4
    assert "the call of the stage has ended" in told


def test_a_stage_of_cupy_runs_in_the_stream_and_its_result_is_copied():
    python("""
        @trijet.stage(arrays="cupy")
        def blur(x):
            assert len(current) == 3 and current[-1] > 2
            return types.SimpleNamespace(shape=x.shape)
        trijet.map(stack, numpy.empty_like(stack), [blur], chunk=2048)
        assert len(copied) >= 3 and all(first == second for first, second in copied)
        assert current == [1]
    """)


def test_an_exception_of_a_stage_ends_the_run_and_not_the_device():
    python("""
        @trijet.stage
        def fails(x, out):
            raise KeyError("why")
        for _ in range(2):
            try:
                trijet.map(stack, numpy.empty_like(stack), [fails])
            except KeyError as error:
                assert any("KeyError" in note for note in error.__notes__)
            else:
                raise AssertionError("not raised")
        trijet.map(stack, numpy.empty_like(stack), ["affine"])
    """)


def test_every_conflict_of_a_run_with_a_stage_is_ordered():
    """The stand-in fills no memory, so the red zones around buffers look damaged."""
    python("""
        @trijet.stage(halo=1)
        def nothing(x, out, stream):
            pass
        try:
            trijet.map(stack, numpy.empty_like(stack), [trijet.ops.median(1), nothing], chunk=2048, check=True)
        except trijet.errors.CheckError as error:
            *damage, verdict = str(error).splitlines()
            assert all(line.startswith("error[MEMORY/OVERRUN]") for line in damage)
            assert "every conflict is ordered" in verdict, verdict
        else:
            raise AssertionError("the red zones look whole")
    """)


def test_later_work_of_a_consumer_is_followed_each_time():
    """A stream that took an array is marked again at each use: it waits for an event, or is queried."""
    python("""
        x = trijet.empty((4, 4), "f4", device="cuda:0")
        for _ in range(5):
            x.__dlpack__(stream=1)
            trijet.to_numpy(x)
            x.__dlpack__(copy=True)
        streams = [8 * n + 1024 for n in range(2000)]
        for stream in streams:
            # Streams are forgotten after each call, so more than the limit of streams may come and go.
            y = trijet.empty((1,), "u1", device="cuda:0")
            y.__dlpack__(stream=stream)
            del y
    """)


def test_memory_of_a_feed_is_freed_in_the_stream_that_used_it():
    """And not in another stream, nor in a later loop."""
    python("""
        from trijet import _native
        def addresses(passed_in, begins=False):
            feed, found = _native.Feed("cuda:0", 2), set()
            for turn in range(100):
                [x] = feed.put([(numpy.zeros(1 << 20, "u1"), "uint8", [1 << 20])])
                capsule = x.__dlpack__(stream=4096)
                # The address of the data is the first field of the tensor.
                found.add(ctypes.c_void_p.from_address(pointer(capsule, b"dltensor")).value)
                del x, capsule
                if begins:
                    feed.begin()
                feed.passed(passed_in)
            return found
        freed, other, later = (len(addresses(*one)) for one in ((4096,), (4104,), (4096, True)))
        assert (freed < 50, other, later) == (True, 100, 100), (freed, other, later)
    """)


def test_a_stage_by_the_cuda_array_interface_is_followed_on_the_legacy_stream():
    python("""
        @trijet.stage
        def look(x, out, stream):
            out.__cuda_array_interface__
        trijet.map(stack, numpy.empty_like(stack), [look], chunk=2048)
    """)


def test_a_buffer_is_ordered_before_each_stream_that_takes_it():
    python("""
        from trijet import _native
        driver = ctypes.CDLL(__import__("os").environ["TRIJET_LIBCUDA"])
        x = trijet.empty((4, 4), "f4", device="cuda:0")
        assert x.__dlpack_device__() == (2, 0) and x.device == "cuda:0"
        for stream in (None, 1, 2, -1):
            assert "dltensor" in repr(x.__dlpack__(stream=stream))
        found = x.__cuda_array_interface__
        assert found["stream"] == 1 and found["shape"] == (4, 4) and not found["data"][1]
        del x
        made = [trijet.asarray(numpy.zeros(1000), device="cuda:0") for _ in range(20)]
    """)


def test_a_feed_gives_buffers_in_the_order_of_the_batches():
    python("""
        from trijet._feed import BatchFeed
        class Feed(BatchFeed):
            def _array(self, buffer, dtype):
                return Array(buffer)
        feed = Feed(({"x": numpy.full((8, n + 1), n)} for n in range(9)), device="cuda:0", depth=2)
        assert [batch["x"].shape for batch in feed] == [(8, n + 1) for n in range(9)]
    """)
