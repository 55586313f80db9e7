// combine: y[i] = x[i] + y[i], or the smaller or the larger of the two. Integers wrap. A comparison with a NaN is false, so
// a NaN in y stays and one in x is ignored.
//
// Covers the shorter of x and y. A grid-stride loop: any launch shape is right. Bound by memory.
typedef unsigned long long u64;

#define COMBINE(name, type, result)                                                                 \
  extern "C" __global__ void name(const type* x, u64 x_len, type* y, u64 y_len) {                   \
    const u64 len = x_len < y_len ? x_len : y_len;                                                  \
    const u64 step = (u64)gridDim.x * blockDim.x;                                                   \
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < len; i += step) {                  \
      const type a = x[i], b = y[i];                                                                \
      y[i] = result;                                                                                \
    }                                                                                               \
  }

#define OF_EACH(suffix, type, sum)                                                                  \
  COMBINE(sum_##suffix, type, sum)                                                                  \
  COMBINE(min_##suffix, type, a < b ? a : b)                                                        \
  COMBINE(max_##suffix, type, a > b ? a : b)

OF_EACH(f32, float, a + b)
OF_EACH(i32, int, (int)((unsigned)a + (unsigned)b))
OF_EACH(u32, unsigned, a + b)
OF_EACH(i64, long long, (long long)((u64)a + (u64)b))
OF_EACH(u64, u64, a + b)
