// DeepSpeed (March 2026): the stream that reduces gradients waits for the default stream. The gradients come from the
// stream that is current.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t current = stream(), reduction = stream();
    unsigned char *gradients = device_memory(), *bucket = device_memory();
    hold_back(current);
    DO(cudaMemsetAsync(gradients, 1, BYTES, current));
    follow(reduction, is_cured ? current : 0);
    DO(cudaMemcpyAsync(bucket, gradients, BYTES, cudaMemcpyDeviceToDevice, reduction));
    return wrong_on_device(bucket, 1);
}
