// DaCe (July 2026): a runtime copies in a non-blocking stream of its own, and the callback between two copies launches
// its kernel in the legacy stream.
#include "piece.h"

__global__ void twice(unsigned char* x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= 2; }

size_t piece(bool is_cured) {
    cudaStream_t own = stream(), callback = is_cured ? own : 0;
    unsigned char *data = device_memory(BYTES, 1), *copy = device_memory();
    twice<<<1, 1>>>(copy);  // loads the kernel
    DO(cudaDeviceSynchronize());
    hold_back(own);
    DO(cudaMemcpyAsync(copy, data, BYTES, cudaMemcpyDeviceToDevice, own));
    twice<<<BYTES / 256, 256, 0, callback>>>(copy);
    DO(cudaMemcpyAsync(data, copy, BYTES, cudaMemcpyDeviceToDevice, own));
    return wrong_on_device(data, 2);
}
