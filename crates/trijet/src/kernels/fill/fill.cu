// fill: y[i] = value.
//
// A grid-stride loop: any launch shape writes every element exactly once, and no index passes
// y_len. Bound by stores.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

__device__ __forceinline__ u64 first_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 index_step() { return (u64)gridDim.x * blockDim.x; }

extern "C" __global__ void fill_f32(float value, float* y, u64 y_len) {
  for (u64 i = first_index(); i < y_len; i += index_step()) y[i] = value;
}

extern "C" __global__ void fill_u8(u8 value, u8* y, u64 y_len) {
  for (u64 i = first_index(); i < y_len; i += index_step()) y[i] = value;
}

extern "C" __global__ void fill_u32(u32 value, u32* y, u64 y_len) {
  for (u64 i = first_index(); i < y_len; i += index_step()) y[i] = value;
}

extern "C" __global__ void fill_u16(u16 value, u16* y, u64 y_len) {
  for (u64 i = first_index(); i < y_len; i += index_step()) y[i] = value;
}

extern "C" __global__ void fill_u64(u64 value, u64* y, u64 y_len) {
  for (u64 i = first_index(); i < y_len; i += index_step()) y[i] = value;
}
