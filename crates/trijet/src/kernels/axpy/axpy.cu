// axpy: y[i] = a * x[i] + y[i], rounded twice (built with --fmad=false), so that the host's plain
// multiply and add give the same bits.
//
// Covers the shorter of x and y. A grid-stride loop: any launch shape is right. Bound by memory.
typedef unsigned long long u64;

extern "C" __global__ void axpy_f32(float a, const float* x, u64 x_len, float* y, u64 y_len) {
  const u64 len = x_len < y_len ? x_len : y_len;
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {
    y[i] = a * x[i] + y[i];
  }
}
