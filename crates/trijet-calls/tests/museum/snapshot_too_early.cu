// TRL (September 2026): the stream of the transfers waits for the stream of the computation, and only then the tensor
// is cloned there.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t compute = stream(), transfers = stream();
    unsigned char *activation = device_memory(BYTES, 1), *clone = device_memory(), *host = host_memory();
    if (!is_cured) follow(transfers, compute);
    hold_back(compute);
    DO(cudaMemcpyAsync(clone, activation, BYTES, cudaMemcpyDeviceToDevice, compute));
    if (is_cured) follow(transfers, compute);
    DO(cudaMemcpyAsync(host, clone, BYTES, cudaMemcpyDeviceToHost, transfers));
    DO(cudaDeviceSynchronize());
    return wrong(host, 1);
}
