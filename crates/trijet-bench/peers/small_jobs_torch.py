"""A peer of `trijet bench tuner`: small jobs in PyTorch, from page-locked memory through a small kernel
into page-locked memory, in microseconds from the call to the end. The argument is the number of samples."""
import sys
import time

import torch


def once(x, y, device):
    device.copy_(x, non_blocking=True)
    device.bitwise_xor_(1)
    y.copy_(device, non_blocking=True)
    torch.cuda.current_stream().synchronize()


def main():
    repeats = int(sys.argv[1])
    print(f"note\tpytorch {torch.__version__}")
    for kib in (4, 64, 256, 1024, 4096):
        x = torch.randint(0, 1 << 30, (kib * 256,), dtype=torch.int32).pin_memory()
        y = torch.empty_like(x).pin_memory()
        device = torch.empty(x.numel(), dtype=torch.int32, device="cuda")
        for _ in range(5):
            once(x, y, device)
        if not torch.equal(y, x ^ 1):
            sys.exit(f"wrong result at {kib} KiB")
        for _ in range(repeats):
            begin = time.perf_counter()
            once(x, y, device)
            print(f"PyTorch, {kib} KiB\tus\t{(time.perf_counter() - begin) * 1e6:.2f}")


main()
