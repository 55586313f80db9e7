"""The cost of `trijet check -- PROGRAM`, beside memcheck of compute-sanitizer, in one run.

    check_programs.py TRIJET [--kernels] [NAME]...

With --kernels, the accesses of kernels are recorded too, and three more columns are launches of kernels that were
seen, launches of graphs that were seen, and the seconds of the verdict.

TRIJET is the command. Needs PyTorch, CuPy, JAX, Numba, Triton, nvcc and compute-sanitizer. Each program prints the
milliseconds of a step, after some steps that do not count. Prints CSV: program, milliseconds of a step alone
(the lesser of two runs, before and after the check), in the check, and under memcheck, the two ratios, and from the
verdict of the check: errors, possible conflicts, launches of kernels, those without an address among the
arguments, launches of graphs, and those with nodes that were not examined. A limit or a failure has its words in
place of a number. All programs order their work, so an error is false.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

STEPS, WARM = 30, 10
# A step under memcheck takes up to a hundred times as long.
STEPS_MEMCHECK, LIMIT_S = 3, 60

COPIES = r"""
#include <chrono>
#include <cstdio>
#include <cstdlib>
__global__ void add(float* x, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) x[i] += 1; }
int main(int, char** argv) {
  const int parts = 8, n = 1 << 20, steps = atoi(argv[1]), warm = atoi(argv[2]);
  float *host, *device; cudaStream_t streams[parts];
  cudaMallocHost(&host, parts * n * 4); cudaMalloc(&device, parts * n * 4);
  for (auto& s : streams) cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking);
  std::chrono::steady_clock::time_point begin;
  for (int step = 0; step < warm + steps; ++step) {
    if (step == warm) { cudaDeviceSynchronize(); begin = std::chrono::steady_clock::now(); }
    for (int part = 0; part < parts; ++part) {
      float *h = host + part * n, *d = device + part * n; cudaStream_t s = streams[part];
      cudaMemcpyAsync(d, h, n * 4, cudaMemcpyHostToDevice, s);
      add<<<n / 256, 256, 0, s>>>(d, n);
      cudaMemcpyAsync(h, d, n * 4, cudaMemcpyDeviceToHost, s);
    }
  }
  cudaDeviceSynchronize();
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  printf("%.4f\n", took.count() / steps);
}
"""


def training(dtype, compiled=False):
    import torch

    torch.manual_seed(0)
    layer = lambda: torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True)
    network = torch.nn.Sequential(*(layer() for _ in range(4))).cuda()
    run = torch.compile(network) if compiled else network
    optimizer = torch.optim.AdamW(network.parameters())
    side = torch.cuda.Stream()
    batches = [torch.randn(32, 128, 512).pin_memory() for _ in range(2)]

    def step(number):
        with torch.cuda.stream(side):
            x = batches[number % 2].to("cuda", non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        x.record_stream(torch.cuda.current_stream())
        with torch.autocast("cuda", dtype, enabled=dtype != torch.float32):
            loss = run(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step, torch.cuda.synchronize


def fp32():
    import torch

    return training(torch.float32)


def bf16():
    import torch

    return training(torch.bfloat16)


def compiled():
    import torch

    return training(torch.bfloat16, compiled=True)


def small_layers():
    """A training that launches kernels all the time, none of which has much to do."""
    import torch

    torch.manual_seed(0)
    layers = [one for _ in range(32) for one in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    network, x = torch.nn.Sequential(*layers).cuda(), torch.randn(32, 64, device="cuda")
    optimizer = torch.optim.SGD(network.parameters(), 0.01)

    def step(_):
        network(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step, torch.cuda.synchronize


def torch_graph():
    import torch

    network = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8))).cuda()
    x, graph = torch.randn(256, 1024, device="cuda"), torch.cuda.CUDAGraph()
    with torch.no_grad():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            network(x)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            network(x)
    return lambda _: graph.replay(), torch.cuda.synchronize


def cupy():
    import cupy as cp

    x, y = (cp.random.random((2048, 2048), dtype=cp.float32) for _ in range(2))
    stream = cp.cuda.Stream(non_blocking=True)

    def step(_):
        with stream:
            z = x @ y
            return (z * 2 + x).sum(axis=0)

    cp.cuda.Device().synchronize()
    return step, cp.cuda.Device().synchronize


def cupy_loop():
    import cupy as cp
    import numpy as np

    x = np.ones((512, 1024), np.float32)
    return lambda _: cp.asnumpy(cp.sqrt(cp.asarray(x)) + 1), cp.cuda.Device().synchronize


def jax():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def loss(w, x):
        for _ in range(4):
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    gradient = jax.jit(jax.grad(loss))
    w, x = jnp.ones((1024, 1024)) / 1024, jnp.ones((256, 1024))
    last = [w]

    def step(_):
        last[0] = last[0] - gradient(last[0], x)

    return step, lambda: last[0].block_until_ready()


def numba():
    import numpy as np

    if not hasattr(np, "row_stack"):       # removed by NumPy 2.5, and needed by Numba 0.61
        np.row_stack = np.vstack
    from numba import cuda

    @cuda.jit
    def add(x, y):
        at = cuda.grid(1)
        if at < x.size:
            y[at] = x[at] + 1

    x = cuda.to_device(np.ones(1 << 20, np.float32))
    y = cuda.device_array_like(x)

    def step(_):
        for _ in range(8):
            add[x.size // 256, 256](x, y)

    return step, cuda.synchronize


def triton():
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def add(x, y, n, block: tl.constexpr):
        at = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(y + at, tl.load(x + at, at < n) + 1, at < n)

    x = torch.ones(1 << 20, device="cuda")
    y = torch.empty_like(x)

    def step(_):
        for _ in range(8):
            add[(x.numel() // 1024,)](x, y, x.numel(), 1024)

    return step, torch.cuda.synchronize


PROGRAMS = {
    "PyTorch, training in fp32": fp32,
    "PyTorch, training in bf16": bf16,
    "PyTorch, torch.compile": compiled,
    "PyTorch, small layers": small_layers,
    "PyTorch, a graph": torch_graph,
    "CuPy, a stream": cupy,
    "CuPy, pageable copies": cupy_loop,
    "JAX, gradients": jax,
    "Numba": numba,
    "Triton": triton,
}
IN_CUDA = "C++, copies in eight streams"


def run(name, steps, warm):
    """Runs a program in this process, and prints the milliseconds of a step."""
    step, wait = PROGRAMS[name]()
    for number in range(warm + steps):
        if number == warm:
            wait()
            begin = time.perf_counter()
        step(number)
    wait()
    print(f"{(time.perf_counter() - begin) / steps * 1e3:.4f}")


def measured(command, **options):
    """The milliseconds of a step, or words."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **options)
    except subprocess.TimeoutExpired:
        return f"more than {LIMIT_S} s", ""
    words = [line for line in ran.stdout.splitlines() if line.replace(".", "", 1).isdigit()]
    return (float(words[0]) if words else f"failed: {(ran.stderr.strip() or 'no time').splitlines()[-1][:60]}"), ran.stdout


