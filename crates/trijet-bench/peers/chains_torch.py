"""The peer of `trijet bench chains` in PyTorch: chains of kernels that add one to a word for each
multiprocessor, launched one by one and as a CUDA graph. The argument is the number of samples."""
import sys
import time

import torch


def sample(run, words, length):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    words.zero_()
    torch.cuda.synchronize()
    begin.record()
    start = time.perf_counter()
    run()
    host = time.perf_counter() - start
    end.record()
    torch.cuda.synchronize()
    if not bool((words == length).all()):
        sys.exit(f"a word is not {length}: {words}")
    return begin.elapsed_time(end) * 1e6 / length, host * 1e9


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
        for name, run in (("launches", launches), ("graph", graph.replay)):
            sample(run, words, length)
            for _ in range(repeats):
                device, host = sample(run, words, length)
                print(f"{length} kernels, pytorch {name}: device, each kernel\tns\t{device:.1f}")
                print(f"{length} kernels, pytorch {name}: host, all calls\tns\t{host:.0f}")


main()
