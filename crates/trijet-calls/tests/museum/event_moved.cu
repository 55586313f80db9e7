// OpenVDB (August 2026): a buffer has one event for its last use. A use in a second stream recorded the event again,
// and the use in the first stream was forgotten.
#include "piece.h"

static void record_use(cudaEvent_t used, cudaStream_t stream, bool is_cured) {
    if (is_cured) DO(cudaStreamWaitEvent(stream, used, 0));
    DO(cudaEventRecord(used, stream));
}

size_t piece(bool is_cured) {
    cudaStream_t a = stream(), b = stream(), c = stream(), frees = stream();
    cudaEvent_t used = event();
    unsigned char *buffer, *next;
    DO(cudaMallocAsync((void**)&buffer, BYTES, a));
    hold_back(a);
    DO(cudaMemsetAsync(buffer, 1, BYTES, a));
    record_use(used, a, is_cured);
    record_use(used, b, is_cured);
    DO(cudaStreamWaitEvent(frees, used, 0));
    DO(cudaFreeAsync(buffer, frees));
    DO(cudaStreamSynchronize(frees));
    DO(cudaMallocAsync((void**)&next, BYTES, c));
    DO(cudaMemsetAsync(next, 2, BYTES, c));
    return wrong_on_device(next, 2);
}
