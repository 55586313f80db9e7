// vLLM (March 2026): the host reads the target of a download that does not block, in the next step.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t compute = stream();
    unsigned char *counts = device_memory(BYTES, 1), *host = host_memory();
    cudaEvent_t copied = event();
    hold_back(compute);
    DO(cudaMemcpyAsync(host, counts, BYTES, cudaMemcpyDeviceToHost, compute));
    DO(cudaEventRecord(copied, compute));
    if (is_cured) DO(cudaEventSynchronize(copied));
    return wrong(host, 1);
}
