// dependent: a producer and a consumer for dependent launches (programmatic dependent launch).
//
// target: sm_90
//
// `launch_dependents` lets the next kernel of the stream begin when all blocks have executed it or have
// ended. It hands over no data, so it may come first, before anything is written. The data come with
// the `wait` of the next kernel, which lasts until the kernel before it has completed and its writes are
// visible. What needs no memory of other kernels stands before the wait, and so it overlaps.
//
// Also the producer waits: an earlier kernel may still read what it overwrites. And since each kernel waits for
// the one before it, it waits for all of them.
//
// The consumer reads from the other end, so that its blocks need what other blocks have written. Both are
// grid-stride loops: any number of blocks and threads in x is right.
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

DEV void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEV void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Rounds of xorshift32 and an odd multiply.
DEV u32 hashed(u32 rounds, u32 v) {
  for (u32 round = 0; round < rounds; ++round) {
    v ^= v << 13;
    v ^= v >> 17;
    v ^= v << 5;
    v = v * 0x9e3779b1u + 0x7f4a7c15u;
  }
  return v;
}

// y[i] is the hash of seed + i.
extern "C" __global__ void dependent_produce_u32(u32 seed, u32 rounds, u32 early, u32* y, u64 y_len) {
  if (early) launch_dependents();
  wait_for_predecessor();
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < y_len; i += step) {
    y[i] = hashed(rounds, seed + (u32)i);
  }
  if (!early) launch_dependents();
}

// y[i] is one round of the hash over x[len - 1 - i] ^ key, where the key is the hash of salt.
extern "C" __global__ void dependent_consume_u32(u32 salt, u32 rounds, u32 early, const u32* x, u64 x_len,
                                                 u32* y, u64 y_len) {
  if (early) launch_dependents();
  u32 key = hashed(rounds, salt);
  asm volatile("" : "+r"(key));  // here, and not after the wait
  wait_for_predecessor();
  const u64 len = x_len < y_len ? x_len : y_len;
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {
    y[i] = hashed(1, x[len - 1 - i] ^ key);
  }
  if (!early) launch_dependents();
}
