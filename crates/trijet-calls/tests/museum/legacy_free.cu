// PhysicsNeMo (July 2026): a library frees its memory in the legacy stream, which waits for the blocking streams of
// the library. A stream of PyTorch that it was given is non-blocking.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t given = stream(), guard;
    DO(cudaStreamCreate(&guard));
    unsigned char *memory, *next, *result = device_memory();
    DO(cudaMallocAsync((void**)&memory, BYTES, 0));
    DO(cudaMemsetAsync(memory, 1, BYTES, 0));
    follow(given, 0);
    hold_back(given);
    DO(cudaMemcpyAsync(result, memory, BYTES, cudaMemcpyDeviceToDevice, given));
    if (is_cured) follow(guard, given);
    DO(cudaFreeAsync(memory, 0));
    DO(cudaMallocAsync((void**)&next, BYTES, 0));
    DO(cudaMemsetAsync(next, 2, BYTES, 0));
    return wrong_on_device(result, 1);
}
