// The peer of the task graphs in CUDA C++: NVIDIA CUDASTF (`cuda/experimental/stf.cuh` of cccl), and beside it the same
// graphs by hand with bare CUDA events. The argument is the number of repetitions; one more before them warms up and is
// not printed. A figure is the host's time per task, from the first submission until everything was submitted ("submit")
// and until everything is complete on the device ("drained").
//
// How CUDASTF is used: `stream_ctx` (tasks are launched at once, with streams and events), an explicit place, and the
// low-level `task`, `start()`, `end()`. The operator `->*` makes the same two calls, and besides builds a name of the task
// for NVTX and asks the scheduler's statistics. A task with a number of dependencies known only at run time is
// `ctx.task(place)` with one `add_deps` of a vector that was reserved to its size. Every repetition has a new context and
// new logical data over the same device memory, so that no task waits for one of the repetition before; the pool of
// streams lives in a handle that all contexts share. Contexts are made before the clock starts and finalized after it.
//
// What is not timed: making streams, events of the bare side and memory, and finding out which task reads what. For the
// bare side the list of waits is found before the clock as well, so its figures are those of the CUDA calls alone.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda/experimental/stf.cuh>
#include <string>
#include <utility>
#include <vector>

namespace stf = cuda::experimental::stf;

static const int EMPTY = 20000, CHAIN = 5000;
static const int WIDTH = 8, STEPS = 1000, TASKS = WIDTH * STEPS;
static const int GENERATIONS = 2, DATA = GENERATIONS * WIDTH;
static const size_t WORDS = 1024 / sizeof(uint32_t);

