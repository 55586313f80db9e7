// cuDF (March 2026): the parts of a file are uploaded in the streams of a pool, which wait for the stream of the
// user. The stream of the user, which writes a newline after each part, does not wait for them.
#include "piece.h"

size_t piece(bool is_cured) {
    const int parts = 4;
    const size_t bytes = BYTES / parts;
    cudaStream_t user = stream(), pool[parts];
    unsigned char *file = host_memory(BYTES, 'x'), *buffer = device_memory();
    for (auto& one : pool) {
        one = stream();
        follow(one, user);
        hold_back(one);
    }
    for (int part = 0; part < parts; ++part) {
        size_t at = part * bytes;
        DO(cudaMemcpyAsync(buffer + at, file + at, bytes, cudaMemcpyHostToDevice, pool[part]));
        if (is_cured) follow(user, pool[part]);
    }
    for (int part = 0; part < parts; ++part) DO(cudaMemsetAsync(buffer + (part + 1) * bytes - 1, '\n', 1, user));
    size_t count = 0;
    for (int part = 0; part < parts; ++part) count += wrong_on_device(buffer + (part + 1) * bytes - 1, '\n', 1);
    return count;
}
