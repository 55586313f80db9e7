"""Planted races of kernels in PyTorch and CuPy, each beside its cure: `kernel_races_python.py NAME` runs one, and
without a name lists them with what `trijet check --kernels` must find, as `kernel_races.cu` does. Those of two
devices are listed where there are two."""
import ctypes
import sys

N = 1 << 22


def with_torch(name, is_cured):
    import torch
    a = torch.randn(N, device="cuda")
    b, c = torch.empty_like(a), torch.randn(1024, 1024, device="cuda")
    side, present = torch.cuda.Stream(), torch.cuda.current_stream()
    torch.cuda.synchronize()

    def side_reads(first, second):
        made = first()
        if is_cured:
            side.wait_stream(present)
        with torch.cuda.stream(side):
            read = second(made)
        if is_cured:
            present.wait_stream(side)
        torch.cuda.synchronize()
        return made, read

    if name == "elementwise":
        side_reads(lambda: torch.mul(a, 3, out=b), lambda made: made + 1)
    elif name == "product":
        side_reads(lambda: torch.mm(c, c), lambda made: torch.mm(made, c))
    elif name == "bf16":                       # kernels that read and write by tensor maps
        h = c.bfloat16()
        torch.cuda.synchronize()
        side_reads(lambda: torch.mm(h, h), lambda made: torch.mm(made, h))
    elif name == "record-stream":
        x = torch.empty(N, device="cuda")
        x.fill_(1)
        side.wait_stream(present)
        with torch.cuda.stream(side):
            y = torch.sort(x * 2)[0] + x
        if is_cured:
            x.record_stream(side)
        del x
        torch.empty(N, device="cuda").fill_(5)  # perhaps the same block
        torch.cuda.synchronize()
    elif name == "prefetch":
        host = torch.randn(N, pin_memory=True)
        with torch.cuda.stream(side):
            b.copy_(host, non_blocking=True)
        if is_cured:
            present.wait_stream(side)
        b + 1
        torch.cuda.synchronize()
    elif name == "graph":
        graph = torch.cuda.CUDAGraph()
        torch.mul(a, 3, out=b)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            torch.mul(a, 3, out=b)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            graph.replay()
        if is_cured:
            present.wait_stream(side)
        b + 1
        torch.cuda.synchronize()


def with_cupy(name, is_cured):
    import cupy as cp
    a = cp.arange(N, dtype=cp.float32)
    b, out = cp.zeros_like(a), cp.zeros_like(a)
    source = r"""extern "C" __global__ void twice(const float* a, float* b, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) b[i] = a[i] * 2;
    }"""
    twice = cp.RawKernel(source, "twice")
    s1, s2 = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    cp.cuda.Device().synchronize()
    with s1:
        if name == "raw":
            twice((N // 256,), (256,), (a, b, cp.int32(N)))
        elif name == "ufunc":
            cp.multiply(a, 2, out=b)
        else:
            b = cp.full(N, 3, dtype=cp.float32)
    if is_cured:
        s2.wait_event(s1.record())
    with s2:
        cp.add(b, 1, out=out)
    cp.cuda.Device().synchronize()


def with_devices(name, is_cured):
    if name == "copy":                         # a copy between devices, of bytes that a kernel writes
        import torch
        a, there = torch.randn(N, device="cuda:0"), torch.empty(N, device="cuda:1")
        b, side = torch.empty_like(a), torch.cuda.Stream(0)
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        with torch.cuda.stream(side):
            torch.mul(a, 3, out=b)
        if is_cured:
            torch.cuda.current_stream(0).wait_stream(side)
        there.copy_(b, non_blocking=True)
        torch.cuda.synchronize(0)
        torch.cuda.synchronize(1)
        return
    import cupy as cp
    with cp.cuda.Device(0):
        a, s0 = cp.arange(N, dtype=cp.float32), cp.cuda.Stream(non_blocking=True)
        b = cp.zeros_like(a)
        cp.cuda.Device().synchronize()
    with cp.cuda.Device(1):
        cp.cuda.runtime.deviceEnablePeerAccess(0)
        out, s1 = cp.zeros(N, dtype=cp.float32), cp.cuda.Stream(non_blocking=True)
        source = """extern "C" __global__ void twice(const float* a, float* b, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) b[i] = a[i] * 2;
        }"""
        twice = cp.RawKernel(source, "twice")
        twice((1,), (1,), (out, out, cp.int32(1)))
        cp.cuda.Device().synchronize()
    with cp.cuda.Device(0), s0:
        cp.multiply(a, 2, out=b)
        made = s0.record()
    with cp.cuda.Device(1), s1:                # a kernel that reads the memory of the other device
        if is_cured:
            s1.wait_event(made)
        twice((N // 256,), (256,), (b, out, cp.int32(N)))
    for device in 0, 1:
        cp.cuda.Device(device).synchronize()


def devices():
    """The number of devices, without a context."""
    count = ctypes.c_int()
    driver = ctypes.CDLL("libcuda.so.1")
    return count.value if not driver.cuInit(0) and not driver.cuDeviceGetCount(ctypes.byref(count)) else 0


RACES = {
    with_torch: ["elementwise", "product", "bf16", "record-stream", "prefetch", "graph"],
    with_cupy: ["ufunc", "raw", "pool"],
    with_devices: ["copy", "kernel"],
}


def main():
    for run, names in RACES.items():
        library = run.__name__.removeprefix("with_")
        if len(sys.argv) < 2 and library == "devices" and devices() < 2:
            continue
        for name in names:
            for form in ("missing", "cured"):
                whole = f"{library}-{name}-{form}"
                if len(sys.argv) < 2:
                    print(whole, "0" if form == "cured" else "p" if name == "bf16" else "1")
                elif sys.argv[1] == whole:
                    run(name, form == "cured")


main()
