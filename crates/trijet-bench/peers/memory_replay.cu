// The peer of the replay of traces of allocations, in CUDA C++: other allocators get the same calls in the same order,
// on the same streams and from as many threads. Each run has a fresh allocator. The arguments are TRACE NAME ALLOCATORS
// REPEATS LIMIT_BYTES, where a limit of 0 is none, or `graphs COUNT` for graphs with memory nodes.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cub/util_allocator.cuh>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <sstream>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>
#ifdef WITH_RMM
#include <rmm/mr/arena_memory_resource.hpp>
#include <rmm/mr/cuda_memory_resource.hpp>
#include <rmm/mr/pool_memory_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#endif

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t result = (call);                                                              \
        if (result != cudaSuccess) {                                                              \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(result));                       \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

enum Action { ALLOCATE, FREE, USE, FOLLOW, SYNCHRONIZE, LEFT_OUT };
using Names = std::map<std::string, int>;
static const Names ACTIONS = {{"allocate", ALLOCATE}, {"allocate failure", LEFT_OUT}, {"free", FREE},
                              {"deallocate", FREE},   {"deallocate failure", LEFT_OUT}, {"use", USE},
                              {"follow", FOLLOW},     {"synchronize", SYNCHRONIZE}};

// `slot` is the number of the allocation. At each slot or stream that several threads use, a row waits for its turn: as
// many rows have to be done with it as come before in the trace.
struct Row {
    int action, thread, slot, stream, other;
    uint64_t bytes, ns;
    int turns, objects[2];
    unsigned before[2];
};

struct Trace {
    std::vector<Row> rows;
    size_t slots, streams, threads;
    uint64_t peak = 0;
};

static std::vector<std::string> cells_of(const std::string &line) {
    std::vector<std::string> cells;
    std::stringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) {
        size_t from = std::min(cell.find_first_not_of(" \t\r"), cell.size());
        cells.push_back(cell.substr(from, cell.find_last_not_of(" \t\r") + 1 - from));
    }
    return cells;
}

static Trace read_trace(const char *path) {
    Names columns, threads, streams;
    std::ifstream file(path);
    std::string line;
    std::vector<std::string> cells;
    std::vector<uint64_t> sizes;
    std::unordered_map<uint64_t, int> live;
    Trace trace;
    uint64_t bytes = 0;
    int at = 0;
    auto refuse = [&](const char *cause) {
        fprintf(stderr, "%s, line %d: %s\n", path, at + 1, cause);
        exit(1);
    };
    auto cell = [&](const char *name) {
        auto column = columns.find(name);
        return column == columns.end() || column->second >= (int)cells.size() ? "" : cells[column->second];
    };
    auto number = [&](const char *name) {
        std::string text = cell(name);
        return strtoull(text.c_str(), nullptr, text.compare(0, 2, "0x") == 0 ? 16 : 10);
    };
    auto index = [&](Names &names, const char *name) {
        return names.emplace(cell(name), (int)names.size()).first->second;
    };
    for (; std::getline(file, line); at++) {
        cells = cells_of(line);
        for (size_t i = 0; at == 0 && i < cells.size(); i++) {
            std::transform(cells[i].begin(), cells[i].end(), cells[i].begin(), ::tolower);
            columns[cells[i]] = (int)i;
        }
        if (at == 0 || cells.empty()) continue;
        auto action = ACTIONS.find(cell("action"));
        if (action == ACTIONS.end()) refuse("the action is unknown");
        if (action->second == LEFT_OUT) continue;
        Row row = {};
        row.action = action->second;
        row.thread = index(threads, "thread");
        row.stream = row.other = index(streams, "stream");
        if (row.action == FOLLOW) row.other = index(streams, "other");
        if (row.action < FOLLOW) {
            uint64_t pointer = number("pointer");
            if (row.action == ALLOCATE && !live.emplace(pointer, (int)sizes.size()).second) refuse("it is allocated");
            if (row.action == ALLOCATE) sizes.push_back(number("size"));
            if (live.count(pointer) == 0) refuse("it is not allocated");
            row.slot = live[pointer];
            row.bytes = sizes[row.slot];
            row.ns = row.action == USE ? number("nanos") : 0;
            if (row.action == ALLOCATE) trace.peak = std::max(trace.peak, bytes += row.bytes);
            if (row.action == FREE) bytes -= row.bytes;
            if (row.action == FREE) live.erase(pointer);
        }
        trace.rows.push_back(row);
    }
    if (trace.rows.empty()) refuse("there are no calls");
    trace.slots = sizes.size(), trace.streams = streams.size(), trace.threads = threads.size();
    std::vector<int> user(trace.slots + trace.streams, -1);
    std::vector<unsigned> before(user.size(), 0);
    std::vector<bool> is_common(user.size(), false);
    auto objects = [&](const Row &row) {
        std::vector<int> objects = {(int)trace.slots + row.stream};
        if (row.action < FOLLOW) objects.push_back(row.slot);
        if (row.other != row.stream) objects.push_back((int)trace.slots + row.other);
        return objects;
    };
    for (auto &row : trace.rows)
        for (int object : objects(row)) {
            is_common[object] = is_common[object] || (user[object] >= 0 && user[object] != row.thread);
            user[object] = row.thread;
        }
    for (auto &row : trace.rows)
        for (int object : objects(row)) {
            if (!is_common[object]) continue;
            row.before[row.turns] = before[object]++;
            row.objects[row.turns++] = object;
        }
    return trace;
}

