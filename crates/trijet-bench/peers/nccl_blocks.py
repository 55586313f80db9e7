"""The blocks of NCCL's kernel, and the time that it takes from products beside it.

    NCCL_NVLS_ENABLE=0 torchrun --nproc_per_node 2 nccl_blocks.py

For each size: the grid of the kernel of an all-reduce, its time alone, the time of a chain of products of
matrices alone, and of both at once in two streams. Every sum is compared. The number of blocks is the number
of multiprocessors that NCCL occupies, because each block occupies one: run it again with NCCL_MAX_CTAS=4.
"""

import json
import os
import time

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

RANK = int(os.environ["LOCAL_RANK"])
SIZES_MIB = [1, 16, 256]
PRODUCTS = 40


def grid(x):
    """The number of blocks of the kernel of an all-reduce, as the profiler reports it."""
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        dist.all_reduce(x)
        torch.cuda.synchronize()
    path = f"/tmp/nccl_blocks_{RANK}.json"
    seen.export_chrome_trace(path)
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    os.remove(path)
    return [one["args"]["grid"][0] for one in events if "ncclDevKernel" in one.get("name", "")][0]


def median_ms(run, repeats=15):
    times = []
    for _ in range(repeats):
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
    return sorted(times)[len(times) // 2]


def main():
    torch.cuda.set_device(RANK)
    dist.init_process_group("nccl", device_id=torch.device("cuda", RANK))
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(a)
    communication, products = torch.cuda.Stream(), torch.cuda.Stream()

    def multiply():
        with torch.cuda.stream(products):
            for _ in range(PRODUCTS):
                torch.mm(a, a, out=out)

    for mib in SIZES_MIB:
        x = torch.ones(mib << 18, device="cuda")
        count = max(1, 256 // mib)

        def reduce():
            with torch.cuda.stream(communication):
                for _ in range(count):
                    dist.all_reduce(x)
                    x.mul_(0.5)

        def both():
            multiply()
            reduce()

        blocks = grid(x)
        x.fill_(1.0)
        for run in (multiply, reduce, both):
            run()
        alone, sums, together = median_ms(multiply), median_ms(reduce), median_ms(both)
        assert torch.equal(x, torch.ones_like(x)), "a sum is wrong"
        hidden = 100 * (sums + alone - together) / min(sums, alone)
        if RANK == 0:
            print(
                f"all-reduce of {mib} MiB: {blocks} blocks; {count} sums {sums:.2f} ms, products "
                f"{alone:.2f} ms, both {together:.2f} ms, {hidden:.0f} % "
                "of the shorter one hidden",
                flush=True,
            )
    dist.destroy_process_group()


main()
