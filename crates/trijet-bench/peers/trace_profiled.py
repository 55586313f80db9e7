"""A program that profiles itself with torch.profiler, for `trijet trace`: CUPTI has one subscriber."""
import time

import torch
from torch.profiler import ProfilerActivity, profile

a = torch.rand(512, 512, device="cuda")


def work(rounds):
    for _ in range(rounds):
        (a @ a).sum()
    torch.cuda.synchronize()


def profiled():
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as profiler:
        work(100)
    cuda = torch.autograd.DeviceType.CUDA
    return sum(event.device_type == cuda for event in profiler.events())


work(100)
time.sleep(2.2)
print("kineto gpu events", profiled(), flush=True)
work(100)
time.sleep(2.2)
work(50)
time.sleep(1.2)
print("kineto gpu events again", profiled(), flush=True)
