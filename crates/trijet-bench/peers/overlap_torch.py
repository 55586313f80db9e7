"""The peer of `trijet bench overlap` in PyTorch: 1 GiB through upload, a small kernel and download,
with a stream for each slot. The argument is the number of samples of each figure."""
import sys

import torch

TOTAL = 1 << 30


def once(x, y, slots, streams, chunk):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record(streams[0])
    for stream in streams[1:]:
        stream.wait_event(begin)
    for index, at in enumerate(range(0, x.numel(), chunk)):
        lane = index % len(streams)
        with torch.cuda.stream(streams[lane]):
            slots[lane].copy_(x[at:at + chunk], non_blocking=True)
            slots[lane].bitwise_xor_(1)
            y[at:at + chunk].copy_(slots[lane], non_blocking=True)
    for stream in streams[1:]:
        done = torch.cuda.Event()
        done.record(stream)
        streams[0].wait_event(done)
    end.record(streams[0])
    torch.cuda.synchronize()
    return begin.elapsed_time(end)


def main():
    repeats = int(sys.argv[1])
    print(f"note\tpytorch {torch.__version__}")
    x = torch.randint(0, 1 << 30, (TOTAL // 4,), dtype=torch.int32).pin_memory()
    y = torch.empty_like(x).pin_memory()
    for mib in (1, 4, 16, 64):
        for lanes in (1, 2, 3, 4):
            chunk = (mib << 20) // 4
            streams = [torch.cuda.Stream() for _ in range(lanes)]
            slots = [torch.empty(chunk, dtype=torch.int32, device="cuda") for _ in streams]
            y.zero_()
            once(x, y, slots, streams, chunk)
            if not torch.equal(y, x ^ 1):
                sys.exit(f"wrong result at {mib} MiB, {lanes} streams")
            for _ in range(repeats):
                time = once(x, y, slots, streams, chunk)
                print(f"pytorch slot-streams chunk={mib}MiB slots={lanes}\tms\t{time:.4f}")


main()
