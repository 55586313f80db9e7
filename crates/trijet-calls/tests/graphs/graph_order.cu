// Graphs whose nodes conflict, each beside its cure: `graph_order NAME`. The calls of each, recorded by
// `trijet check -o`, are the files `NAME.calls`.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

#define CHECK(call)                                                                        \
    do {                                                                                   \
        cudaError_t code = (call);                                                         \
        if (code != cudaSuccess) {                                                         \
            fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(code));                  \
            return 1;                                                                      \
        }                                                                                  \
    } while (0)

const size_t BYTES = 1 << 20;

__global__ void add(float *x, int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) x[i] += 1;
}

int main(int, char **argv) {
    const char *name = argv[1];
    const bool is_ordered = strstr(name, "ordered") != nullptr;
    char *from, *to, *last;
    cudaStream_t one, two;
    cudaEvent_t fork, join, between;
    cudaGraph_t graph;
    cudaGraphExec_t program;
    CHECK(cudaMalloc(&from, BYTES));
    CHECK(cudaMalloc(&to, BYTES));
    CHECK(cudaMalloc(&last, BYTES));
    CHECK(cudaMemset(from, 1, BYTES));
    CHECK(cudaMemset(to, 2, BYTES));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&between, cudaEventDisableTiming));
    if (strstr(name, "captured") != nullptr) {
        const bool has_kernels = strstr(name, "kernels") != nullptr;
        CHECK(cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal));
        CHECK(cudaEventRecord(fork, one));
        CHECK(cudaStreamWaitEvent(two, fork, 0));
        if (has_kernels) {
            add<<<BYTES / 1024, 256, 0, one>>>((float *)to, BYTES / 4);
        } else {
            CHECK(cudaMemcpyAsync(to, from, BYTES, cudaMemcpyDeviceToDevice, one));
        }
        CHECK(cudaEventRecord(between, one));
        if (is_ordered) CHECK(cudaStreamWaitEvent(two, between, 0));
        if (has_kernels) {
            add<<<BYTES / 1024, 256, 0, two>>>((float *)to, BYTES / 4);
        } else {
            CHECK(cudaMemcpyAsync(last, to, BYTES, cudaMemcpyDeviceToDevice, two));
        }
        CHECK(cudaEventRecord(join, two));
        CHECK(cudaStreamWaitEvent(one, join, 0));
        CHECK(cudaStreamEndCapture(one, &graph));
    } else {
        cudaGraphNode_t first, second, third;
        CHECK(cudaGraphCreate(&graph, 0));
        CHECK(cudaGraphAddMemcpyNode1D(&first, graph, nullptr, 0, to, from, BYTES, cudaMemcpyDeviceToDevice));
        CHECK(cudaGraphAddMemcpyNode1D(
            &second, graph, &first, is_ordered ? 1 : 0, last, to, BYTES, cudaMemcpyDeviceToDevice));
        cudaMemsetParams fill = {};
        fill.dst = to;
        fill.elementSize = 1;
        fill.width = BYTES;
        fill.height = 1;
        // The fill of both programs follows both copies, in the second one by a call of its own.
        const cudaGraphNode_t both[2] = {first, second};
        CHECK(cudaGraphAddMemsetNode(&third, graph, both, 1, &fill));
        CHECK(cudaGraphAddDependencies(graph, &second, &third, nullptr, 1));
    }
    CHECK(cudaGraphInstantiate(&program, graph, 0));
    for (int launch = 0; launch < 3; ++launch) CHECK(cudaGraphLaunch(program, one));
    CHECK(cudaStreamSynchronize(one));
    CHECK(cudaGraphExecDestroy(program));
    CHECK(cudaGraphDestroy(graph));
    printf("ok\n");
}
