// The peer of a cold start of `trijet map`, with the CUDA runtime only. Reads a raw file of u16,
// scales it, and writes the result.
//   nvcc -O2 -arch=sm_90 cold_start.cu -o cold_start && ./cold_start IN OUT
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                  \
    do {                                                                             \
        cudaError_t e = (call);                                                      \
        if (e != cudaSuccess) { fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); exit(1); } \
    } while (0)

__global__ void affine(float scale, float offset, const unsigned short* x, unsigned short* y, size_t n) {
    size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
    if (i < n) {
        float v = rintf(__fadd_rn(__fmul_rn(scale, float(x[i])), offset));
        y[i] = static_cast<unsigned short>(fminf(fmaxf(v, 0.0f), 65535.0f));
    }
}

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    FILE* in = fopen(argv[1], "rb");
    if (!in) return 1;
    fseek(in, 0, SEEK_END);
    size_t bytes = ftell(in);
    rewind(in);
    unsigned short *host, *x, *y;
    CHECK(cudaMallocHost(&host, bytes));
    if (fread(host, 1, bytes, in) != bytes) return 1;
    CHECK(cudaMalloc(&x, bytes));
    CHECK(cudaMalloc(&y, bytes));
    cudaStream_t s;
    CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    CHECK(cudaMemcpyAsync(x, host, bytes, cudaMemcpyHostToDevice, s));
    size_t n = bytes / 2;
    affine<<<(n + 255) / 256, 256, 0, s>>>(0.5f, 3.0f, x, y, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(host, y, bytes, cudaMemcpyDeviceToHost, s));
    CHECK(cudaStreamSynchronize(s));
    FILE* out = fopen(argv[2], "wb");
    if (!out || fwrite(host, 1, bytes, out) != bytes || fclose(out)) return 1;
    return 0;
}
