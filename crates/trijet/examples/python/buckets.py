"""Gradients of two GPUs: summed one by one after the backward pass, and by DistributedDataParallel in buckets while the
pass goes on. Starts itself by torchrun; prints SKIP if there are fewer than two GPUs."""
import copy
import os
import subprocess
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from common import line, milliseconds

LAYERS, WIDTH, ROWS, RANKS = 24, 2048, 4096, 2
BUCKETS = {"good": 25, "buckets of 1 MB": 1, "10 MB": 10, "50 MB": 50, "100 MB": 100}


def batch_of(rank):
    return torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(rank)).bfloat16().cuda()


def backward(model, x):
    for parameter in model.parameters():
        parameter.grad = None
    model(x).sum().backward()


def gradients_after(model, x):
    """Without overlap: all gradients, then an all-reduce for each."""
    backward(model, x)
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


def rank_main(rank):
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(7)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
    for layer in layers:
        torch.nn.init.normal_(layer.weight, std=WIDTH ** -0.5)
    model, x = torch.nn.Sequential(*layers), batch_of(rank)
    # Independent of communication: this rank computes the gradients of both batches.
    alone, expected = copy.deepcopy(model), [0] * LAYERS
    for other in range(RANKS):
        backward(alone, batch_of(other))
        expected = [sum_ + p.grad.float() / RANKS for sum_, p in zip(expected, alone.parameters())]

    def verify(result, run):
        pairs = zip(expected, model.parameters())
        return all((p.grad.float() - e).norm() < 0.01 * e.norm() for e, p in pairs)

    times = {}
    for label in sys.argv[1:] or ["bad", *BUCKETS]:
        wrapped = model
        if label != "bad":
            wrapped = DistributedDataParallel(model, device_ids=[rank], bucket_cap_mb=BUCKETS[label])
        form = gradients_after if label == "bad" else backward
        times[label] = milliseconds(lambda run: form(wrapped, x), verify)
        if times[label][1]:
            raise RuntimeError(f"buckets: the gradients of {label} are wrong")
        del wrapped, form
    if rank == 0:
        print(line("buckets", times), flush=True)
    dist.destroy_process_group()


if "LOCAL_RANK" in os.environ:
    rank_main(int(os.environ["LOCAL_RANK"]))
elif torch.cuda.device_count() < RANKS:
    print("SKIP buckets: needs two GPUs")
else:
    torchrun = ["-m", "torch.distributed.run", "--nproc_per_node", str(RANKS), "--master_addr", "127.0.0.1",
                "--master_port", "29518", os.path.abspath(__file__), *sys.argv[1:]]
    sys.exit(subprocess.run([sys.executable, *torchrun]).returncode)
