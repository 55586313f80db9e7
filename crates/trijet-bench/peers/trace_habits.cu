// Programs with a planted habit each, and their mended twins: `trace_habits NAME planted|mended`. Prints the
// seconds of the loop and a sum of its results. `trace_gains.py` runs them.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t code = (call);                                                                                     \
        if (code != cudaSuccess) {                                                                                     \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

constexpr int STEPS = 60;
constexpr int N = 8 << 20;
constexpr int SMALL = 1 << 18;

__global__ void work(float *x, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) v = v * 0.999f + 0.001f;
    x[i] = v;
}

// A kernel for each step, each in the binary by itself, so that lazy loading loads it at its first launch.
template <int K> __global__ void loaded(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 0.5f + float(K);
}

using Loaded = void (*)(float *, int);
template <int K> struct Table {
    static void fill(Loaded *table) {
        table[K - 1] = loaded<K - 1>;
        Table<K - 1>::fill(table);
    }
};
template <> struct Table<0> {
    static void fill(Loaded *) {}
};

struct State {
    float *page_locked, *x[2];
    cudaStream_t compute, side;
    Loaded table[STEPS];
    bool mended;
};

// Two streams whose kernels fill a fraction of the device each, and the legacy stream between them.
void legacy(State &s, int) {
    const int half = 64 * 256;
    cudaStream_t second = s.mended ? s.side : cudaStreamLegacy;
    work<<<half / 256, 256, 0, s.compute>>>(s.x[0], half, 60000);
    work<<<half / 256, 256, 0, second>>>(s.x[1], half, 60000);
}

// All in the default stream. The host waits for each copy, and then enqueues the kernel.
void sync_copy(State &s, int) {
    const size_t bytes = 64 << 10;
    for (int part = 0; part < 16; ++part) {
        if (s.mended)
            CHECK(cudaMemcpyAsync(s.x[0], s.page_locked, bytes, cudaMemcpyHostToDevice, cudaStreamLegacy));
        else
            CHECK(cudaMemcpy(s.x[0], s.page_locked, bytes, cudaMemcpyHostToDevice));
        work<<<SMALL / 256, 256>>>(s.x[0], SMALL, 200);
    }
}

void first_load(State &s, int i) {
    s.table[i]<<<SMALL / 256, 256, 0, s.compute>>>(s.x[0], SMALL);
    work<<<SMALL / 256, 256, 0, s.compute>>>(s.x[0], SMALL, 200);
}

int main(int, char **arguments) {
    const char *name = arguments[1];
    State s{};
    s.mended = !strcmp(arguments[2], "mended");
    void (*step)(State &, int) = nullptr;
    if (!strcmp(name, "legacy")) step = legacy;
    if (!strcmp(name, "sync-copy")) step = sync_copy;
    if (!strcmp(name, "first-load")) step = first_load;
    if (!step) return 2;
    CHECK(cudaMallocHost(&s.page_locked, N * 4));
    memset(s.page_locked, 0, N * 4);
    for (auto &x : s.x) {
        CHECK(cudaMalloc(&x, N * 4));
        CHECK(cudaMemset(x, 0, N * 4));
    }
    // Blocking streams, as the legacy stream delays no other ones.
    CHECK(cudaStreamCreate(&s.compute));
    CHECK(cudaStreamCreate(&s.side));
    Table<STEPS>::fill(s.table);
    work<<<1, 1, 0, s.compute>>>(s.x[0], 1, 1);
    CHECK(cudaMemcpyAsync(s.x[0], s.page_locked, N * 4, cudaMemcpyHostToDevice, s.compute));
    loaded<100><<<1, 1, 0, s.compute>>>(s.x[0], 1);
    if (!strcmp(name, "first-load") && s.mended)
        for (auto kernel : s.table) {
            cudaFuncAttributes attributes;
            CHECK(cudaFuncGetAttributes(&attributes, kernel));
        }
    CHECK(cudaDeviceSynchronize());
    auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < STEPS; ++i) {
        nvtxRangePushA("step");
        step(s, i);
        CHECK(cudaGetLastError());
        nvtxRangePop();
    }
    CHECK(cudaDeviceSynchronize());
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - began;
    float results[8];
    CHECK(cudaMemcpy(results, s.x[0], sizeof results, cudaMemcpyDeviceToHost));
    double sum = 0;
    for (float one : results) sum += one;
    printf("%s loop %.6f s, %d steps, sum %.6g\n", arguments[2], seconds.count(), STEPS, sum);
}
