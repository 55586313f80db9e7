"""A network of many small kernels: launched one by one, and as a CUDA graph with a static input and output."""
import torch

from common import compare

torch.manual_seed(1)
torch.set_grad_enabled(False)
LAYERS, WIDTH, ROWS, BATCHES = 32, 256, 64, 50
layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU())]
for layer in layers[::2]:
    layer.weight.normal_(std=(2 / WIDTH) ** 0.5)
network = torch.nn.Sequential(*layers)
batches = torch.randn(BATCHES, ROWS, WIDTH)
EXPECTED = network.double()(batches.double())
network, batches = network.float().cuda(), batches.cuda()


def capture(example):
    static_in = example.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # a warm-up outside of the capture: libraries and workspaces are made here
        for _ in range(3):
            network(static_in)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_out = network(static_in)
    return graph, static_in, static_out


GRAPH, INPUT, OUTPUT = capture(batches[0])


def turned(run):
    return list(batches.roll(-run, 0))


def eager(run):
    return [network(batch) for batch in turned(run)]


def replayed(run):
    results = []
    for batch in turned(run):
        INPUT.copy_(batch)  # into the memory that the graph reads
        GRAPH.replay()
        results.append(OUTPUT.clone())  # the next replay overwrites it
    return results


def rebound(run):
    results = []
    for batch in turned(run):
        static_in = batch  # another name: the graph still reads INPUT
        GRAPH.replay()
        results.append(OUTPUT)  # one tensor, many times
    return results


def verify(results, run):
    results = torch.stack(results).double().cpu()
    return torch.allclose(results, EXPECTED.roll(-run, 0), rtol=1e-3, atol=1e-3)


wrong = ["a graph without copies"]
compare("cuda_graph", eager, replayed, verify, {wrong[0]: rebound}, may_be_wrong=wrong)