static std::vector<cudaStream_t> streams;
static std::vector<cudaEvent_t> events;
static unsigned *errors;
static double clock_ns = INFINITY;

static void follow(int stream, int other) {
    OK(cudaEventRecord(events[other], streams[other]));
    OK(cudaStreamWaitEvent(streams[stream], events[other], 0));
}

struct Slot {
    char *memory;
    uint64_t bytes;
    int stream;
    bool is_used;
};

// `held` is called after each allocation, for allocators that do not know their peak themselves.
struct Allocator {
    std::atomic<uint64_t> peak{0};
    virtual ~Allocator() = default;
    virtual cudaError_t allocate(void **memory, uint64_t bytes, int stream) = 0;
    virtual void release(const Slot &slot, int stream) = 0;
    virtual uint64_t held() { return 0; }
    virtual uint64_t peak_held() { return peak; }
};

struct Plain : Allocator {
    std::atomic<uint64_t> live{0};
    cudaError_t allocate(void **memory, uint64_t bytes, int) override {
        cudaError_t code = cudaMalloc(memory, bytes);
        if (code == cudaSuccess) live += bytes;
        return code;
    }
    void release(const Slot &slot, int) override {
        live -= slot.bytes;
        OK(cudaFree(slot.memory));
    }
    uint64_t held() override { return live; }
};

struct Pool : Allocator {
    cudaMemPool_t pool;
    Pool(uint64_t limit, uint64_t kept) {
        cudaMemPoolProps props = {};
        props.allocType = cudaMemAllocationTypePinned;
        props.location.type = cudaMemLocationTypeDevice;
        props.maxSize = limit;
        OK(cudaMemPoolCreate(&pool, &props));
        OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept));
    }
    ~Pool() override { OK(cudaMemPoolDestroy(pool)); }
    cudaError_t allocate(void **memory, uint64_t bytes, int stream) override {
        return cudaMallocFromPoolAsync(memory, bytes, pool, streams[stream]);
    }
    void release(const Slot &slot, int stream) override { OK(cudaFreeAsync(slot.memory, streams[stream])); }
    uint64_t peak_held() override {
        uint64_t bytes;
        OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &bytes));
        return bytes;
    }
};

struct Cub : Allocator {
    cub::CachingDeviceAllocator cache{8, 3, 9, size_t(64) << 30};
    cudaError_t allocate(void **memory, uint64_t bytes, int stream) override {
        return cache.DeviceAllocate(memory, bytes, streams[stream]);
    }
    // It takes memory back in the stream of the allocation, so that one has to follow the stream of the free.
    void release(const Slot &slot, int stream) override {
        if (stream != slot.stream) follow(slot.stream, stream);
        OK(cache.DeviceFree(slot.memory));
    }
    uint64_t held() override {
        std::lock_guard<std::mutex> lock(cache.mutex);
        return cache.cached_bytes[0].live + cache.cached_bytes[0].free;
    }
};

