// Planted races of kernels, each beside its cure: `kernel_races NAME` runs one, `kernel_races` lists them with what
// `trijet check --kernels` must find: 1 an error, p at least a possible conflict, 0 nothing, u a race that is not seen.
// `kernel_races.py` runs them.
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <functional>
namespace cg = cooperative_groups;

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t code = (call);                                                                                     \
        if (code != cudaSuccess) {                                                                                     \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                                              \
            exit(3);                                                                                                   \
        }                                                                                                              \
    } while (0)

static const size_t N = 1 << 20;  // floats

__global__ void fill(float *p, size_t n) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) p[i] = i;
}
__global__ void sum(const float *p, float *out, size_t n) {
    float s = 0;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) s += p[i];
    out[blockIdx.x * blockDim.x + threadIdx.x] = s;
}
__global__ void sum_constant(const float *__restrict__ p, float *out, size_t n) {
    float s = 0;
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) s += __ldg(p + i);
    out[threadIdx.x] = s;
}
__global__ void count(float *p, size_t n) {
    for (size_t i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(p + i, 1.f);
}
__global__ void load_async(const float4 *p, float *out) {
    __shared__ float4 s[256];
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[threadIdx.x]);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;\n cp.async.commit_group;\n cp.async.wait_all;" ::"r"(to), "l"(p + threadIdx.x) : "memory");
    __syncthreads();
    out[threadIdx.x] = s[255 - threadIdx.x].x;
}
__device__ unsigned shared(void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void make(uint64_t *barrier) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;\n fence.mbarrier_init.release.cluster;" ::"r"(shared(barrier)) : "memory");
}
__device__ void expect(uint64_t *barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared(barrier)), "r"(bytes) : "memory");
}
__device__ void wait(uint64_t *barrier) {
    unsigned done = 0;
    for (int i = 0; i < 1000000 && !done; i++)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(shared(barrier)) : "memory");
}
__global__ void bulk_load(const float *p, float *out) {
    __shared__ alignas(128) float s[1024];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) make(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 4096);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(shared(s)), "l"(p), "r"(4096), "r"(shared(&barrier)) : "memory");
    }
    wait(&barrier);
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void bulk_store(float *p) {
    __shared__ alignas(128) float s[1024];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::"l"(p), "r"(shared(s)), "r"(4096) : "memory");
}
__global__ void map_load(const __grid_constant__ CUtensorMap map, float *out) {
    __shared__ alignas(128) float s[32 * 32];
    __shared__ uint64_t barrier;
    if (threadIdx.x == 0) make(&barrier);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&barrier, 4096);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared(s)), "l"((uint64_t)&map), "r"(shared(&barrier)), "r"(32), "r"(64) : "memory");
    }
    wait(&barrier);
    out[threadIdx.x] = s[threadIdx.x];
}
__global__ void map_store(const __grid_constant__ CUtensorMap map) {
    __shared__ alignas(128) float s[32 * 32];
    for (int i = threadIdx.x; i < 1024; i += blockDim.x) s[i] = i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n cp.async.bulk.commit_group;\n cp.async.bulk.wait_group 0;" ::"l"((uint64_t)&map), "r"(shared(s)), "r"(32), "r"(64) : "memory");
}
__global__ void __cluster_dims__(2, 1, 1) of_cluster(float *p) {
    cg::cluster_group cluster = cg::this_cluster();
    cluster.sync();
    p[blockIdx.x * blockDim.x + threadIdx.x] = cluster.block_rank();
}
__global__ void cooperative(float *p, size_t n) {
    cg::grid_group grid = cg::this_grid();
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) p[i] = 1;
    grid.sync();
    if (i < n) p[n - 1 - i] += 2;
}
__global__ void of_texture(cudaTextureObject_t texture, float *out) { out[threadIdx.x] = tex1Dfetch<float>(texture, threadIdx.x); }
__global__ void local(float *p, int n) {
    float a[64];
    for (int i = 0; i < 64; i++) a[(i * n) & 63] = i;
    float s = 0;
    for (int i = 0; i < 64; i++) s += a[(i * 7 + n) & 63];
    p[threadIdx.x] = s;
}
__device__ float variable[4096];
__global__ void write_variable() { variable[threadIdx.x] = threadIdx.x; }
__global__ void read_variable(float *out) { out[threadIdx.x] = variable[threadIdx.x]; }

static cudaStream_t s1, s2, blocking1, blocking2;
static cudaEvent_t event;
static float *A, *O1, *O2, *H;
static CUtensorMap map;

