// Velox (July 2026): the first probe waits for the table, and notes that no wait is needed any more. The second probe
// is in another stream.
#include "piece.h"

size_t piece(bool is_cured) {
    cudaStream_t build = stream();
    unsigned char *table = device_memory(), *results[2] = {device_memory(), device_memory()};
    hold_back(build);
    DO(cudaMemsetAsync(table, 1, BYTES, build));
    bool is_needed = true;
    for (unsigned char* result : results) {
        cudaStream_t probe = stream();
        if (is_needed) follow(probe, build);
        is_needed = is_cured;
        DO(cudaMemcpyAsync(result, table, BYTES, cudaMemcpyDeviceToDevice, probe));
    }
    return wrong_on_device(results[0], 1) + wrong_on_device(results[1], 1);
}
