"""A program for `trijet trace` that ends in one of several ways after some work. Its argument is
`exit`, `_exit`, `raise` or `fork`."""
import os
import sys

import torch

x = torch.rand(1 << 20, device="cuda")
for _ in range(100):
    x = x * 1.0001
torch.cuda.synchronize()
how = sys.argv[1]
if how == "exit":
    sys.exit(7)
if how == "_exit":
    os._exit(3)
if how == "raise":
    raise RuntimeError("on purpose")
child = os.fork()
if child == 0:
    sys.exit(5)
print("the child left with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
