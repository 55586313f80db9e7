"""The program of the call files of this folder with `torch` in their names. It has one argument: race, ordered or kernel."""
import sys

import torch

side = torch.cuda.Stream()
h = torch.rand(1 << 22).pin_memory()
out = torch.empty(1 << 22).pin_memory()
x = torch.empty(1 << 22, device="cuda")
torch.cuda.synchronize()
with torch.cuda.stream(side):
    x.copy_(h, non_blocking=True)
if sys.argv[1] == "ordered":
    torch.cuda.current_stream().wait_stream(side)
if sys.argv[1] == "kernel":
    y = x * 2
else:
    out.copy_(x, non_blocking=True)
torch.cuda.synchronize()
