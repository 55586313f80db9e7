"""``trijet.check``, ``trijet.alloc`` and ``trijet.trace`` on a GPU, with PyTorch and CuPy: python observers.py [CASE...]

Each case is a process, because an allocator and a tracing library stay until a process ends. It needs the extension
module, and ``libtrijet_alloc.so`` beside it or in ``$TRIJET_ALLOC``. Prints a line for each case, and exits with the
number of failures.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time


def steps(torch, count, width=1024):
    """Steps of a small training, and the last loss."""
    torch.manual_seed(1)
    layers = [torch.nn.Linear(width, width) for _ in range(4)]
    model = torch.nn.Sequential(*layers).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(count):
        x = torch.full((256, width), 0.01 * step).pin_memory().cuda(non_blocking=True)
        optimizer.zero_grad(set_to_none=True)
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
    return loss.item()


def refused(run, words):
    import trijet

    try:
        run()
    except trijet.TrijetError as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def case_check():
    """Jobs on the GPU are checked."""
    import numpy as np

    import trijet

    x = np.random.default_rng(1).integers(0, 4096, (64, 512, 512), dtype=np.uint16)
    with trijet.check() as c:
        out = trijet.map(x, ["median:1", "affine:2"], device="cuda:0", chunk="4 MiB")
    assert c.is_clean and len(c.verdicts) == 1, c.verdicts
    assert np.array_equal(out, trijet.map(x, ["median:1", "affine:2"], device="host"))
    print(c.verdicts[0].text.splitlines()[-1])


def case_alloc_torch():
    """A training over the heap has the losses of PyTorch's allocator, and its limit holds."""
    own = subprocess.run([sys.executable, __file__, "--loss"], capture_output=True, text=True, check=True)
    import torch

    import trijet.alloc as ta

    assert ta.install(limit="4 GiB") == ("torch",)
    loss = steps(torch, 20)
    assert abs(loss / float(own.stdout) - 1) < 1e-4, (loss, own.stdout)
    side = torch.cuda.Stream()
    for _ in range(50):  # memory of one stream that another one uses
        with torch.cuda.stream(side):
            x = torch.ones(1 << 20, device="cuda")
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        assert (x + 1).sum().item() == 2 << 20
        del x
    found = ta.stats()
    assert 0 < found.live <= found.live_high <= found.reserved_high <= 4 << 30, found
    print(found)
    try:
        torch.empty(8 << 30, dtype=torch.uint8, device="cuda").fill_(1)
        torch.cuda.synchronize()
    except Exception as error:  # PyTorch does not check the address, so the kernel may fail instead
        print("beyond the limit:", type(error).__name__)
    else:
        raise AssertionError("8 GiB of 4 GiB")


def case_alloc_late():
    """PyTorch that has allocated is refused."""
    import torch

    import trijet.alloc as ta

    torch.ones(1, device="cuda")
    refused(ta.install, "before the first tensor")


def case_alloc_both():
    """CuPy and PyTorch share the heap: memory that one has freed is memory for the other."""
    import cupy
    import torch

    import trijet.alloc as ta

    assert ta.install() == ("torch", "cupy")
    x = cupy.arange(1 << 20, dtype="f4")
    live = ta.stats().live
    assert live >= 4 << 20
    y = torch.as_tensor(x, device="cuda")
    assert y.data_ptr() == x.data.ptr and float(y[-1]) == (1 << 20) - 1
    address = x.data.ptr
    del x, y
    assert ta.stats().live < live
    z = torch.ones(1 << 20, device="cuda")
    print("the same address:", z.data_ptr() == address)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        a = cupy.random.random((512, 512))
        assert abs(float((a @ cupy.linalg.inv(a)).trace()) - 512) < 1e-3
        assert cupy.zeros(0).sum() == 0
        del a
    stream.synchronize()
    ta.forget_stream(stream)
    limit = ta.stats().reserved + (1 << 30)
    ta.install(limit=limit)
    with contextlib.suppress(MemoryError):
        cupy.empty(4 << 30, dtype="u1")
        raise AssertionError("4 GiB more than the limit")
    print(ta.stats())


