// The peer of the workers on the device in CUDA C++: three workloads of many small tasks, each handed out in the ways
// that bare CUDA has for it. The argument is the number of repetitions; one more before them warms up and is not
// printed. A repetition runs every variant once, one after the other. A figure is the time between two events around
// the launch, in microseconds. It contains what the variant needs for each run, such as clearing its counter, and not
// what is made once, such as an instantiated graph. The results of the warm-up are compared with those of the host,
// word by word.
//
// The workloads:
// - mandelbrot: tiles of an image, a block of threads for each, with two limits of iterations;
// - skew: tasks of a warp, where few are much longer than most, for several lengths;
// - dag: layers of nodes that need up to three nodes of the layer before, a warp for each node.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda/atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using u32 = uint32_t;
using u64 = uint64_t;

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t code = (call);                                                                \
        if (code != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static const u32 THREADS = 256, WARP = 32;

__host__ __device__ static u32 mix(u32 x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ x >> 16;
}

__device__ static u32 lane() { return threadIdx.x % WARP; }
__device__ static u32 warp() { return (blockIdx.x * blockDim.x + threadIdx.x) / WARP; }
__device__ static u32 warps() { return gridDim.x * blockDim.x / WARP; }

// ---- Measuring ----

using Words = std::shared_ptr<const std::vector<u32>>;

struct Variant {
    std::string name;
    std::function<void()> launch;
    u32 *result;     // where the device writes
    Words expected;  // what the first words of the result must be
};

// The time that no way of handing out tasks can beat by much: all SMs busy all the time, and the longest task alone.
struct Bound {
    std::string name;
    size_t even, longest;  // the indices of the two variants that measure it
};

struct Bench {
    cudaStream_t stream;
    cudaEvent_t begin, end;
    u32 processors;
    std::vector<Variant> variants;
    std::vector<Bound> bounds;

    Bench() {
        int count;
        OK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0));
        processors = u32(count);
        OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        OK(cudaEventCreate(&begin));
        OK(cudaEventCreate(&end));
    }

    // The blocks of `THREADS` threads that are resident at the same time.
    template <class Kernel>
    u32 resident(Kernel kernel) const {
        int each;
        OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, int(THREADS), 0));
        return u32(each) * processors;
    }

    void clear(u32 *counter) const { OK(cudaMemsetAsync(counter, 0, sizeof(u32), stream)); }

    double time_us(const Variant &variant) const {
        OK(cudaEventRecord(begin, stream));
        variant.launch();
        OK(cudaEventRecord(end, stream));
        OK(cudaGetLastError());
        OK(cudaEventSynchronize(end));
        float ms;
        OK(cudaEventElapsedTime(&ms, begin, end));
        return 1000.0 * ms;
    }
};

