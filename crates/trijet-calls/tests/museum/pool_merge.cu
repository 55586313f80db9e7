// RMM (July 2026): a pool with a list of free blocks and an event for each stream. A list that takes the blocks of
// another one waited for its event, and did not record its own event again.
#include "piece.h"

struct FreeList {
    cudaStream_t stream;
    cudaEvent_t event;
    unsigned char* block;
};

static void give_back(FreeList& list, unsigned char* block) {
    DO(cudaEventRecord(list.event, list.stream));
    list.block = block;
}

static void merge(FreeList& to, FreeList& from, bool is_cured) {
    DO(cudaStreamWaitEvent(to.stream, from.event, 0));
    if (is_cured) DO(cudaEventRecord(to.event, to.stream));
    to.block = from.block;
}

static unsigned char* take(FreeList& from, cudaStream_t stream) {
    DO(cudaStreamWaitEvent(stream, from.event, 0));
    return from.block;
}

size_t piece(bool is_cured) {
    FreeList a{stream(), event(), nullptr}, b{stream(), event(), nullptr};
    cudaStream_t c = stream();
    unsigned char* block = device_memory();
    hold_back(a.stream);
    DO(cudaMemsetAsync(block, 1, BYTES, a.stream));
    give_back(a, block);
    merge(b, a, is_cured);
    unsigned char* again = take(b, c);
    DO(cudaMemsetAsync(again, 2, BYTES, c));
    return wrong_on_device(again, 2);
}
