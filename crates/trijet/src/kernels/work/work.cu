// work: y[i] = `rounds` rounds of an integer hash of x[i]; zero rounds make a copy.
//
// The dial between a kernel bound by memory and one bound by arithmetic: each round is about eight
// dependent integer instructions (xorshift32, Marsaglia 2003, then an odd multiply and an add) and
// no memory traffic. The chain cannot be shortened by the compiler.
//
// Covers the shorter of x and y. A grid-stride loop: any launch shape is right.
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void work_u32(u32 rounds, const u32* x, u64 x_len, u32* y, u64 y_len) {
  const u64 len = x_len < y_len ? x_len : y_len;
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {
    u32 v = x[i];
    for (u32 k = 0; k < rounds; ++k) {
      v ^= v << 13;
      v ^= v >> 17;
      v ^= v << 5;
      v = v * 0x9e3779b1u + 0x7f4a7c15u;
    }
    y[i] = v;
  }
}
