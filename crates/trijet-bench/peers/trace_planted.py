"""Three planted defects for `trijet trace`, 40 steps of each: a pageable copy, a kernel on the legacy
default stream beside a blocking stream, and a wait for the whole device. `trace_planted.py clean` runs
the corrected twin, with page-locked memory, one non-blocking stream for each task, and events."""
import ctypes
import sys

import torch

STEPS = 40
N = 4 << 20


def blocking_stream():
    """A blocking stream, as cudaStreamCreate makes it. The streams of PyTorch are non-blocking."""
    runtime = ctypes.CDLL("libcudart.so.13")
    handle = ctypes.c_void_p()
    if runtime.cudaStreamCreate(ctypes.byref(handle)) != 0:
        sys.exit("no stream")
    return torch.cuda.ExternalStream(handle.value)


def planted(x, weight, host):
    side = blocking_stream()
    for _ in range(STEPS):
        x.copy_(host)                          # pageable
        with torch.cuda.stream(side):
            product = weight @ weight          # a blocking stream,
        y = torch.sin(x)                       # and the legacy one beside it
        with torch.cuda.stream(side):
            product = product @ weight
        torch.cuda.synchronize()               # everything
    return float(y[0]), float(product[0, 0])


def clean(x, weight, host):
    upload, compute = torch.cuda.Stream(), torch.cuda.Stream()
    slots = [x, torch.empty_like(x)]
    free = [torch.cuda.Event() for _ in slots]
    for step in range(STEPS):
        slot = slots[step % 2]
        with torch.cuda.stream(upload):
            upload.wait_event(free[step % 2])
            slot.copy_(host, non_blocking=True)
        ready = upload.record_event()
        with torch.cuda.stream(compute):
            product = weight @ weight
            compute.wait_event(ready)
            y = torch.sin(slot)
            product = product @ weight
            free[step % 2].record()
    torch.cuda.synchronize()
    return float(y[0]), float(product[0, 0])


def main():
    want_clean = sys.argv[1:] == ["clean"]
    host = torch.rand(N)
    if want_clean:
        host = host.pin_memory()
    x = torch.empty(N, device="cuda")
    weight = torch.rand(2048, 2048, device="cuda") / 1024
    torch.sin(weight @ weight)                 # loads the kernels and sets up the libraries
    torch.cuda.synchronize()
    print((clean if want_clean else planted)(x, weight, host))


main()