#ifdef WITH_RMM
template <typename Resource> struct Rmm : Allocator {
    rmm::mr::statistics_resource_adaptor device{rmm::mr::cuda_memory_resource{}};
    Resource resource;
    template <typename... Sizes> explicit Rmm(Sizes... sizes) : resource(device, sizes...) {}
    cudaError_t allocate(void **memory, uint64_t bytes, int stream) override {
        try {
            *memory = resource.allocate(cuda::stream_ref{streams[stream]}, bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
        } catch (const std::bad_alloc &) {
            return cudaErrorMemoryAllocation;
        }
        return cudaSuccess;
    }
    void release(const Slot &slot, int stream) override {
        cuda::stream_ref on{streams[stream]};
        resource.deallocate(on, slot.memory, slot.bytes, rmm::CUDA_ALLOCATION_ALIGNMENT);
    }
    uint64_t peak_held() override { return (uint64_t)device.get_bytes_counter().peak; }
};
#endif

// Null for an allocator that is not compiled in, and under a limit for one that has none.
static std::unique_ptr<Allocator> make(const std::string &who, uint64_t limit) {
    if (who == "cudaMalloc") return limit ? nullptr : std::make_unique<Plain>();
    if (who == "cudaMallocAsync 0") return std::make_unique<Pool>(limit, 0);
    if (who == "cudaMallocAsync") return std::make_unique<Pool>(limit, UINT64_MAX);
    if (who == "cub") return limit ? nullptr : std::make_unique<Cub>();
#ifdef WITH_RMM
    // The pool begins small, so its growth is in the times. The arena takes all its memory when it is made: the limit,
    // or half of what is free, which is the rule of rmm.
    auto most = limit ? std::optional<size_t>(limit / 256 * 256) : std::nullopt;
    if (who == "rmm pool") return std::make_unique<Rmm<rmm::mr::pool_memory_resource>>(size_t(1) << 20, most);
    if (who == "rmm arena") return std::make_unique<Rmm<rmm::mr::arena_memory_resource>>(most);
#endif
    if (who == "rmm pool" || who == "rmm arena") return nullptr;
    fprintf(stderr, "`%s` is not an allocator\n", who.c_str());
    exit(1);
}

// From its first kernel on, the first and the last word of a block have the number of the allocation. A kernel that
// finds another one, at its begin or at its end, counts that: another owner wrote the memory.
__global__ void use(char *block, uint64_t bytes, uint32_t tag, bool is_first, uint64_t ns, unsigned *errors) {
    if (threadIdx.x != 0) return;
    auto clock = [] {
        uint64_t ns;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
        return ns;
    };
    uint64_t begin = clock(), last = bytes / 4 - 1;
    volatile uint32_t *words = (uint32_t *)block;
    auto differs = [&] { return bytes >= 8 && (words[0] != tag || words[last] != tag); };
    bool wrong = !is_first && differs();
    if (is_first && bytes >= 8) {
        words[0] = tag;
        words[last] = tag;
    }
    while (clock() - begin < ns) {
    }
    if (differs() || wrong) atomicAdd(errors, 1);
}

struct Run {
    Allocator &allocator;
    std::vector<Slot> slots;
    std::vector<std::atomic<unsigned>> done;
    // The nanoseconds of each allocation and free; infinite for one that failed.
    std::vector<double> took;
};

static void replay(const Trace &trace, int thread, Run &run) {
    OK(cudaSetDevice(0));
    for (size_t at = 0; at < trace.rows.size(); at++) {
        const Row &row = trace.rows[at];
        if (row.thread != thread) continue;
        for (int i = 0; i < row.turns; i++)
            while (run.done[row.objects[i]].load(std::memory_order_acquire) != row.before[i]) std::this_thread::yield();
        Slot *slot = row.action < FOLLOW ? &run.slots[row.slot] : nullptr;
        auto timed = [&](double begin) { run.took[at] = std::max(0.0, now() - begin - clock_ns); };
        if (row.action == ALLOCATE) {
            void *memory = nullptr;
            double begin = now();
            // Not every allocator takes a size of 0.
            cudaError_t code = row.bytes ? run.allocator.allocate(&memory, row.bytes, row.stream) : cudaSuccess;
            timed(begin);
            if (code == cudaErrorMemoryAllocation) {
                cudaGetLastError();
                run.took[at] = INFINITY;
            } else {
                OK(code);
                *slot = {(char *)memory, row.bytes, row.stream, false};
            }
            uint64_t held = run.allocator.held(), peak = run.allocator.peak;
            while (peak < held && !run.allocator.peak.compare_exchange_weak(peak, held)) continue;
        } else if (row.action == FREE && slot->memory) {
            double begin = now();
            run.allocator.release(*slot, row.stream);
            timed(begin);
            slot->memory = nullptr;
        } else if (row.action == USE && slot->memory) {
            auto stream = streams[row.stream];
            use<<<1, 32, 0, stream>>>(slot->memory, row.bytes, row.slot + 1, !slot->is_used, row.ns, errors);
            OK(cudaGetLastError());
            slot->is_used = true;
        } else if (row.action == FOLLOW) {
            follow(row.stream, row.other);
        } else if (row.action == SYNCHRONIZE) {
            OK(cudaStreamSynchronize(streams[row.stream]));
        }
        for (int i = 0; i < row.turns; i++) run.done[row.objects[i]].fetch_add(1, std::memory_order_release);
    }
}

static void measure(const std::string &name, const Trace &trace, Allocator &allocator) {
    Run run = {allocator, std::vector<Slot>(trace.slots),
               std::vector<std::atomic<unsigned>>(trace.slots + trace.streams),
               std::vector<double>(trace.rows.size(), NAN)};
    std::vector<std::thread> threads;
    double begin = now();
    for (size_t i = 1; i < trace.threads; i++) threads.emplace_back([&, i] { replay(trace, (int)i, run); });
    replay(trace, 0, run);
    for (auto &thread : threads) thread.join();
    OK(cudaDeviceSynchronize());
    double whole = now() - begin;
    for (auto &slot : run.slots)
        if (slot.memory) allocator.release(slot, slot.stream);
    unsigned wrong;
    OK(cudaMemcpy(&wrong, errors, sizeof wrong, cudaMemcpyDefault));
    if (wrong) {
        fprintf(stderr, "%s: %u kernels found that another owner wrote their memory\n", name.c_str(), wrong);
        exit(1);
    }
    std::vector<double> allocations, frees;
    long failed = 0;
    for (size_t at = 0; at < trace.rows.size(); at++) {
        double ns = run.took[at];
        failed += std::isinf(ns);
        if (std::isfinite(ns)) (trace.rows[at].action == FREE ? frees : allocations).push_back(ns);
    }
    std::sort(allocations.begin(), allocations.end());
    auto mean = [](const std::vector<double> &ns) { return std::accumulate(ns.begin(), ns.end(), 0.0) / ns.size(); };
    auto figure = [&](const char *what, const char *unit, double value) {
        if (std::isfinite(value)) printf("%s: %s\t%s\t%.3f\n", name.c_str(), what, unit, value);
    };
    figure("each allocation", "ns", mean(allocations));
    if (!allocations.empty())
        figure("each allocation, 99.9 %", "ns", allocations[size_t(0.999 * (allocations.size() - 1) + 0.5)]);
    figure("each free", "ns", mean(frees));
    figure("whole run", "ms", whole / 1e6);
    figure("peak held over peak live", "ratio", (double)allocator.peak_held() / trace.peak);
    figure("failed allocations", "calls", failed);
}

__global__ void touch(int *memory) { *memory = 0; }

static void graphs(int count) {
    const int STEPS = 8, LAUNCHES = 100;
    std::vector<cudaGraphExec_t> execs(count);
    cudaStream_t stream;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    double instantiation = 0, begin = 0;
    for (auto &exec : execs) {
        int *memory[STEPS];
        cudaGraph_t graph;
        OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        for (int step = 0; step < STEPS; step++) {
            OK(cudaMallocAsync(&memory[step], 4 << 20, stream));
            touch<<<1, 1, 0, stream>>>(memory[step]);
            OK(cudaGetLastError());
            if (step > 0) OK(cudaFreeAsync(memory[step - 1], stream));
        }
        OK(cudaFreeAsync(memory[STEPS - 1], stream));
        OK(cudaStreamEndCapture(stream, &graph));
        begin = now();
        OK(cudaGraphInstantiate(&exec, graph, 0));
        instantiation += now() - begin;
    }
    // The first launches take the memory from the device, and are not in the mean.
    for (int launch = 0; launch <= LAUNCHES; launch++) {
        for (auto &exec : execs) OK(cudaGraphLaunch(exec, stream));
        if (launch > 0) continue;
        OK(cudaStreamSynchronize(stream));
        begin = now();
    }
    OK(cudaStreamSynchronize(stream));
    double each = (now() - begin) / LAUNCHES / count;
    uint64_t held;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemHigh, &held));
    printf("%d graphs, memory nodes: replay of a graph\tus\t%.3f\n", count, each / 1e3);
    printf("%d graphs, memory nodes: held\tMiB\t%.3f\n", count, held / 1048576.0);
    printf("%d graphs, memory nodes: instantiation\tus\t%.3f\n", count, instantiation / count / 1e3);
}