def case_trace_torch():
    """Blocks of a training are recorded, and what is between them is not."""
    import torch

    import trijet

    with trijet.trace(memory=True) as first:
        begin = time.perf_counter()
        steps(torch, 30)
        print(f"the first block took {time.perf_counter() - begin:.2f} s")
    assert first.missing is None, first.missing
    [process] = first.json()["processes"]
    assert process["complete"] and not process["troubles"], process
    kernels = sum(kernel["launches"] for kernel in process["devices"][0]["kernels"])
    assert kernels > 100 and first.memory
    steps(torch, 500)
    with trijet.trace() as second:
        a = torch.ones(512, 512, device="cuda")
        for _ in range(7):
            torch.mm(a, a)
    [process] = second.json()["processes"]
    found = {kernel["name"]: kernel["launches"] for kernel in process["devices"][0]["kernels"]}
    assert process["complete"] and 7 in found.values() and sum(found.values()) < 20, found
    with trijet.trace() as third:
        pass
    print("an empty block:", third.missing)
    with tempfile.TemporaryDirectory() as folder:
        first.save(f"{folder}/run.html")
        first.save(f"{folder}/run.trijet")
        assert trijet.read(f"{folder}/run.trijet").summary() == first.summary()
        print(os.path.getsize(f"{folder}/run.html"), "bytes of the page")
    print(first.summary())
    print([(one.rule, round(one.seconds, 4)) for one in first.findings])


def case_trace_late():
    """A first trace after the start of CUDA is refused."""
    import torch

    import trijet

    torch.ones(1, device="cuda")
    refused(lambda: trijet.trace().__enter__(), "before the first use")


def case_trace_cupy():
    """CuPy and a job of the library in a block."""
    import cupy
    import numpy as np

    import trijet

    @trijet.trace(save="/dev/shm/trijet-gpu-obs.trijet")
    def work():
        assert int(cupy.arange(1000).sum()) == 499500
        x = np.ones((16, 256, 256), np.uint16)
        assert trijet.map(x, ["median:1"], device="cuda:0").max() == 1

    try:
        work()
        # The figures cover the chunks of the job, which are the steps of the program.
        [process] = trijet.read("/dev/shm/trijet-gpu-obs.trijet").json()["processes"]
        names = [kernel["name"] for kernel in process["devices"][0]["kernels"]]
        assert process["complete"] and any("median" in name for name in names), names
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove("/dev/shm/trijet-gpu-obs.trijet")


def case_trace_kineto():
    """After a trace, torch.profiler has no records of the GPU; after torch.profiler, a trace is refused."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import trijet

    with trijet.trace() as t:
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as prof:
            steps(torch, 3)
    times = [getattr(one, "device_time_total", 0) for one in prof.key_averages()]
    print("trace:", t.missing, "| kernels of the profiler:", sum(time > 0 for time in times))
    print("notes:", [process["notes"] for process in t.json()["processes"]])
    assert t.missing is None


def case_trace_after_kineto():
    """A profiler that has used CUPTI before: the trace is refused, because CUDA runs by then."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import trijet

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        steps(torch, 2)
    refused(lambda: trijet.trace().__enter__(), "before the first use")


CASES = {name.removeprefix("case_"): case for name, case in globals().items() if name.startswith("case_")}


def main():
    if sys.argv[1:2] == ["--loss"]:
        import torch

        return print(repr(steps(torch, 20)))
    if sys.argv[1:2] == ["--case"]:
        return CASES[sys.argv[2]]()
    failures = 0
    for name in sys.argv[1:] or CASES:
        begin = time.perf_counter()
        try:
            call = [sys.executable, os.path.abspath(__file__), "--case", name]
            ran = subprocess.run(call, capture_output=True, text=True, timeout=90)
            status, said = ran.returncode, ran.stdout + (ran.stderr if ran.returncode else "")
        except subprocess.TimeoutExpired as error:
            status, said = "it took too long", str(error.stdout) + str(error.stderr)
        failures += status != 0
        took = time.perf_counter() - begin
        print(f"{'PASS' if status == 0 else 'FAIL'} {name} ({took:.1f} s)\n{said}", flush=True)
    print(f"failures: {failures}")
    return failures


sys.exit(main())
