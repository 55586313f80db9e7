"""`trijet.torch.DeviceFeed` beside `pin_memory=True` with `non_blocking=True`, in one run.

    device_feed.py [fast | 40ms | ray]...

Needs the package trijet and PyTorch. Batches are f32 tensors of 256 x 3 x 224 x 224 (154 MB), made by workers
of a DataLoader that return one of a few tensors each (a fast loader), and by one that needs 40 ms for each (a
slow loader). The step is a chain of matrix products that takes about 20 ms, or about 2 ms. Prints CSV: loader,
step, contestant, milliseconds for each batch (median of 3 runs of 40 batches, after the first 5), and what the
report of the feed says.

- `at once`: the batches are on the GPU already: the step alone.
- `pageable`: `batch.cuda()`.
- `pin_memory`: `pin_memory=True` and `batch.cuda(non_blocking=True)`.
- `DeviceFeed`: the same loader without `pin_memory`.

With Ray, the same batches are in its object store, and two contestants follow for the loader `ray`:

- `iter_torch_batches`: Ray's own iterator with `device="cuda"`, which uploads.
- `DeviceFeed`: over the same iterator without a device.
"""
import statistics
import sys
import time

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset
from trijet.torch import DeviceFeed

BATCH, COUNT, WARM = (256, 3, 224, 224), 45, 5


class Batches(Dataset):
    """Whole batches, so that the loader does nothing but hand them over."""

    def __init__(self, seconds):
        self.made = [torch.rand(BATCH) for _ in range(2)]
        self.seconds = seconds

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        end = time.perf_counter() + self.seconds
        while time.perf_counter() < end:
            pass
        return self.made[index % 2]


def loader(seconds, pin):
    return DataLoader(Batches(seconds), batch_size=None, num_workers=2, pin_memory=pin, persistent_workers=False)


def step_of(milliseconds):
    a = torch.rand(4096, 4096, device="cuda", dtype=torch.float16)
    for _ in range(100):  # loads the kernels, and warms the GPU up
        a = (a @ a).clamp_(0, 1)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(20):
        a = (a @ a).clamp_(0, 1)
    torch.cuda.synchronize()
    products = max(1, round(milliseconds / ((time.perf_counter() - began) / 20 * 1e3)))

    def step(x):
        y = a
        for _ in range(products):
            y = (y @ a).clamp_(0, 1)
        return y.sum() + x[0, 0, 0, 0] + x[-1, -1, -1, -1]

    return step


def measured(batches, step):
    total, began, count = None, 0.0, 0
    for count, x in enumerate(batches):
        if count == WARM:
            torch.cuda.synchronize()
            began = time.perf_counter()
        found = step(x)
        total = found if total is None else total + found
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / (count + 1 - WARM) * 1e3


def over_ray():
    """The contestants over batches in the object store of Ray. Empty without Ray."""
    try:
        import ray
    except ImportError:
        return {}
    ray.init(num_cpus=4, include_dashboard=False, object_store_memory=24 << 30, log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    made = [np.random.default_rng(seed).random(BATCH, np.float32) for seed in range(2)]
    dataset = ray.data.from_numpy([made[number % 2] for number in range(COUNT)]).materialize()

    def batches(**options):
        return dataset.iter_torch_batches(batch_size=BATCH[0], prefetch_batches=3, **options)

    return {
        "iter_torch_batches": lambda: (batch["data"] for batch in batches(device="cuda")),
        "DeviceFeed": lambda: DeviceFeed((batch["data"] for batch in batches()), depth=3),
    }


def compare(loading, milliseconds, step, contestants):
    for name, make in contestants.items():
        times, feed = [], None
        for _ in range(3):
            feed = make()
            times.append(measured(feed, step))
        words = str(feed.report) if name == "DeviceFeed" else ""
        print(f"{loading},{milliseconds},{name},{statistics.median(times):.2f},\"{words}\"", flush=True)


def main():
    print(f"torch {torch.__version__}\nloader,step,contestant,ms,report")
    on_gpu = torch.rand(BATCH, device="cuda")
    only = sys.argv[1:] or ["fast", "40ms", "ray"]
    for loading, seconds in (("fast", 0.0), ("40ms", 0.04)):
        if loading not in only:
            continue
        for milliseconds in (20, 2):
            step = step_of(milliseconds)
            contestants = {
                "at once": lambda: (on_gpu for _ in range(COUNT)),
                "pageable": lambda: (x.cuda() for x in loader(seconds, False)),
                "pin_memory": lambda: (x.cuda(non_blocking=True) for x in loader(seconds, True)),
                "DeviceFeed": lambda: DeviceFeed(loader(seconds, False), depth=3),
            }
            compare(loading, milliseconds, step, contestants)
    if of_ray := "ray" in only and over_ray():
        for milliseconds in (20, 2):
            compare("ray", milliseconds, step_of(milliseconds), of_ray)


if __name__ == "__main__":
    main()