// The words are filled with ones before the run, so that a result of another variant is not taken for this one's.
static void warm_up(const Bench &bench, const Variant &variant) {
    const std::vector<u32> &expected = *variant.expected;
    size_t bytes = expected.size() * sizeof(u32);
    OK(cudaMemsetAsync(variant.result, 0xff, bytes, bench.stream));
    bench.time_us(variant);
    std::vector<u32> found(expected.size());
    OK(cudaMemcpy(found.data(), variant.result, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < expected.size(); i++) {
        if (found[i] == expected[i]) continue;
        fprintf(stderr, "%s: word %zu is %u, not %u\n", variant.name.c_str(), i, found[i], expected[i]);
        exit(1);
    }
}

static void print(const std::string &name, double us) { printf("%s\tus\t%.2f\n", name.c_str(), us); }

static void repetition(const Bench &bench) {
    std::vector<double> times;
    for (const Variant &variant : bench.variants) {
        times.push_back(bench.time_us(variant));
        print(variant.name, times.back());
    }
    for (const Bound &bound : bench.bounds) print(bound.name, std::max(times[bound.even], times[bound.longest]));
}

static u32 *device_words(size_t count) {
    u32 *words;
    OK(cudaMalloc(&words, count * sizeof(u32)));
    OK(cudaMemset(words, 0, count * sizeof(u32)));
    return words;
}

// ---- Mandelbrot ----

static const u32 IMAGE = 2048, TILE = 16, TILES_WIDE = IMAGE / TILE, TILES = TILES_WIDE * TILES_WIDE;
static const u32 LIMITS[] = {256, 2000};

// Every operation is rounded by itself, so that the host computes the same counts.
__device__ static void mandel_tile(u32 *counts, u32 limit, u32 tile) {
    const u32 px = tile % TILES_WIDE * TILE + (threadIdx.x & 15), py = tile / TILES_WIDE * TILE + (threadIdx.x >> 4);
    const float d = 3.f / IMAGE;
    const float cx = __fadd_rn(-2.f, __fmul_rn(float(px), d)), cy = __fadd_rn(-1.5f, __fmul_rn(float(py), d));
    float x = 0.f, y = 0.f;
    u32 k = 0;
    for (; k < limit; ++k) {
        const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
        if (__fadd_rn(xx, yy) > 4.f) break;
        y = __fadd_rn(__fmul_rn(__fmul_rn(2.f, x), y), cy);
        x = __fadd_rn(__fsub_rn(xx, yy), cx);
    }
    counts[py * IMAGE + px] = k;
}

__global__ void __launch_bounds__(THREADS) mandel_hardware(u32 *counts, u32 limit) {
    mandel_tile(counts, limit, blockIdx.x);
}

__global__ void __launch_bounds__(THREADS) mandel_static(u32 *counts, u32 limit) {
    for (u32 tile = blockIdx.x; tile < TILES; tile += gridDim.x) mandel_tile(counts, limit, tile);
}

// The two places take turns, so that one barrier for each tile is enough: thread 0 writes a place again only after the
// barrier of the other place, and by then every thread has read it.
__global__ void __launch_bounds__(THREADS) mandel_counter(u32 *counts, u32 limit, u32 *next) {
    __shared__ u32 taken[2];
    for (u32 turn = 0;; turn ^= 1) {
        if (threadIdx.x == 0) taken[turn] = atomicAdd(next, 1u);
        __syncthreads();
        const u32 tile = taken[turn];
        if (tile >= TILES) return;
        mandel_tile(counts, limit, tile);
    }
}

static u32 mandel_count(u32 px, u32 py, u32 limit) {
    const float d = 3.f / IMAGE, cx = -2.f + float(px) * d, cy = -1.5f + float(py) * d;
    float x = 0.f, y = 0.f;
    for (u32 k = 0; k < limit; k++) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.f) return k;
        y = 2.f * x * y + cy;
        x = xx - yy + cx;
    }
    return limit;
}

static std::vector<u32> mandel_image(u32 limit) {
    std::vector<u32> counts(size_t(IMAGE) * IMAGE);
    for (u32 py = 0; py < IMAGE; py++)
        for (u32 px = 0; px < IMAGE; px++) counts[py * IMAGE + px] = mandel_count(px, py, limit);
    return counts;
}

// A count with a smaller limit is the smaller of the two, so the host computes only one image.
static Words mandel_limited(const std::vector<u32> &image, u32 limit) {
    auto counts = std::make_shared<std::vector<u32>>(image);
    for (u32 &count : *counts) count = std::min(count, limit);
    return counts;
}

