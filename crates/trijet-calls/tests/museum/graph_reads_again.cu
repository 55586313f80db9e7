// ONNX Runtime (August 2026): a graph has captured an upload from a page-locked buffer. After the capture the buffer
// has another owner, who writes it while a later launch of the graph reads it again.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t execution = stream();
    unsigned char *staging = host_memory(BYTES, 1), *other = host_memory(), *device = device_memory();
    cudaGraph_t graph;
    cudaGraphExec_t program;
    DO(cudaStreamBeginCapture(execution, cudaStreamCaptureModeThreadLocal));
    DO(cudaMemcpyAsync(device, staging, BYTES, cudaMemcpyHostToDevice, execution));
    DO(cudaStreamEndCapture(execution, &graph));
    DO(cudaGraphInstantiate(&program, graph, 0));
    DO(cudaGraphLaunch(program, execution));
    DO(cudaStreamSynchronize(execution));
    hold_back(execution);
    DO(cudaGraphLaunch(program, execution));
    memset(is_cured ? other : staging, 2, BYTES);
    return wrong_on_device(device, 1);
}
