// TensorRT-LLM (June 2026): a caching allocator gives a block to its stream again as soon as the host frees it. It
// was not told that another stream still reads the block.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t producer = stream(), consumer = stream();
    unsigned char *block = device_memory(), *result = device_memory();
    DO(cudaMemsetAsync(block, 1, BYTES, producer));
    follow(consumer, producer);
    hold_back(consumer);
    DO(cudaMemcpyAsync(result, block, BYTES, cudaMemcpyDeviceToDevice, consumer));
    // The host frees the block, and the allocator gives it to the next tensor of its stream.
    if (is_cured) follow(producer, consumer);
    DO(cudaMemsetAsync(block, 2, BYTES, producer));
    return wrong_on_device(result, 1);
}