static void add_mandelbrot(Bench &bench) {
    u32 *counts = device_words(size_t(IMAGE) * IMAGE), *next = device_words(1);
    const std::vector<u32> image = mandel_image(*std::max_element(std::begin(LIMITS), std::end(LIMITS)));
    const u32 strided = bench.resident(mandel_static), taking = bench.resident(mandel_counter);
    for (u32 limit : LIMITS) {
        Words expected = mandel_limited(image, limit);
        auto add = [&](const char *how, std::function<void()> launch) {
            bench.variants.push_back({"mandelbrot " + std::to_string(limit) + ": " + how, launch, counts, expected});
        };
        add("hardware blocks", [=, &bench] { mandel_hardware<<<TILES, THREADS, 0, bench.stream>>>(counts, limit); });
        add("static persistent", [=, &bench] { mandel_static<<<strided, THREADS, 0, bench.stream>>>(counts, limit); });
        add("shared counter", [=, &bench] {
            bench.clear(next);
            mandel_counter<<<taking, THREADS, 0, bench.stream>>>(counts, limit, next);
        });
    }
}

// ---- Tasks of a warp with skewed lengths ----

static const u32 TASKS = 65536;
static const u32 BASES[] = {16, 256}, CAPS[] = {0, 6, 12};
static const u32 FACTOR = 1664525u, ADDEND = 1013904223u;

// Task i repeats its step base << min(leading zeros of mix(i), cap) times. Half of the tasks have the length `base`, a
// quarter twice that, and so on. Task 0 is the longest, since mix(0) is 0.
struct Lengths {
    u32 base, cap;
};

// The loop must be the same in all variants. Because of the assembly the compiler cannot replace it by a formula, and
// because of the pragma it does not unroll it. The count begins at threadIdx.y, which is 0. A count that begins at a
// constant goes to the slower uniform registers where the compiler knows that all lanes have the same task.
__device__ static void skew_task(u32 *out, Lengths lengths, u32 i) {
    const u32 units = lengths.base << min(u32(__clz(int(mix(i)))), lengths.cap);
    u32 x = i * WARP + lane();
#pragma unroll 1
    for (u32 k = threadIdx.y; k < units; k++) {
        x = x * FACTOR + ADDEND;
        asm volatile("" : "+r"(x));
    }
    out[i * WARP + lane()] = x;
}

__global__ void __launch_bounds__(THREADS) skew_hardware(u32 *out, Lengths lengths) {
    skew_task(out, lengths, warp());
}

__global__ void __launch_bounds__(THREADS) skew_static(u32 *out, Lengths lengths) {
    for (u32 i = warp(); i < TASKS; i += warps()) skew_task(out, lengths, i);
}

__global__ void __launch_bounds__(THREADS) skew_counter(u32 *out, Lengths lengths, u32 *next) {
    for (;;) {
        u32 i = 0;
        if (lane() == 0) i = atomicAdd(next, 1u);
        i = __shfl_sync(~0u, i, 0);
        if (i >= TASKS) return;
        skew_task(out, lengths, i);
    }
}

static u32 units_of(Lengths lengths, u32 i) {
    u32 zeros = 0;
    while (zeros < lengths.cap && !(mix(i) >> (31 - zeros) & 1)) zeros++;
    return lengths.base << zeros;
}

static u32 mean_units(Lengths lengths) {
    u64 total = 0;
    for (u32 i = 0; i < TASKS; i++) total += units_of(lengths, i);
    return u32((total + TASKS - 1) / TASKS);
}

// `units` steps are one step with another factor and another addend. They are found by squaring, so that the host does
// not repeat the loop of the device.
struct Step {
    u32 factor = 1, addend = 0;
    Step then(Step after) const { return {factor * after.factor, addend * after.factor + after.addend}; }
};

static Step steps(u32 units) {
    Step all{1, 0}, power{FACTOR, ADDEND};
    for (; units; units >>= 1, power = power.then(power))
        if (units & 1) all = all.then(power);
    return all;
}

static Words skew_words(Lengths lengths, u32 tasks) {
    auto words = std::make_shared<std::vector<u32>>();
    for (u32 i = 0; i < tasks; i++) {
        const Step step = steps(units_of(lengths, i));
        for (u32 l = 0; l < WARP; l++) words->push_back((i * WARP + l) * step.factor + step.addend);
    }
    return words;
}