def main():
    trijet, kernels, only = sys.argv[1], "--kernels" in sys.argv, [one for one in sys.argv[2:] if one != "--kernels"]
    folder = tempfile.mkdtemp()
    with open(f"{folder}/copies.cu", "w") as file:
        file.write(COPIES)
    subprocess.run(["nvcc", "-arch=native", "-o", f"{folder}/copies", f"{folder}/copies.cu"], check=True)
    print("program,alone_ms,checked_ms,memcheck_ms,checked_ratio,memcheck_ratio,errors,possible,kernels,without_addresses,graphs,unknown_graphs"
          + (",seen_kernels,seen_graphs,verdict_s" if kernels else ""))
    for name in [IN_CUDA, *PROGRAMS]:
        if only and name not in only:
            continue
        program = lambda steps: (
            [f"{folder}/copies", str(steps), str(WARM)] if name == IN_CUDA
            else [sys.executable, os.path.abspath(__file__), "--run", name, str(steps), str(WARM)]
        )
        before = measured(program(STEPS))[0]
        calls, verdict = f"{folder}/calls", f"{folder}/verdict"
        options = ["--kernels"] if kernels else []
        checked = measured([trijet, "check", *options, "-o", calls, "--overwrite", "--", *program(STEPS)])[0]
        after = measured(program(STEPS))[0]
        memcheck = measured(["compute-sanitizer", "--tool", "memcheck", *program(STEPS_MEMCHECK)])[0]
        begin = time.perf_counter()
        with open(verdict, "w") as file:
            subprocess.run([trijet, "check", calls, "--json"], stdout=file, stderr=subprocess.DEVNULL)
        with open(verdict) as file:
            processes = [one for one in json.loads(file.read() or '{"processes": []}')["processes"] if one["calls"]]
        verdict_s = time.perf_counter() - begin
        count = lambda field: sum(len(one[field]) if isinstance(one[field], list) else one[field] for one in processes)
        times = [one for one in (before, after) if isinstance(one, float)]
        alone = min(times) if times else before
        ratio = lambda one: f"{one / alone:.2f}" if isinstance(one, float) and times else ""
        cells = [alone, checked, memcheck]
        cells = [f"{one:.3f}" if isinstance(one, float) else f'"{one}"' for one in cells]
        fields = ("errors", "possible", "kernels", "kernels_without_addresses", "graphs", "graphs_unknown")
        counts = [str(count(field)) for field in fields]
        if kernels:
            counts += [str(count(field)) for field in ("kernels_seen", "graphs_seen")] + [f"{verdict_s:.2f}"]
        print(",".join([f'"{name}"', *cells, ratio(checked), ratio(memcheck), *counts]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        run(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        main()
