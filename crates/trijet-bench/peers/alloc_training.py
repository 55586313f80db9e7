"""The peer of `trijet bench training`: training steps of a small transformer with batches of varying shapes, over one
allocator of device memory. alloc_training.py ALLOCATOR LIBRARY, where ALLOCATOR is native, expandable, async or trijet,
and LIBRARY is libtrijet_alloc.so.

Every process draws the same batches and starts from the same weights, and PyTorch is told to be deterministic. So the
losses of each step have the same bits over every allocator, unless one gives memory out that is in use."""
import ctypes
import os
import statistics
import struct
import sys
import time
import zlib

ALLOCATOR, LIBRARY = sys.argv[1:3]
SETTINGS = {"expandable": "expandable_segments:True", "async": "backend:cudaMallocAsync"}
# PyTorch reads this when it is imported, and cuBLAS the next one when it is first used.
os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
if ALLOCATOR in SETTINGS:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = SETTINGS[ALLOCATOR]
os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"

import torch

WARM_UP = 20
STEPS = 80
WORDS = 8192
WIDTH = 512
HEADS = 8
LAYERS = 6
MIB = 1 << 20


class Statistics(ctypes.Structure):
    """As in trijet_alloc.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in
                ("live", "live_high", "reserved", "reserved_high", "driver_calls", "waits")]


def install():
    """Makes PyTorch allocate from Trijet's heap. Returns the library."""
    library = ctypes.CDLL(LIBRARY)
    library.trijet_alloc_last_error.restype = ctypes.c_char_p
    allocator = torch.cuda.memory.CUDAPluggableAllocator(LIBRARY, "trijet_alloc", "trijet_free")
    record = ctypes.cast(library.trijet_record_stream, ctypes.c_void_p).value
    # Without this call, PyTorch tells the allocator nothing of Tensor.record_stream.
    allocator.allocator().set_record_stream_fn(record)
    torch.cuda.memory.change_current_allocator(allocator)
    return library


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)])
        self.all_heads = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.out = torch.nn.Linear(WIDTH, WIDTH)
        self.inner = torch.nn.Sequential(
            torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        # Attention as products, whose sums have one order. It allocates a matrix of scores for each head.
        batch, length, _ = x.shape
        parts = self.all_heads(self.norms[0](x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
        hidden = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.inner(self.norms[1](x))


def batches():
    """Words on the host, of a new shape in each step."""
    draw = torch.Generator().manual_seed(7)
    for _ in range(WARM_UP + STEPS):
        size, length = (int(torch.randint(low, high, (1,), generator=draw)) for low, high in ((2, 17), (33, 385)))
        yield torch.randint(0, WORDS, (size, length + 1), generator=draw).pin_memory()


def train():
    """The time of each step in milliseconds, and the losses."""
    torch.manual_seed(1)
    first = torch.nn.Embedding(WORDS, WIDTH)
    network = torch.nn.Sequential(first, *(Layer() for _ in range(LAYERS)), torch.nn.Linear(WIDTH, WORDS)).cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    side = torch.cuda.Stream()
    times, losses = [], []
    for words in batches():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        # The upload runs in a stream of its own, as a prefetch does, and its memory is used in another one.
        with torch.cuda.stream(side):
            words = words.cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        words.record_stream(torch.cuda.current_stream())
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            guesses = network(words[:, :-1])
            loss = torch.nn.functional.cross_entropy(guesses.flatten(0, 1), words[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3)
        del words, guesses, loss
    return times[WARM_UP:], losses


def main():
    if ALLOCATOR not in ("native", "expandable", "async", "trijet"):
        sys.exit(f"there is no allocator {ALLOCATOR}")
    library = install() if ALLOCATOR == "trijet" else None
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    times, losses = train()
    if not all(loss == loss for loss in losses):
        sys.exit("a loss is not a number")
    print(f"note\tpytorch {torch.__version__}, {torch.version.cuda}")
    print(f"each step\tms\t{statistics.median(times):.3f}")
    print(f"slowest step\tms\t{max(times):.3f}")
    if library is None:
        live, held = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
    else:
        found = Statistics()
        if library.trijet_alloc_stats(torch.cuda.current_device(), ctypes.byref(found)) != 0:
            sys.exit(library.trijet_alloc_last_error().decode())
        live, held = found.live_high, found.reserved_high
        print(f"driver calls\tcalls\t{found.driver_calls}")
        print(f"waits of streams\tcalls\t{found.waits}")
    print(f"most memory allocated\tMiB\t{live / MIB:.1f}")
    print(f"most memory held\tMiB\t{held / MIB:.1f}")
    print(f"losses\tdigest\t{zlib.crc32(struct.pack(f'{len(losses)}d', *losses))}")


main()
