// affine: y[i] = scale * x[i] + offset in f32, rounded twice (built with --fmad=false).
//
// Integer elements: the f32 result is rounded to the nearest integer, ties to even, then held to
// the element's range; NaN gives 0. The comparisons are written so that NaN fails the first one.
//
// Covers the shorter of x and y. A grid-stride loop: any launch shape is right. Bound by memory.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned long long u64;

template <typename T> __device__ __forceinline__ T narrow(float v);
template <> __device__ __forceinline__ float narrow<float>(float v) { return v; }
template <> __device__ __forceinline__ u8 narrow<u8>(float v) {
  return v > 0.0f ? (u8)(v < 255.0f ? rintf(v) : 255.0f) : (u8)0;
}
template <> __device__ __forceinline__ u16 narrow<u16>(float v) {
  return v > 0.0f ? (u16)(v < 65535.0f ? rintf(v) : 65535.0f) : (u16)0;
}

template <typename T>
__device__ __forceinline__ void affine(float scale, float offset, const T* x, u64 x_len, T* y,
                                       u64 y_len) {
  const u64 len = x_len < y_len ? x_len : y_len;
  const u64 step = (u64)gridDim.x * blockDim.x;
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {
    y[i] = narrow<T>(scale * (float)x[i] + offset);
  }
}

extern "C" __global__ void affine_u8(float scale, float offset, const u8* x, u64 x_len, u8* y,
                                     u64 y_len) {
  affine<u8>(scale, offset, x, x_len, y, y_len);
}

extern "C" __global__ void affine_u16(float scale, float offset, const u16* x, u64 x_len, u16* y,
                                      u64 y_len) {
  affine<u16>(scale, offset, x, x_len, y, y_len);
}

extern "C" __global__ void affine_f32(float scale, float offset, const float* x, u64 x_len,
                                      float* y, u64 y_len) {
  affine<float>(scale, offset, x, x_len, y, y_len);
}
