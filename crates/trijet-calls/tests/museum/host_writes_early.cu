// TensorRT-LLM (June 2026): the host fills a page-locked buffer for the next iteration, while the copy of this
// iteration has yet to read it.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t execution = stream();
    unsigned char *offsets = host_memory(BYTES, 1), *fresh = host_memory(), *device = device_memory();
    hold_back(execution);
    DO(cudaMemcpyAsync(device, offsets, BYTES, cudaMemcpyHostToDevice, execution));
    memset(is_cured ? fresh : offsets, 2, BYTES);
    return wrong_on_device(device, 1);
}
