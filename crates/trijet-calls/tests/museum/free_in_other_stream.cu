// cuda-oxide (August 2026): a dropped buffer is freed in the stream that allocated it, while another stream uses it.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t a = stream(), b = stream();
    unsigned char *buffer, *next, *result = device_memory();
    DO(cudaMallocAsync((void**)&buffer, BYTES, a));
    DO(cudaMemsetAsync(buffer, 1, BYTES, a));
    follow(b, a);
    hold_back(b);
    DO(cudaMemcpyAsync(result, buffer, BYTES, cudaMemcpyDeviceToDevice, b));
    if (is_cured) follow(a, b);
    DO(cudaFreeAsync(buffer, a));
    DO(cudaMallocAsync((void**)&next, BYTES, a));
    DO(cudaMemsetAsync(next, 2, BYTES, a));
    return wrong_on_device(result, 1);
}
