/* The heap of Trijet as an allocator of device memory, for code that enqueues its work without Trijet.
 *
 * An allocation in a stream can be used by the work that is enqueued in that stream afterwards, and by work that follows it.
 * A free in a stream assumes that all earlier work of the stream may still use the memory. The same stream then gets the
 * memory again at once. Another stream gets it when the work is complete, or waits for the work.
 *
 * A stream is 0 (or cudaStreamLegacy) for the legacy default stream, or a created stream. cudaStreamPerThread is refused. A
 * stream that was used here must be forgotten before it is destroyed, because the driver may give its handle to a new one.
 *
 * A device is the number of a CUDA device, in the order in which the process sees them, or TRIJET_HOST_DEVICE.
 *
 * Functions may be called from any thread, but not in a function that the driver calls (cudaLaunchHostFunc), and not in a
 * child of fork that came after the first allocation: such a child gets an error from every call. A call that fails changes
 * nothing. The first error of each function is printed on standard error.
 */
#ifndef TRIJET_ALLOC_H
#define TRIJET_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As in the headers of CUDA. */
typedef struct CUstream_st *cudaStream_t;

/* The device of this library that runs on the processor, for tests without a GPU. Its memory is memory of the process. */
#define TRIJET_HOST_DEVICE (-1)

/* All sizes are in bytes. */
struct trijet_alloc_statistics {
    uint64_t live;          /* allocated, rounded up to whole units of the heap */
    uint64_t live_high;     /* the maximum of `live` so far */
    uint64_t reserved;      /* memory that the heap has from the device */
    uint64_t reserved_high; /* the maximum of `reserved` so far */
    uint64_t driver_calls;  /* calls that took memory from the device, recorded events or made streams wait */
    uint64_t waits;         /* the number of these calls that made a stream wait */
};

/* Allocates `size` bytes at an address that is a multiple of 256. Returns NULL for 0 bytes; if there is no memory, also after
 * a wait for all work of the device; while the stream is being captured into a graph; and for a wrong device or stream. */
void *trijet_alloc(size_t size, int device, cudaStream_t stream);

/* Frees an allocation with the size and the device that it was made with, in any stream of the device. NULL is ignored. */
void trijet_free(void *ptr, size_t size, int device, cudaStream_t stream);

/* Declares that work of another stream uses the allocation. The declaration covers all work that is enqueued in `stream`
 * before the allocation is freed. */
void trijet_record_stream(void *ptr, cudaStream_t stream);

/* Forgets a stream. Call it before the stream is destroyed, and after the frees of what was allocated in it. Returns 0, or 1
 * for an error. */
int trijet_forget_stream(int device, cudaStream_t stream);

/* Limits the memory that each heap takes from its device, also the heaps of devices that are used later. 0 is no limit. Memory
 * in use stays, but a heap above the limit does not grow. Returns 0, or 1 for an error: a device whose memory comes from a pool
 * of the driver has no limit, and its allocations fail if it is first used with one. */
int trijet_alloc_limit(uint64_t bytes);

/* Writes the statistics of a device. Returns 0, or 1 for an error. */
int trijet_alloc_stats(int device, struct trijet_alloc_statistics *out);

/* The message of the last call of this thread that failed, or NULL if none did. It is valid until another call of the thread
 * fails. */
const char *trijet_alloc_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
