"""The package as a process sees it: imports, signals, forks, the command."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import trijet


def python(code, **options):
    """Runs a program of Python."""
    call = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, **options)


def test_an_import_opens_no_device_and_no_library():
    ran = python("""
        import os, sys
        import numpy  # starts threads of its own
        threads = len(os.listdir("/proc/self/task"))
        import trijet, trijet.ops
        loaded = open("/proc/self/maps").read()
        assert "libcuda" not in loaded and "libnvrtc" not in loaded
        assert len(os.listdir("/proc/self/task")) == threads
        for package in ("cupy", "torch", "h5py", "zarr", "dask", "scipy"):
            assert package not in sys.modules, package
    """)
    assert ran.returncode == 0, ran.stderr


def test_ctrl_c_ends_a_run_and_resume_continues_it(tmp_path):
    stack = np.arange(40 * 8 * 8, dtype="u2").reshape(40, 8, 8)
    np.save(tmp_path / "in.npy", stack)
    code = """
        import os, signal, sys, numpy, trijet
        # A shell that starts the tests in the background makes its programs ignore this signal.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        @trijet.stage(version="1")
        def slow(x, out):
            if os.environ["SLOW"] == "1":
                print("chunk", flush=True)
                import time
                time.sleep(0.05)
            out[...] = x
        report = trijet.map("in.npy", "out.npy", [slow], chunk=128, device="host", resume=True)
        print("complete", report.kept_rows)
    """
    call = [sys.executable, "-c", textwrap.dedent(code)]
    slow = subprocess.Popen(
        call, cwd=tmp_path, env={**os.environ, "SLOW": "1"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    for _ in range(12):
        assert slow.stdout.readline().strip() == "chunk"
    slow.send_signal(signal.SIGINT)
    _, told = slow.communicate(timeout=60)
    assert slow.returncode != 0 and "KeyboardInterrupt" in told, told
    assert "rows are kept; use resume=True to continue" in told, told
    assert not (tmp_path / "out.npy").exists()
    again = subprocess.run(call, cwd=tmp_path, env={**os.environ, "SLOW": "0"}, capture_output=True, text=True)
    assert again.returncode == 0 and int(again.stdout.split()[1]) > 0, again.stderr
    assert np.array_equal(np.load(tmp_path / "out.npy"), stack)


def test_an_exception_of_a_stage_prints_no_backtrace_of_the_library():
    ran = python("""
        import numpy, trijet
        @trijet.stage
        def fails(x, out):
            raise ValueError("why")
        try:
            trijet.map(numpy.ones((2, 4, 4), "u1"), [fails], device="host")
        except ValueError:
            pass
    """)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr


def test_the_identity_of_a_function_is_the_same_in_every_process():
    code = """
        import numpy, trijet
        K = frozenset({"a", "b", "c"})
        def made(k):
            return trijet.stage(lambda x: (lambda y: y in K or {"p", "q"})(numpy.add(x, k)))
        print(made(3).identity)
    """
    assert len({python(code).stdout for _ in range(3)}) == 1
    assert len(python(code).stdout.strip()) == 16


def test_a_child_of_a_fork_is_refused_clearly():
    ran = python("""
        import os, numpy, trijet
        x = numpy.ones((2, 4, 4), "u1")
        trijet.map(x, ["affine"], device="host")
        child = os.fork()
        if child == 0:
            try:
                trijet.map(x, ["affine"], device="host")
            except trijet.errors.ForkedError as error:
                print(error)
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    assert ran.returncode == 0, ran.stderr
    assert "fork" in ran.stdout


def test_the_command_is_in_the_package(tmp_path):
    np.save(tmp_path / "in.npy", np.ones((2, 4, 4), "u1"))
    call = [sys.executable, "-m", "trijet", "map", "in.npy", "-o", "out.npy", "--op", "affine:3", "--device", "host"]
    ran = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert np.load(tmp_path / "out.npy").max() == 3
    wrong = subprocess.run([sys.executable, "-m", "trijet", "mapp"], capture_output=True, text=True)
    assert wrong.returncode == 2


def test_errors_have_a_class_for_each_kind_and_the_words_of_the_command(tmp_path):
    with pytest.raises(trijet.errors.FileError, match="gone.npy") as raised:
        trijet.map(tmp_path / "gone.npy", ["affine"])
    assert isinstance(raised.value, OSError)
    (tmp_path / "bad.npy").write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(trijet.TrijetError, match="bad.npy"):
        trijet.map(tmp_path / "bad.npy", ["affine"])
    with pytest.raises(trijet.errors.InvalidValueError, match="unknown device"):
        trijet.map(np.ones((2, 2), "u1"), ["affine"], device="gpu")
    with pytest.raises(TypeError, match="no source"):
        trijet.map(object(), ["affine"])


def test_a_kernel_of_the_user_needs_a_gpu(stack, on_gpu):
    if on_gpu:
        pytest.skip("the device is a GPU")
    code = """
    extern "C" __global__ void gain(const TRIJET_T* x, unsigned long long n, TRIJET_U* y, unsigned long long m, float f) {
        unsigned long long i = blockIdx.x * 256ull + threadIdx.x;
        if (i < m) y[i] = f * x[i];
    }
    """
    with pytest.raises(trijet.errors.NoDeviceError, match="gain"):
        trijet.map(stack, [trijet.Kernel(code, "gain", out_dtype="f4", factor=2.0)])


def test_a_run_holds_the_lock_of_python_only_for_stages(stack):
    """Another thread runs while a job does."""
    import threading

    counted = 0
    ended = False

    def count():
        nonlocal counted
        while not ended:
            counted += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    trijet.map(np.zeros((64, 256, 256), "u2"), [trijet.ops.median(3)], device="host")
    after = counted
    ended = True
    thread.join()
    assert after > before