static void add_skew_of(Bench &bench, Lengths lengths, u32 *out, u32 *next) {
    const std::string name = "skew base " + std::to_string(lengths.base) + " cap " + std::to_string(lengths.cap) + ": ";
    const u32 strided = bench.resident(skew_static), taking = bench.resident(skew_counter);
    const u32 blocks = TASKS * WARP / THREADS;
    const Lengths even{mean_units(lengths), 0};
    Words expected = skew_words(lengths, TASKS);
    auto add = [&](const char *how, Words words, std::function<void()> launch) {
        bench.variants.push_back({name + how, launch, out, words});
        return bench.variants.size() - 1;
    };
    add("hardware blocks", expected,
        [=, &bench] { skew_hardware<<<blocks, THREADS, 0, bench.stream>>>(out, lengths); });
    add("hardware blocks of a warp", expected,
        [=, &bench] { skew_hardware<<<TASKS, WARP, 0, bench.stream>>>(out, lengths); });
    add("static persistent", expected,
        [=, &bench] { skew_static<<<strided, THREADS, 0, bench.stream>>>(out, lengths); });
    add("shared counter", expected, [=, &bench] {
        bench.clear(next);
        skew_counter<<<taking, THREADS, 0, bench.stream>>>(out, lengths, next);
    });
    const size_t total = add("even lengths", skew_words(even, TASKS),
                             [=, &bench] { skew_hardware<<<blocks, THREADS, 0, bench.stream>>>(out, even); });
    const size_t longest = add("longest task", skew_words(lengths, 1),
                               [=, &bench] { skew_hardware<<<1, WARP, 0, bench.stream>>>(out, lengths); });
    bench.bounds.push_back({name + "bound", total, longest});
}

static void add_skew(Bench &bench) {
    u32 *out = device_words(TASKS * WARP), *next = device_words(1);
    for (u32 base : BASES)
        for (u32 cap : CAPS) add_skew_of(bench, {base, cap}, out, next);
}

// ---- A DAG in levels ----

static const u32 LEVELS = 50, WIDTH = 400, NODES = LEVELS * WIDTH;
static const u32 LEVEL_BLOCKS = (WIDTH * WARP + THREADS - 1) / THREADS;

// Node v is in level v / WIDTH. Its predecessors differ from each other, since 133 and 266 are less than WIDTH.
__host__ __device__ static u32 predecessors(u32 v) { return v < WIDTH ? 0 : 1 + mix(v) % 3; }
__host__ __device__ static u32 predecessor(u32 v, u32 j) {
    return (v / WIDTH - 1) * WIDTH + (mix(v) / 4 + j * 133) % WIDTH;
}

// One warp: a lane for each predecessor.
__device__ static void dag_node(u32 *values, u32 v) {
    const u32 term = lane() < predecessors(v) ? values[predecessor(v, lane())] : 0;
    const u32 sum = __reduce_add_sync(~0u, term);
    if (lane() == 0) values[v] = mix(v ^ sum);
}

__global__ void __launch_bounds__(WARP) dag_one(u32 *values, u32 v) { dag_node(values, v); }

__global__ void __launch_bounds__(THREADS) dag_level(u32 *values, u32 level) {
    if (warp() < WIDTH) dag_node(values, level * WIDTH + warp());
}

// A barrier of the whole grid, with the rule of cooperative groups: together the blocks add exactly the highest bit, so
// it changes with the last arrival and the counter needs no clearing.
__device__ static void grid_barrier(u32 *arrivals) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 highest = 0x80000000u, own = blockIdx.x == 0 ? highest - (gridDim.x - 1) : 1;
        cuda::atomic_ref<u32, cuda::thread_scope_device> counter(*arrivals);
        const u32 before = counter.fetch_add(own, cuda::memory_order_release);
        while (!((counter.load(cuda::memory_order_acquire) ^ before) & highest)) {}
    }
    __syncthreads();
}

