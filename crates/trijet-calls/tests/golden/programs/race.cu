// The program of the call files of this folder without `torch` in their names. It has one argument, the name of the file.
//   nvcc -O1 -g -Xcompiler -rdynamic -arch=sm_90 race.cu -o race && trijet check -o race.calls -- ./race race
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}

__attribute__((noinline)) void upload(float* d, float* h, size_t n, cudaStream_t s) {
    cudaMemcpyAsync(d, h, n, cudaMemcpyHostToDevice, s);
}

__attribute__((noinline)) void download(float* h, float* d, size_t n, cudaStream_t s) {
    cudaMemcpyAsync(h, d, n, cudaMemcpyDeviceToHost, s);
}

int main(int argc, char** argv) {
    auto is = [&](const char* name) { return argc > 1 && !strcmp(argv[1], name); };
    int n = 1 << 20;
    size_t bytes = n * 4;
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    float *d, *e, *h, *g;
    cudaMalloc(&d, bytes);
    cudaMalloc(&e, bytes);
    cudaMallocHost(&h, bytes);
    cudaMallocHost(&g, bytes);
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (is("race")) {
        upload(d, h, bytes, a);
        download(g, d, bytes, b);
    }
    if (is("ordered")) {
        upload(d, h, bytes, a);
        cudaEventRecord(event, a);
        cudaStreamWaitEvent(b, event, 0);
        download(g, d, bytes, b);
    }
    if (is("kernel")) {
        upload(d, h, bytes, a);
        add<<<n / 256, 256, 0, b>>>(d, e, n);
    }
    if (is("pool")) {
        float* p;
        cudaMallocAsync((void**)&p, bytes, a);
        cudaMemsetAsync(p, 0, bytes, a);
        cudaFreeAsync(p, b);
    }
    if (is("legacy")) {
        cudaStream_t c;
        cudaStreamCreate(&c);
        upload(d, h, bytes, c);
        cudaMemcpy(g, d, bytes, cudaMemcpyDeviceToHost);
    }
    if (is("graph")) {
        cudaGraph_t graph;
        cudaGraphExec_t program;
        cudaStreamBeginCapture(a, cudaStreamCaptureModeThreadLocal);
        upload(d, h, bytes, a);
        add<<<n / 256, 256, 0, a>>>(d, e, n);
        cudaStreamEndCapture(a, &graph);
        cudaGraphInstantiate(&program, graph, 0);
        cudaGraphLaunch(program, a);
        download(g, d, bytes, b);
    }
    if (is("2d")) {
        // Rows of 1024 bytes, 2048 apart: the first fill is between two rows, and the second in one.
        cudaMemcpy2DAsync(d, 2048, h, 1024, 1024, 100, cudaMemcpyHostToDevice, a);
        cudaMemsetAsync((char*)d + 1024, 1, 512, b);
        cudaMemsetAsync((char*)d + 2048, 1, 512, b);
    }
    cudaError_t ended = cudaDeviceSynchronize();
    cudaFree(d);
    printf("%s\n", cudaGetErrorString(ended));
    return 0;
}