#define OK(call)                                                                                  \
    do {                                                                                          \
        cudaError_t code = (call);                                                                \
        if (code != cudaSuccess) {                                                                \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                         \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

static double now() {
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static bool printed = false;

// Runs `submit` and then `drain`, and prints the two figures.
template <class Submit, class Drain>
static void measure(const char *who, const char *what, int tasks, Submit submit, Drain drain) {
    double begin = now();
    submit();
    double submitted = now();
    drain();
    double drained = now();
    if (!printed) return;
    printf("%s, %s: submit\tns\t%.1f\n", who, what, (submitted - begin) / tasks);
    printf("%s, %s: drained\tns\t%.1f\n", who, what, (drained - begin) / tasks);
}

__global__ void add_one(uint32_t *element) { *element += 1; }

static void verify(const char *who, const uint32_t *element) {
    uint32_t found = 0;
    OK(cudaMemcpy(&found, element, sizeof found, cudaMemcpyDeviceToHost));
    if (found == uint32_t(CHAIN)) return;
    fprintf(stderr, "%s, kernel chain: the element is %u, not %d\n", who, found, CHAIN);
    exit(1);
}

// ---- The topologies ----

// A datum is named by its place in the array, (step % 2) * 8 + column; a task by step * 8 + column.
static int datum(int step, int column) { return step % GENERATIONS * WIDTH + column; }

struct Reads {
    int count = 0;
    int data[WIDTH];
    void add(int step, int column) { data[count++] = datum(step, column); }
};

enum Topology { TRIVIAL, STENCIL, FFT, SWEEP, TREE, RANDOM, TOPOLOGIES };
static const char *NAMES[] = {"trivial", "stencil", "fft", "sweep", "tree", "random"};

static Reads reads_of(int topology, int t, int i) {
    Reads reads;
    if (t == 0) return reads;
    switch (topology) {
    case TRIVIAL: break;
    case STENCIL:
        for (int j = i - 1; j <= i + 1; j++)
            if (j >= 0 && j < WIDTH) reads.add(t - 1, j);
        break;
    case FFT:
        reads.add(t - 1, i);
        reads.add(t - 1, i ^ (1 << (t % 3)));
        break;
    case SWEEP:
        reads.add(t - 1, i);
        if (i > 0) reads.add(t, i - 1);
        break;
    case TREE: reads.add(t - 1, i / 2); break;
    case RANDOM: {
        uint32_t bits = uint32_t(uint32_t(t * WIDTH + i) * 2654435761u) >> 24;
        for (int j = 0; j < WIDTH; j++)
            if (bits >> j & 1) reads.add(t - 1, j);
        break;
    }
    }
    return reads;
}

// ---- CUDASTF ----

struct Stf {
    stf::async_resources_handle handle;
    stf::exec_place place = stf::exec_place::device(0);
    uint32_t *memory;

    auto data(stf::stream_ctx &ctx, int index) {
        return ctx.logical_data(stf::make_slice(memory + index * WORDS, WORDS), stf::data_place::device(0));
    }

    static void drain(stf::stream_ctx &ctx) { OK(cudaStreamSynchronize(ctx.fence())); }

    void empty() {
        stf::stream_ctx ctx(handle);
        auto x = data(ctx, 0), y = data(ctx, 1);
        measure(
            "stf", "empty tasks", EMPTY,
            [&] {
                for (int k = 0; k < EMPTY; k++) {
                    auto &from = k % 2 ? y : x, &to = k % 2 ? x : y;
                    auto task = ctx.task(place, from.read(), to.rw());
                    task.start();
                    task.end();
                }
            },
            [&] { drain(ctx); });
        ctx.finalize();
    }

    void chain() {
        OK(cudaMemset(memory, 0, sizeof(uint32_t)));
        OK(cudaDeviceSynchronize());
        stf::stream_ctx ctx(handle);
        auto x = data(ctx, 0);
        measure(
            "stf", "kernel chain", CHAIN,
            [&] {
                for (int k = 0; k < CHAIN; k++) {
                    auto task = ctx.task(place, x.rw());
                    task.start();
                    add_one<<<1, 1, 0, task.get_stream()>>>(task.get<stf::slice<uint32_t>>(0).data_handle());
                    task.end();
                }
            },
            [&] { drain(ctx); });
        OK(cudaGetLastError());
        ctx.finalize();
        verify("stf", memory);
    }

    void topology(const char *name, const std::vector<Reads> &reads) {
        stf::stream_ctx ctx(handle);
        std::vector<stf::logical_data<stf::slice<uint32_t>>> all;
        for (int i = 0; i < DATA; i++) all.push_back(data(ctx, i));
        measure(
            "stf", name, TASKS,
            [&] {
                for (int k = 0; k < TASKS; k++) {
                    const Reads &read = reads[k];
                    stf::task_dep_vector_untyped deps;
                    deps.reserve(1 + read.count);
                    deps.push_back(all[datum(k / WIDTH, k % WIDTH)].write());
                    for (int r = 0; r < read.count; r++) deps.push_back(all[read.data[r]].read());
                    auto task = ctx.task(place);
                    task.add_deps(std::move(deps));
                    task.start();
                    task.end();
                }
            },
            [&] { drain(ctx); });
        ctx.finalize();
    }
};

// ---- Bare events ----

// What a task of column i does on stream i: the waits, then the record if a task of another column waits for it.
struct Plan {
    std::vector<int> waits;      // the tasks waited for, task after task
    std::vector<int> first;      // where the waits of a task begin; one entry more than tasks
    std::vector<char> recorded;  // whether the event of a task is recorded
};

// Read after write: a wait for the last writer of each datum read. Write after read: a wait for each reader, since its
// last write, of the datum written. The last writer of the datum written is of the same column, so the stream orders it,
// as it does every task of the same column. A task waits once per other column, for the latest task there.
static Plan plan_of(const std::vector<Reads> &reads) {
    Plan plan;
    plan.recorded.assign(TASKS, 0);
    std::vector<int> writer(DATA, -1);
    std::vector<std::vector<int>> readers(DATA);
    for (int k = 0; k < TASKS; k++) {
        int own = datum(k / WIDTH, k % WIDTH);
        int latest[WIDTH];
        for (int &task : latest) task = -1;
        auto wait_for = [&](int task) {
            if (task > latest[task % WIDTH]) latest[task % WIDTH] = task;
        };
        for (int r = 0; r < reads[k].count; r++) {
            int read = reads[k].data[r];
            wait_for(writer[read]);
            readers[read].push_back(k);
        }
        for (int reader : readers[own]) wait_for(reader);
        readers[own].clear();
        writer[own] = k;
        plan.first.push_back(int(plan.waits.size()));
        for (int column = 0; column < WIDTH; column++) {
            if (column == k % WIDTH || latest[column] < 0) continue;
            plan.waits.push_back(latest[column]);
            plan.recorded[latest[column]] = 1;
        }
    }
    plan.first.push_back(int(plan.waits.size()));
    return plan;
}

struct Bare {
    std::vector<cudaStream_t> streams;
    std::vector<cudaEvent_t> events;  // one per task
    uint32_t *memory;

    Bare() : streams(WIDTH), events(EMPTY > TASKS ? EMPTY : TASKS) {
        for (auto &stream : streams) OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
        for (auto &event : events) OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    }

    void drain(int count) {
        for (int i = 0; i < count; i++) OK(cudaStreamSynchronize(streams[i]));
    }

    // A task runs on the stream of the datum it updates. The task before it wrote what it reads and read what it writes.
    void empty() {
        measure(
            "bare events", "empty tasks", EMPTY,
            [&] {
                for (int k = 0; k < EMPTY; k++) {
                    cudaStream_t stream = streams[k % 2];
                    if (k > 0) OK(cudaStreamWaitEvent(stream, events[k - 1], 0));
                    OK(cudaEventRecord(events[k], stream));
                }
            },
            [&] { drain(2); });
    }

    void chain() {
        OK(cudaMemset(memory, 0, sizeof(uint32_t)));
        OK(cudaDeviceSynchronize());
        measure(
            "bare events", "kernel chain", CHAIN,
            [&] {
                for (int k = 0; k < CHAIN; k++) add_one<<<1, 1, 0, streams[0]>>>(memory);
            },
            [&] { drain(1); });
        OK(cudaGetLastError());
        verify("bare events", memory);
    }

    void topology(const char *name, const Plan &plan) {
        measure(
            "bare events", name, TASKS,
            [&] {
                for (int k = 0; k < TASKS; k++) {
                    cudaStream_t stream = streams[k % WIDTH];
                    for (int w = plan.first[k]; w < plan.first[k + 1]; w++)
                        OK(cudaStreamWaitEvent(stream, events[plan.waits[w]], 0));
                    if (plan.recorded[k]) OK(cudaEventRecord(events[k], stream));
                }
            },
            [&] { drain(WIDTH); });
    }
};

int main(int argc, char **argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : 0;
    if (repeats < 1) {
        fprintf(stderr, "usage: tasks_stf REPEATS\n");
        return 1;
    }
    if (const char *commit = getenv("CCCL_COMMIT")) printf("note\tCUDASTF of cccl %s\n", commit);

    OK(cudaSetDevice(0));
    uint32_t *memory;
    OK(cudaMalloc(&memory, DATA * WORDS * sizeof(uint32_t)));
    OK(cudaMemset(memory, 0, DATA * WORDS * sizeof(uint32_t)));

    std::vector<std::vector<Reads>> reads(TOPOLOGIES);
    std::vector<Plan> plans;
    for (int topology = 0; topology < TOPOLOGIES; topology++) {
        for (int k = 0; k < TASKS; k++) reads[topology].push_back(reads_of(topology, k / WIDTH, k % WIDTH));
        plans.push_back(plan_of(reads[topology]));
    }

    Stf runtime;
    runtime.memory = memory;
    Bare bare;
    bare.memory = memory;
    OK(cudaDeviceSynchronize());
    for (int round = 0; round <= repeats; round++) {
        printed = round > 0;
        runtime.empty();
        bare.empty();
        runtime.chain();
        bare.chain();
        for (int topology = 0; topology < TOPOLOGIES; topology++) {
            runtime.topology(NAMES[topology], reads[topology]);
            bare.topology(NAMES[topology], plans[topology]);
        }
    }
}
