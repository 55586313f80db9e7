// A peer of `trijet bench tuner`: small jobs by hand, in microseconds from the call to the end. One
// kernel that reads and writes page-locked memory, with 16 bytes or, as the kernel of the benchmark, with
// 4 bytes for each thread, and upload, kernel and download in one stream.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t code = (call);                                                         \
        if (code != cudaSuccess) {                                                         \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                  \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

__global__ void flip(const uint4* x, uint4* y, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
        uint4 v = x[i];
        y[i] = make_uint4(v.x ^ 1, v.y ^ 1, v.z ^ 1, v.w ^ 1);
    }
}

__global__ void flip_word(const unsigned* x, unsigned* y, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
        y[i] = x[i] ^ 1;
}

enum Form { COPIES, VECTORS, WORDS, FORMS };
const char* const NAMES[FORMS] = {
    "copies in one stream", "kernel on the host's memory", "kernel on the host's memory, 4 bytes for each thread"};

int main(int argc, char** argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 11;
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    printf("note\tnvcc %d.%d\n", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    for (size_t kib : {4, 64, 256, 1024, 4096}) {
        size_t bytes = kib << 10, n = bytes / 16;
        uint4 *x, *y, *dx, *dy;
        CHECK(cudaMallocHost(&x, bytes));
        CHECK(cudaMallocHost(&y, bytes));
        CHECK(cudaMalloc(&dx, bytes));
        CHECK(cudaMalloc(&dy, bytes));
        unsigned* words = (unsigned*)x;
        for (size_t i = 0; i < bytes / 4; i++) words[i] = (unsigned)(i * 2654435761u);
        int blocks = (int)std::min<size_t>(264, (n + 255) / 256);
        for (int form = 0; form < FORMS; form++) {
            for (int run = -3; run < repeats; run++) {
                if (run == -1) std::fill((unsigned*)y, (unsigned*)y + bytes / 4, 0u);
                auto begin = std::chrono::steady_clock::now();
                if (form == VECTORS) {
                    flip<<<blocks, 256, 0, stream>>>(x, y, n);
                } else if (form == WORDS) {
                    flip_word<<<(int)(4 * n / 256), 256, 0, stream>>>((unsigned*)x, (unsigned*)y, 4 * n);
                } else {
                    CHECK(cudaMemcpyAsync(dx, x, bytes, cudaMemcpyHostToDevice, stream));
                    flip<<<blocks, 256, 0, stream>>>(dx, dy, n);
                    CHECK(cudaMemcpyAsync(y, dy, bytes, cudaMemcpyDeviceToHost, stream));
                }
                CHECK(cudaGetLastError());
                CHECK(cudaStreamSynchronize(stream));
                std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
                for (size_t i = 0; run == -1 && i < bytes / 4; i++)
                    if (((unsigned*)y)[i] != (words[i] ^ 1)) {
                        fprintf(stderr, "word %zu of %zu KiB is wrong\n", i, kib);
                        return 1;
                    }
                if (run >= 0)
                    printf("CUDA C++, %zu KiB: %s\tus\t%.2f\n", kib, NAMES[form], time.count());
            }
        }
        CHECK(cudaFreeHost(x));
        CHECK(cudaFreeHost(y));
        CHECK(cudaFree(dx));
        CHECK(cudaFree(dy));
    }
    return 0;
}
