"""The peer of `trijet bench gemm` in PyTorch, which calls cuBLAS: the same products, and chains of products in a
CUDA graph. The argument is the number of samples."""
import sys

import torch

# As in definitions/gemm.toml.
LAUNCHES = 10
PRODUCTS = [(4096, 4096, 4096), (8192, 8192, 1024), (1024, 1024, 1024), (256, 4096, 4096), (512, 512, 512)]
LENGTH = 64
CHAINS = [(128, 1024), (512, 512), (256, 4096)]


def numbers(*sides):
    return torch.randint(-4, 5, sides, device="cuda").bfloat16()


def timed(run, count):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1e3 / count


def show(name, us, m, n, k):
    print(f"{name}: each product\tus\t{us:.3f}")
    print(f"{name}: rate\tTFLOP/s\t{2e-6 * m * n * k / us:.2f}")


def product(repeats, m, n, k):
    a, b, d = numbers(m, k), numbers(n, k), torch.empty(m, n, device="cuda").bfloat16()

    def run():
        for _ in range(LAUNCHES):
            torch.matmul(a, b.T, out=d)

    run()
    for _ in range(repeats):
        d.fill_(float("nan"))
        us = timed(run, LAUNCHES)
        rows = torch.randint(0, m, (16,), device="cuda")
        if not torch.equal(d[rows].double(), (a[rows].double() @ b.double().T).bfloat16().double()):
            sys.exit(f"{m} x {n} x {k}: a wrong element")
        show(f"{m} x {n} x {k}, cublas", us, m, n, k)


def chain(repeats, m, n):
    """The second matrix exchanges columns and some of their signs, so the numbers stay small and whole."""
    columns = torch.arange(n, device="cuda")
    sources = (columns + n // 3 + 1) % n
    signs = torch.where(columns % 3 == 0, -1.0, 1.0).bfloat16()
    w = torch.zeros(n, n, device="cuda").bfloat16()
    w[columns, sources] = signs
    start, x = numbers(m, n), [torch.empty(m, n, device="cuda").bfloat16() for _ in range(2)]
    wanted = start
    for _ in range(LENGTH):
        wanted = wanted[:, sources] * signs

    def run():
        for turn in range(LENGTH):
            torch.matmul(x[turn % 2], w.T, out=x[1 - turn % 2])

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    graph.replay()
    for _ in range(repeats):
        x[0].copy_(start)
        us = timed(graph.replay, LENGTH)
        if not torch.equal(x[LENGTH % 2], wanted):
            sys.exit(f"{LENGTH} products of {m} x {n}: a wrong element")
        show(f"{LENGTH} products of {m} x {n} x {n} in a graph, cublas", us, m, n, n)


def main():
    repeats = int(sys.argv[1])
    print(f"note\tpytorch {torch.__version__}, {torch.version.cuda}")
    for sizes in PRODUCTS:
        product(repeats, *sizes)
    for sizes in CHAINS:
        chain(repeats, *sizes)


main()
