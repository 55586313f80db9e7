// mix: y[i] = hash(y[i], x[i], salt), a mixer in which order matters.
//
// Two mixes with different salts or inputs do not commute, and none is idempotent: an operation
// that ran twice, not at all or out of order leaves other bytes. The finaliser is splitmix64's
// (Steele, Lea, Flood 2014); arithmetic wraps, so host and device agree bit for bit.
//
// Covers the shorter of x and y. A grid-stride loop: any launch shape is right.
typedef unsigned long long u64;

__device__ __forceinline__ u64 finalise(u64 z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

extern "C" __global__ void mix_u64(u64 salt, const u64* x, u64 x_len, u64* y, u64 y_len) {
  const u64 len = x_len < y_len ? x_len : y_len;
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {
    const u64 key = finalise(x[i] + (salt + 1) * 0x9e3779b97f4a7c15ull);
    y[i] = finalise((y[i] ^ key) + 0x9e3779b97f4a7c15ull);
  }
}
