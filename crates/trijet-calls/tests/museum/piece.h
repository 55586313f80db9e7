// The frame of a piece of the museum: a race of a real program, made again, and its cure.
//   ./PIECE race|cured     prints the number of wrong bytes of the result
#pragma once
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

// The result of the piece: the number of wrong bytes.
size_t piece(bool is_cured);

#define DO(call)                                                                       \
    do {                                                                               \
        cudaError_t error = (call);                                                    \
        if (error != cudaSuccess) {                                                    \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                      \
            exit(2);                                                                   \
        }                                                                              \
    } while (0)

const size_t BYTES = 1 << 22;

inline cudaStream_t stream() {
    cudaStream_t made;
    DO(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
    return made;
}

inline cudaEvent_t event() {
    cudaEvent_t made;
    DO(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
    return made;
}

inline unsigned char* device_memory(size_t bytes = BYTES, int value = 0) {
    unsigned char* made;
    DO(cudaMalloc((void**)&made, bytes));
    DO(cudaMemset(made, value, bytes));
    DO(cudaDeviceSynchronize());
    return made;
}

inline unsigned char* host_memory(size_t bytes = BYTES, int value = 0) {
    unsigned char* made;
    DO(cudaMallocHost((void**)&made, bytes));
    memset(made, value, bytes);
    return made;
}

// Makes one stream wait for the present work of another.
inline void follow(cudaStream_t stream, cudaStream_t earlier) {
    cudaEvent_t done = event();
    DO(cudaEventRecord(done, earlier));
    DO(cudaStreamWaitEvent(stream, done, 0));
}

__global__ void spin(long long cycles) {
    long long begun = clock64();
    while (clock64() - begun < cycles) {
    }
}

// Holds the later work of a stream back, so that an order by luck is the wrong one.
inline void hold_back(cudaStream_t stream) { spin<<<1, 1, 0, stream>>>(100000000); }

inline size_t wrong(const unsigned char* host, int value, size_t bytes = BYTES) {
    size_t count = 0;
    for (size_t at = 0; at < bytes; ++at) count += host[at] != value;
    return count;
}

// The wrong bytes of device memory, when all work is done.
inline size_t wrong_on_device(const unsigned char* device, int value, size_t bytes = BYTES) {
    DO(cudaDeviceSynchronize());
    std::vector<unsigned char> host(bytes);
    DO(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDeviceToHost));
    return wrong(host.data(), value, bytes);
}

int main(int, char** arguments) {
    bool is_cured = !strcmp(arguments[1], "cured");
    // Loads the kernel, which would wait for running work.
    spin<<<1, 1>>>(1);
    DO(cudaDeviceSynchronize());
    size_t count = piece(is_cured);
    DO(cudaDeviceSynchronize());
    printf("%zu wrong bytes\n", count);
}