__global__ void __launch_bounds__(THREADS) dag_barrier(u32 *values, u32 *arrivals) {
    for (u32 level = 0; level < LEVELS; level++) {
        if (level > 0) grid_barrier(arrivals);
        for (u32 c = warp(); c < WIDTH; c += warps()) dag_node(values, level * WIDTH + c);
    }
}

static cudaGraphExec_t instantiate(const Bench &bench, cudaGraph_t graph) {
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphUpload(exec, bench.stream));
    OK(cudaStreamSynchronize(bench.stream));
    return exec;
}

static cudaGraphExec_t graph_of_levels(const Bench &bench, u32 *values) {
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(bench.stream, cudaStreamCaptureModeThreadLocal));
    for (u32 level = 0; level < LEVELS; level++) dag_level<<<LEVEL_BLOCKS, THREADS, 0, bench.stream>>>(values, level);
    OK(cudaStreamEndCapture(bench.stream, &graph));
    return instantiate(bench, graph);
}

static cudaGraphExec_t graph_of_nodes(const Bench &bench, u32 *values) {
    cudaGraph_t graph;
    OK(cudaGraphCreate(&graph, 0));
    std::vector<cudaGraphNode_t> nodes(NODES);
    for (u32 v = 0; v < NODES; v++) {
        std::vector<cudaGraphNode_t> before;
        for (u32 j = 0; j < predecessors(v); j++) before.push_back(nodes[predecessor(v, j)]);
        void *arguments[] = {&values, &v};
        cudaKernelNodeParams kernel = {};
        kernel.func = (void *)dag_one;
        kernel.gridDim = dim3(1);
        kernel.blockDim = dim3(WARP);
        kernel.kernelParams = arguments;
        OK(cudaGraphAddKernelNode(&nodes[v], graph, before.data(), before.size(), &kernel));
    }
    return instantiate(bench, graph);
}

static Words dag_values() {
    auto values = std::make_shared<std::vector<u32>>();
    for (u32 v = 0; v < NODES; v++) {
        u32 sum = 0;
        for (u32 j = 0; j < predecessors(v); j++) sum += (*values)[predecessor(v, j)];
        values->push_back(mix(v ^ sum));
    }
    return values;
}

// The grid of the variant with barriers has a warp for each node of a level: more blocks would only wait.
static void add_dag(Bench &bench) {
    u32 *values = device_words(NODES), *arrivals = device_words(1);
    Words expected = dag_values();
    cudaGraphExec_t levels = graph_of_levels(bench, values), nodes = graph_of_nodes(bench, values);
    const u32 blocks = std::min(LEVEL_BLOCKS, bench.resident(dag_barrier));
    auto add = [&](const char *how, std::function<void()> launch) {
        bench.variants.push_back({std::string("dag: ") + how, launch, values, expected});
    };
    add("graph of levels", [=, &bench] { OK(cudaGraphLaunch(levels, bench.stream)); });
    add("graph of nodes", [=, &bench] { OK(cudaGraphLaunch(nodes, bench.stream)); });
    add("barrier between levels", [=, &bench]() mutable {
        void *arguments[] = {&values, &arrivals};
        OK(cudaLaunchCooperativeKernel((void *)dag_barrier, dim3(blocks), dim3(THREADS), arguments, 0, bench.stream));
    });
}

int main(int argc, char **argv) {
    const int repeats = argc > 1 ? atoi(argv[1]) : 0;
    if (repeats < 1) {
        fprintf(stderr, "usage: workers_bare REPEATS\n");
        return 1;
    }
    printf("note\tnvcc %d.%d\n", __CUDACC_VER_MAJOR__, __CUDACC_VER_MINOR__);
    Bench bench;
    add_mandelbrot(bench);
    add_skew(bench);
    add_dag(bench);
    for (const Variant &variant : bench.variants) warm_up(bench, variant);
    for (int round = 0; round < repeats; round++) repetition(bench);
}
