"""Programs with a planted habit each, and their mended twins.

    trace_habits.py NAME planted|mended|times

Prints the seconds of the loop and a sum of its results; with `times`, of both forms by turns.
`trace_gains.py` compares the time that the twin saves with the gain that `trijet trace` promises for the
planted program.

Each program computes the same in both forms. Before its steps, it copies from page-locked memory, so a
trace has a rate for such copies."""
import os
import sys
import time

STEPS = 60
TURNS = 5
N = 8 << 20                                    # floats of a large copy: 32 MiB


def busy(seconds):
    """The time of a host that reads or logs."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


# ---- PyTorch

def torch_program(name):
    import torch
    device = torch.device("cuda")
    weight = torch.rand(2048, 2048, device=device) / 1024
    host = torch.rand(N)
    pinned = host.pin_memory()
    x = torch.empty(N, device=device)
    kept = torch.zeros(STEPS, device=device)
    mended = False

    def products(count):
        product = weight
        for _ in range(count):
            product = product @ weight
        return product

    def pageable(i):
        x.copy_(pinned if mended else host, non_blocking=True)
        kept[i] = x[i] + products(8)[0, 0]

    def item(i):
        loss = products(2)[0, i]
        kept[i] = loss
        if not mended:
            loss.item()
        busy(300e-6)                           # what the host does in both forms

    def synchronize(i):
        kept[i] = products(2)[0, i]
        if not mended:
            torch.cuda.synchronize()
        busy(200e-6)

    def host_code(i):
        if not mended:
            busy(2e-3)
        kept[i] = products(2)[0, 0]

    tiny = torch.zeros(1024, device=device)

    def launches(_):
        for _ in range(200):
            tiny.add_(1.0)

    def two(i):
        x.copy_(pinned if mended else host, non_blocking=True)
        kept[i] = x[i] + products(8)[0, 0]
        if not mended:
            torch.cuda.synchronize()

    def host_and_pageable(i):
        if not mended:
            busy(1e-3)
        pageable(i)

    step = {"pageable": pageable, "item": item, "synchronize": synchronize, "host-code": host_code,
            "launches": launches, "pageable+synchronize": two,
            "host-code+pageable": host_and_pageable}[name]
    graph = torch.cuda.CUDAGraph()
    for i in range(3):
        x.copy_(pinned, non_blocking=True)
        step(i)
    torch.cuda.synchronize()
    if name == "launches":
        with torch.cuda.graph(graph):
            step(0)
        graph.replay()
        torch.cuda.synchronize()

    def loop(is_mended):
        nonlocal mended
        mended = is_mended
        tiny.zero_()
        torch.cuda.synchronize()
        began = time.perf_counter()
        for i in range(STEPS):
            torch.cuda.nvtx.range_push("step")
            if name == "launches" and mended:
                graph.replay()
            else:
                step(i)
            torch.cuda.nvtx.range_pop()
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
        return seconds, float(tiny.sum() if name == "launches" else kept.sum())

    return loop


# ---- CuPy

def cupy_program(name):
    import cupy as cp
    import numpy as np

    def page_locked(count):
        memory = cp.cuda.alloc_pinned_memory(4 * count)
        array = np.frombuffer(memory, np.float32, count)
        array[:] = np.arange(count, dtype=np.float32) % 7
        return array

    host = page_locked(N)
    slots = [cp.empty(N, cp.float32) for _ in range(2)]
    results = cp.zeros(STEPS, cp.float32)
    mended = False
    compute, upload = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    free = [cp.cuda.Event(disable_timing=True) for _ in slots]
    work = cp.RawKernel(r"""
        extern "C" __global__ void work(float* x, int n, int rounds) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i >= n) return;
            float v = x[i];
            for (int r = 0; r < rounds; ++r) v = v * 0.999f + 0.001f;
            x[i] = v;
        }""", "work")

    def compute_on(slot, i):
        work((N // 256,), (256,), (slot, np.int32(N), np.int32(1500)))
        results[i:i + 1] = slot[i:i + 1]

    def exposed(i):
        slot = slots[i % 2]
        if mended:
            upload.wait_event(free[i % 2])
            slot.set(host, stream=upload)
            compute.wait_event(upload.record())
        else:
            slot.set(host, stream=compute)
        with compute:
            compute_on(slot, i)
            free[i % 2].record()

    def allocation(i):
        with compute:
            scratch = cp.empty(N, cp.float32)
            scratch.fill(1.0)
            work((N // 256,), (256,), (scratch, np.int32(N), np.int32(1500)))
            results[i:i + 1] = scratch[i:i + 1]
            del scratch

    step = {"exposed-copy": exposed, "allocation": allocation}[name]
    for i in range(2):
        step(i)
    cp.cuda.runtime.deviceSynchronize()
    pool = cp.get_default_memory_pool()

    def loop(is_mended):
        nonlocal mended
        mended = is_mended
        # Without a pool, each array is a cudaMalloc and a cudaFree.
        cp.cuda.set_allocator(None if name == "allocation" and not mended else pool.malloc)
        began = time.perf_counter()
        for i in range(STEPS):
            cp.cuda.nvtx.RangePush("step")
            step(i)
            cp.cuda.nvtx.RangePop()
        cp.cuda.runtime.deviceSynchronize()
        return time.perf_counter() - began, float(results.sum())

    return loop


# ---- JAX

def jax_program(_):
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(state, weight):
        for _ in range(8):
            state = state @ weight
        return state / (1.0 + jnp.abs(state).max())

    weight = jnp.ones((2048, 2048), jnp.float32) / 1024
    first = jnp.ones((2048, 2048), jnp.float32)
    step(first, weight).block_until_ready()

    def loop(mended):
        state = first
        began = time.perf_counter()
        for _ in range(STEPS):
            state = step(state, weight)
            if not mended:
                busy(1.5e-3)
        state.block_until_ready()
        return time.perf_counter() - began, float(state.sum())

    return loop


def main():
    library, name = sys.argv[1].split("-", 1)
    form = sys.argv[2]
    loop = {"torch": torch_program, "cupy": cupy_program, "jax": jax_program}[library](name)
    forms = ["planted", "mended"] * TURNS if form == "times" else [form]
    for form in forms:
        seconds, total = loop(form == "mended")
        print(f"{form} loop {seconds:.6f} s, {STEPS} steps, sum {total:.6g}", flush=True)


main()