static void W(cudaStream_t s, float *p = A, size_t n = N) { fill<<<256, 256, 0, s>>>(p, n); }
static void R(cudaStream_t s, const float *p = A, size_t n = N, float *out = O1) { sum<<<16, 256, 0, s>>>(p, out, n); }
static void order(cudaStream_t from, cudaStream_t to) {
    CHECK(cudaEventRecord(event, from));
    CHECK(cudaStreamWaitEvent(to, event, 0));
}
static void launch_cooperative(float *p, cudaStream_t s) {
    size_t n = 16384;
    void *arguments[] = {&p, &n};
    CHECK(cudaLaunchCooperativeKernel((void *)cooperative, dim3(64), dim3(256), arguments, 0, s));
}
static void make_map() {
    typedef CUresult (*Encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *, const cuuint32_t *,
                               const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    Encode encode = (Encode)dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled");
    cuuint64_t size[2] = {1024, 1024}, stride[1] = {4096};
    cuuint32_t box[2] = {32, 32}, step[2] = {1, 1};
    if (!encode || encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, A, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                          CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
        exit(4);
}
static cudaTextureObject_t texture() {
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = A;
    resource.res.linear.desc = cudaCreateChannelDesc<float>();
    resource.res.linear.sizeInBytes = 65536;
    cudaTextureDesc how = {};
    cudaTextureObject_t made;
    CHECK(cudaCreateTextureObject(&made, &resource, &how, nullptr));
    return made;
}
static cudaGraphExec_t graph() {
    cudaGraph_t captured;
    cudaGraphExec_t program;
    CHECK(cudaStreamBeginCapture(s1, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(O2, 0, 4096, s1));
    W(s1, A, N / 2);
    W(s1, A + N / 2, N / 2);
    CHECK(cudaStreamEndCapture(s1, &captured));
    CHECK(cudaGraphInstantiate(&program, captured, 0));
    return program;
}
static float *allocate(cudaStream_t s) {
    float *p;
    CHECK(cudaMallocAsync(&p, 1 << 20, s));
    return p;
}

struct Scenario {
    const char *name, *expected;
    std::function<void()> run;
};

static const size_t PART = 1 << 18;
static const Scenario SCENARIOS[] = {
    {"missing_event", "1", [] { W(s1); R(s2); }},
    {"with_event", "0", [] { W(s1); order(s1, s2); R(s2); }},
    {"event_too_early", "1", [] { CHECK(cudaEventRecord(event, s1)); W(s1); CHECK(cudaStreamWaitEvent(s2, event, 0)); R(s2); }},
    {"war_missing", "1", [] { R(s1); W(s2); }},
    {"war_event", "0", [] { R(s1); order(s1, s2); W(s2); }},
    {"waw_missing", "1", [] { W(s1); W(s2); }},
    {"atomics_two_streams", "1", [] { count<<<1, 256, 0, s1>>>(A, 1024); count<<<1, 256, 0, s2>>>(A, 1024); }},
    {"constant_load_missing", "1", [] { W(s1, A, 4096); sum_constant<<<1, 256, 0, s2>>>(A, O1, 4096); }},
    {"async_load_missing", "1", [] { W(s1, A, 4096); load_async<<<1, 256, 0, s2>>>((const float4 *)A, O1); }},
    {"disjoint_halves", "0", [] { W(s1, A, N / 2); W(s2, A + N / 2, N / 2); }},
    {"neighbours", "0", [] { W(s1, A, 64); W(s2, A + 64, 64); }},
    {"one_granule", "p", [] { W(s1, A, 1000); W(s2, A + 1000, 1000); }},
    {"stream_sync", "0", [] { W(s1); CHECK(cudaStreamSynchronize(s1)); R(s2); }},
    {"event_sync", "0", [] { W(s1); CHECK(cudaEventRecord(event, s1)); CHECK(cudaEventSynchronize(event)); R(s2); }},
    {"event_query", "0", [] { W(s1); CHECK(cudaEventRecord(event, s1)); while (cudaEventQuery(event) == cudaErrorNotReady) {} R(s2); }},
    {"stream_query", "0", [] { W(s1); while (cudaStreamQuery(s1) == cudaErrorNotReady) {} R(s2); }},
    {"legacy_nonblocking", "1", [] { W(0); R(s1); }},
    {"legacy_blocking", "0", [] { W(0); R(blocking1); W(0); }},
    {"two_blocking", "1", [] { W(blocking1); R(blocking2); }},
    {"upload_missing", "1", [] { CHECK(cudaMemcpyAsync(A, H, 1 << 20, cudaMemcpyHostToDevice, s1)); R(s2); }},
    {"upload_event", "0", [] { CHECK(cudaMemcpyAsync(A, H, 1 << 20, cudaMemcpyHostToDevice, s1)); order(s1, s2); R(s2); }},
    {"copy_missing", "1", [] { W(s1); CHECK(cudaMemcpyAsync(O2, A, 4096, cudaMemcpyDeviceToDevice, s2)); }},
    {"download_sync", "0", [] { W(s1); CHECK(cudaStreamSynchronize(s1)); CHECK(cudaMemcpy(H, A, 4096, cudaMemcpyDeviceToHost)); W(s2); }},
    {"fill_missing", "1", [] { CHECK(cudaMemsetAsync(A, 0, 4096, s1)); R(s2); }},
    // Memory without an allocation that is known.
    {"module_variable", "p", [] { write_variable<<<1, 256, 0, s1>>>(); read_variable<<<1, 256, 0, s2>>>(O1); }},
    {"local_memory", "0", [] { local<<<64, 256, 0, s1>>>(O1, 1); local<<<64, 256, 0, s2>>>(O2, 1); }},
    {"host_mapped", "1", [] { W(s1, H, 4096); R(s2, H, 4096); }},
    {"host_function", "0", [] { W(s1); CHECK(cudaLaunchHostFunc(s1, [](void *) {}, nullptr)); order(s1, s2); R(s2); }},
    {"pool_free_unordered", "1", [] { float *p = allocate(s1); W(s1, p, PART); CHECK(cudaFreeAsync(p, s2)); }},
    {"pool_free_ordered", "0", [] { float *p = allocate(s1); W(s1, p, PART); order(s1, s2); CHECK(cudaFreeAsync(p, s2)); }},
    {"pool_use_before", "1", [] { float *p = allocate(s1); W(s2, p, PART); order(s2, s1); CHECK(cudaFreeAsync(p, s1)); }},
    {"pool_reuse", "0", [] { float *p = allocate(s1); W(s1, p, PART); CHECK(cudaFreeAsync(p, s1)); float *q = allocate(s1); W(s1, q, PART); CHECK(cudaFreeAsync(q, s1)); }},
    {"pool_reuse_other", "0", [] { float *p = allocate(s1); W(s1, p, PART); CHECK(cudaFreeAsync(p, s1)); float *q = allocate(s2); W(s2, q, PART); CHECK(cudaFreeAsync(q, s2)); }},
    {"bulk_load_missing", "1", [] { W(s1, A, 4096); bulk_load<<<1, 256, 0, s2>>>(A, O1); }},
    {"bulk_store_missing", "1", [] { bulk_store<<<1, 256, 0, s1>>>(A); R(s2, A, 1024); }},
    {"map_load_missing", "p", [] { make_map(); W(s1); map_load<<<1, 256, 0, s2>>>(map, O1); }},
    {"map_store_missing", "p", [] { make_map(); map_store<<<1, 256, 0, s1>>>(map); R(s2); }},
    {"map_ordered", "0", [] { make_map(); W(s1); order(s1, s2); map_load<<<1, 256, 0, s2>>>(map, O1); }},
    {"cluster_missing", "1", [] { of_cluster<<<16, 256, 0, s1>>>(A); R(s2, A, 4096); }},
    {"cooperative_missing", "1", [] { launch_cooperative(A, s1); R(s2, A, 16384); }},
    // The barrier of the grid is memory of the driver, in one granule for both.
    {"cooperative_two", "p", [] { launch_cooperative(O1, s1); launch_cooperative(O2, s2); }},
    {"texture_missing", "u", [] { cudaTextureObject_t t = texture(); W(s1, A, 4096); of_texture<<<1, 256, 0, s2>>>(t, O1); }},
    {"graph_missing", "1", [] { cudaGraphExec_t x = graph(); CHECK(cudaGraphLaunch(x, s1)); R(s2); }},
    {"graph_missing_again", "1", [] { cudaGraphExec_t x = graph(); CHECK(cudaGraphLaunch(x, s1)); order(s1, s2); R(s2); order(s2, s1); CHECK(cudaGraphLaunch(x, s1)); R(s2, A + N / 2, 1024); }},
    {"graph_event", "0", [] { cudaGraphExec_t x = graph(); CHECK(cudaGraphLaunch(x, s1)); order(s1, s2); R(s2); }},
    {"graph_twice", "0", [] { cudaGraphExec_t x = graph(); CHECK(cudaGraphLaunch(x, s1)); CHECK(cudaGraphLaunch(x, s1)); }},
    // 3000 launches, more than a table takes, with one race among them.
    {"one_of_many", "1", [] { for (int i = 0; i < 3000; i++) { W(s1, A, 4096); if (i != 2000) order(s1, s2); R(s2, A, 4096); order(s2, s1); } }},
};

int main(int count, char **arguments) {
    if (count < 2) {
        for (const Scenario &one : SCENARIOS) printf("%s %s\n", one.name, one.expected);
        return 0;
    }
    CHECK(cudaFree(0));
    CHECK(cudaStreamCreateWithFlags(&s1, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&s2, cudaStreamNonBlocking));
    CHECK(cudaStreamCreate(&blocking1));
    CHECK(cudaStreamCreate(&blocking2));
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    CHECK(cudaMalloc(&A, N * 4));
    CHECK(cudaMalloc(&O1, 1 << 20));
    CHECK(cudaMalloc(&O2, 1 << 20));
    CHECK(cudaMemset(A, 0, N * 4));
    CHECK(cudaMemset(O1, 0, 1 << 20));
    CHECK(cudaMemset(O2, 0, 1 << 20));
    CHECK(cudaMallocHost(&H, 1 << 20));
    memset(H, 0, 1 << 20);
    CHECK(cudaDeviceSynchronize());
    for (const Scenario &one : SCENARIOS)
        if (!strcmp(one.name, arguments[1])) {
            one.run();
            CHECK(cudaGetLastError());
            CHECK(cudaDeviceSynchronize());
            return 0;
        }
    return 2;
}
