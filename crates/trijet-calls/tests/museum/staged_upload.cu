// CUDA Python (January 2026) and others: a copy of pageable memory returns when the bytes are staged. A non-blocking
// stream may read the target before they have arrived.
#include "piece.h"

size_t piece(bool is_cured) {
    const size_t bytes = 16 * BYTES;
    cudaStream_t reader = stream();
    unsigned char *data = device_memory(bytes), *result = device_memory(bytes);
    std::vector<unsigned char> pageable(bytes, 1);
    DO(cudaMemcpy(data, pageable.data(), bytes, cudaMemcpyHostToDevice));
    if (is_cured) DO(cudaStreamSynchronize(0));
    DO(cudaMemcpyAsync(result, data, bytes, cudaMemcpyDeviceToDevice, reader));
    return wrong_on_device(result, 1, bytes);
}
