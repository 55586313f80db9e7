"""The peer of `trijet bench gradients` in PyTorch: the same products in the backward pass of a model under
DistributedDataParallel, one process for each GPU. The arguments: steps of each bucket size, layers, width, batches and
bucket sizes in MiB, both with commas between them, and the digest that the gradients of each batch must have."""
import os
import statistics
import sys

os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

WARM_UP = 6
PRIME = 2**31 - 1


def numbers(rows, columns, salt):
    """Whole numbers from -4 to 4, by place: as `number` of the benchmark."""
    at = torch.arange(rows * columns, device="cuda", dtype=torch.int64)
    mixed = ((at * 2654435761 + salt * 40503) % 2**32) >> 13
    return (mixed % 9 - 4).bfloat16().view(rows, columns)


class Backward(torch.autograd.Function):
    """Nothing forward; the two products of a linear layer backward."""

    @staticmethod
    def forward(ctx, x, weight, ends, left, right, incoming, other):
        ctx.parts = (ends, left, right, incoming, other)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ends, left, right, incoming, other = ctx.parts
        torch.matmul(incoming, other.T)
        of_weight = torch.matmul(left, right.T)
        if ends is not None:
            ends.record()
        return gradient, of_weight, None, None, None, None, None


class Model(torch.nn.Module):
    def __init__(self, layers, width, batch, rank, world):
        super().__init__()
        empty = lambda: torch.nn.Parameter(torch.zeros(width, width, device="cuda", dtype=torch.bfloat16))
        self.weights = torch.nn.ParameterList(empty() for _ in range(layers))
        self.left = numbers(width + layers, batch, 2 * rank)
        self.right = numbers(width, batch, 2 * rank + 1)
        pair = torch.arange(width, device="cuda") % ((world + 1) // 2)
        self.right[pair != rank // 2] = 0  # so that at most two ranks add to an element
        self.incoming = numbers(batch, width, 101)
        self.other = numbers(width, width, 103)
        self.width, self.computed = width, torch.cuda.Event(enable_timing=True)

    def forward(self, x):
        for layer, weight in enumerate(self.weights):
            left = self.left[layer : layer + self.width]
            ends = self.computed if layer == 0 else None
            x = Backward.apply(x, weight, ends, left, self.right, self.incoming, self.other)
        return x.sum()


def digest(weights, factor):
    """A number that depends on every bit of the gradients."""
    total = 0
    for weight in weights:
        bits = (weight.grad * factor).view(torch.int16).flatten().to(torch.int64) & 0xFFFF
        of_place = torch.arange(bits.numel(), device="cuda", dtype=torch.int64) * 40503 % 65521
        total = (total * 31 + int((bits * of_place).sum()) % PRIME) % PRIME
    return total


def timed(model, inner, steps, synchronized):
    """The milliseconds of backward passes until their gradients are there, and until their products are: the largest of all ranks."""
    times = []
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for step in range(WARM_UP + steps):
        for weight in inner.weights:
            weight.grad = None
        x = torch.zeros(1, device="cuda", requires_grad=True)
        if synchronized:
            loss = model(x)
        else:
            with model.no_sync():
                loss = model(x)
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        begin.record()
        loss.backward()
        end.record()
        torch.cuda.synchronize()
        if step >= WARM_UP:
            times.append([begin.elapsed_time(end), begin.elapsed_time(inner.computed)])
    times = torch.tensor(times, device="cuda")
    dist.all_reduce(times, dist.ReduceOp.MAX)
    return times.tolist()


def rank(index, world, steps, layers, width, batches, caps, digests):
    os.environ.update(RANK=str(index), WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1", MASTER_PORT="29517")
    torch.cuda.set_device(index)
    dist.init_process_group("nccl")
    show = (lambda line: print(line, flush=True)) if index == 0 else (lambda line: None)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    show(f"note\tpytorch {torch.__version__}, NCCL {version}, gradient_as_bucket_view")
    for batch, wanted in zip(batches, digests):
        name = f"{layers} layers of {width}, batch {batch}, ddp"
        inner = Model(layers, width, batch, index, world)
        for cap in caps:
            model = DistributedDataParallel(
                inner, device_ids=[index], bucket_cap_mb=cap, gradient_as_bucket_view=True
            )
            if cap == caps[0]:
                alone = [step for step, _ in timed(model, inner, steps, False)]
                for time in alone:
                    show(f"{name}: backward alone\tms\t{time:.4f}")
            times = timed(model, inner, steps, True)
            of_cap = f"{name}, buckets of {cap} MiB"
            for step, computed in times:
                show(f"{of_cap}: step\tms\t{step:.4f}")
                show(f"{of_cap}: products\tms\t{computed:.4f}")
            exposed = statistics.median(step for step, _ in times) - statistics.median(alone)
            show(f"{of_cap}: exposed\tms\t{exposed:.4f}")
            if digest(inner.weights, world) != wanted:
                sys.exit(f"batch {batch}, buckets of {cap} MiB: the gradients of rank {index} are wrong")
            del model
        del inner
        torch.cuda.empty_cache()
    dist.destroy_process_group()


def main():
    steps, layers, width = (int(argument) for argument in sys.argv[1:4])
    batches, caps, digests = ([int(n) for n in argument.split(",")] for argument in sys.argv[4:7])
    world = torch.cuda.device_count()
    mp.spawn(rank, (world, steps, layers, width, batches, caps, digests), world)


if __name__ == "__main__":
    main()
