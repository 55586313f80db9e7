// The peer of `trijet bench memory` in CUDA C++: the same pairs and the same rule of random sizes, with a driver pool that
// keeps its memory, and with the caching allocator of CUB. The argument is the number of samples.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/util_allocator.cuh>
#include <functional>
#include <random>
#include <vector>

static const int PAIRS = 2000;
static const size_t SIZES[] = {4096, 1048576, 16777216};
static const char *NAMES[] = {"4 KiB", "1 MiB", "16 MiB"};
static const int RANDOM[] = {1000, 10000, 100000};
static const uint64_t SIZE_MAX_BYTES = 1048576, LIVE_MAX = 16777216000ull;

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t code = (call);                                                                \
        if (code != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

using Alloc = std::function<void *(size_t)>;
using Free = std::function<void(void *)>;

static double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void pairs(const char *who, size_t index, Alloc alloc, Free release) {
    double begin = now();
    for (int i = 0; i < PAIRS; i++) release(alloc(SIZES[index]));
    printf("pairs of %s, %s: allocation and free\tns\t%.1f\n", NAMES[index], who, (now() - begin) / PAIRS);
    OK(cudaDeviceSynchronize());
}

static void random_sizes(const char *who, int count, Alloc alloc, Free release) {
    std::mt19937_64 draw(7);
    std::vector<std::pair<void *, uint64_t>> live;
    uint64_t bytes = 0;
    long ops = 0;
    double begin = now();
    for (int made = 0; made < count; ops++) {
        uint64_t size = 1 + draw() % SIZE_MAX_BYTES;
        if (live.empty() || (bytes + size <= LIVE_MAX && draw() % 100 < 73)) {
            live.push_back({alloc(size), size});
            bytes += size;
            made++;
        } else {
            size_t at = draw() % live.size();
            release(live[at].first);
            bytes -= live[at].second;
            live[at] = live.back();
            live.pop_back();
        }
    }
    printf("%d random sizes, %s: each operation\tns\t%.1f\n", count, who, (now() - begin) / ops);
    for (auto &block : live) release(block.first);
    OK(cudaDeviceSynchronize());
}

int main(int argc, char **argv) {
    int repeats = atoi(argv[1]);
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    cudaMemPool_t pool;
    OK(cudaDeviceGetDefaultMemPool(&pool, 0));
    uint64_t all = UINT64_MAX;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    auto pool_alloc = [&](size_t bytes) {
        void *p;
        OK(cudaMallocAsync(&p, bytes, stream));
        return p;
    };
    auto pool_free = [&](void *p) { OK(cudaFreeAsync(p, stream)); };
    cub::CachingDeviceAllocator cub(8, 3, 9, size_t(64) << 30);
    auto cub_alloc = [&](size_t bytes) {
        void *p;
        OK(cub.DeviceAllocate(&p, bytes, stream));
        return p;
    };
    auto cub_free = [&](void *p) { OK(cub.DeviceFree(p)); };
    for (int warm = 0; warm < 2; warm++)
        for (size_t i = 0; i < 3; i++) {
            pool_free(pool_alloc(SIZES[i]));
            cub_free(cub_alloc(SIZES[i]));
        }
    for (int round = 0; round < repeats; round++)
        for (size_t i = 0; i < 3; i++) {
            pairs("cudaMallocAsync", i, pool_alloc, pool_free);
            pairs("cub", i, cub_alloc, cub_free);
        }
    for (int round = 0; round < (repeats < 10 ? repeats : 10); round++)
        for (int count : RANDOM) {
            random_sizes("cudaMallocAsync", count, pool_alloc, pool_free);
            if (count <= 10000) random_sizes("cub", count, cub_alloc, cub_free);
            OK(cudaMemPoolTrimTo(pool, 0));
        }
}