int main(int argc, char **argv) {
    if (argc == 3 && std::string(argv[1]) == "graphs") {
        graphs(atoi(argv[2]));
        return 0;
    }
    if (argc != 6) return 2;
    Trace trace = read_trace(argv[1]);
    streams.resize(trace.streams);
    events.resize(trace.streams);
    for (auto &stream : streams) OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto &event : events) OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    OK(cudaMalloc(&errors, sizeof *errors));
    OK(cudaMemset(errors, 0, sizeof *errors));
    for (int look = 0; look < 1000; look++) {
        double begin = now();
        clock_ns = std::min(clock_ns, now() - begin);
    }
    // Before the first round, each stream and each allocator is used once.
    for (auto &stream : streams) use<<<1, 32, 0, stream>>>(nullptr, 0, 0, true, 0, errors);
    OK(cudaGetLastError());
    for (int round = -1; round < atoi(argv[4]); round++)
        for (auto &who : cells_of(argv[3])) {
            OK(cudaDeviceSynchronize());
            auto allocator = make(who, strtoull(argv[5], nullptr, 10));
            if (!allocator) continue;
            Slot warm = {nullptr, 4096, 0, false};
            if (round >= 0) {
                measure(std::string(argv[2]) + ", " + who, trace, *allocator);
            } else {
                OK(allocator->allocate((void **)&warm.memory, warm.bytes, 0));
                allocator->release(warm, 0);
            }
            OK(cudaDeviceSynchronize());
        }
}
