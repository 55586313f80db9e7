"""The peer of `trijet bench chains` in PyTorch: chains of kernels that add one to a word for each
multiprocessor, launched one by one and as a CUDA graph. The argument is the number of samples."""
import sys
import time

import torch


# Launches of a graph in a sample, as the other sides make them.
LAUNCHES = 4


def sample(run, calls, words, length):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    words.zero_()
    torch.cuda.synchronize()
    begin.record()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    host = time.perf_counter() - start
    end.record()
    torch.cuda.synchronize()
    kernels = calls * length
    if not bool((words == kernels).all()):
        sys.exit(f"a word is not {kernels}: {words}")
    return begin.elapsed_time(end) * 1e6 / kernels, host * 1e9 / calls


def main():
    repeats = int(sys.argv[1])
    print(f"note\tpytorch {torch.__version__}")
    blocks = torch.cuda.get_device_properties(0).multi_processor_count
    words = torch.zeros(blocks, dtype=torch.int32, device="cuda")
    for length in (10, 100, 1000):
        def launches():
            for _ in range(length):
                words.add_(1)

        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            launches()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            launches()
        for name, run, calls in (("launches", launches, 1), ("graph", graph.replay, LAUNCHES)):
            sample(run, calls, words, length)
            for _ in range(repeats):
                device, host = sample(run, calls, words, length)
                print(f"{length} kernels, pytorch {name}: device, each kernel\tns\t{device:.1f}")
                print(f"{length} kernels, pytorch {name}: host, all calls\tns\t{host:.0f}")


main()
