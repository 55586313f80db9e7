"""A data-parallel training of two ranks for a number of seconds, for `trijet trace`. Its batches are
copied from pageable memory, which a trace must find, and its all-reduces run under the backward pass. With LATE_MS,
the GPU of the last rank works for that many milliseconds more before each backward pass, which a trace must find, too.

    torchrun --nproc_per_node 2 trace_ranks.py SECONDS [LATE_MS]"""
import os
import sys
import time

import torch
import torch.distributed as dist


def delay_of(milliseconds):
    """A function that enqueues products which take about so many milliseconds of this GPU."""
    matrix = torch.zeros(2048, 2048, device="cuda", dtype=torch.bfloat16)

    def products(count):
        for _ in range(count):
            torch.mm(matrix, matrix)

    products(20)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    products(200)
    end.record()
    torch.cuda.synchronize()
    count = round(200 * milliseconds / begin.elapsed_time(end))
    return lambda: products(count)


def main():
    seconds = float(sys.argv[1])
    late_ms = float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    layer = lambda: torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True, dropout=0.0)
    network = torch.nn.Sequential(*[layer() for _ in range(8)]).cuda().bfloat16()
    network = torch.nn.parallel.DistributedDataParallel(network, device_ids=[rank])
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
    batch = torch.rand(8, 512, 1024)
    delay = delay_of(late_ms) if rank == dist.get_world_size() - 1 else lambda: None
    begin, steps, counted = time.perf_counter(), 0, None
    flag = torch.zeros(1, device="cuda")
    while True:
        optimizer.zero_grad()
        loss = network(batch.cuda().bfloat16()).float().pow(2).mean()
        delay()
        loss.backward()
        optimizer.step()
        steps += 1
        now = time.perf_counter() - begin
        if counted is None and now >= 5.0:
            counted = (now, steps)
        if steps % 20 == 0:
            flag.fill_(float(now >= seconds))
            dist.broadcast(flag, 0)
            if flag.item() > 0:
                break
    if rank == 0:
        now = time.perf_counter() - begin
        print(f"{steps} steps in {now:.1f} s")
        if counted is not None:
            rate = (steps - counted[1]) / (now - counted[0])
            print(f"{rate:.2f} steps/s after the warm-up")
    dist.destroy_process_group()


main()
