// combine: y[i] = x[i] + y[i], or the smaller or the larger of the two. Integers wrap. Of floating-point numbers these are
// minimum and maximum of IEEE 754-2019: a NaN in x or y gives the canonical NaN, and -0 is less than 0.
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

#define OF_INTEGERS(suffix, type, sum)                                                              \
  COMBINE(sum_##suffix, type, sum)                                                                  \
  COMBINE(min_##suffix, type, a < b ? a : b)                                                        \
  COMBINE(max_##suffix, type, a > b ? a : b)

// PTX ISA, `min` and `max`: with .NaN a NaN of either side gives 0x7fffffff, and +0 is greater than -0.
static __device__ __forceinline__ float least(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

static __device__ __forceinline__ float most(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}

// bf16: computed in single precision and rounded to the nearest, ties to even. Eight elements at a time where both pointers
// are aligned to 16 bytes.
struct __align__(16) Eight { unsigned pairs[4]; };

static __device__ __forceinline__ float wide(unsigned bits) { return __uint_as_float(bits << 16); }

static __device__ __forceinline__ unsigned narrow(float value) {
  const unsigned bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fffu;
  return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

#define COMBINE_BF16(name, result)                                                                  \
  static __device__ __forceinline__ unsigned one_##name(unsigned x, unsigned y) {                   \
    const float a = wide(x), b = wide(y);                                                           \
    return result;                                                                                  \
  }                                                                                                 \
  static __device__ __forceinline__ unsigned two_##name(unsigned x, unsigned y) {                   \
    return one_##name(x & 0xffffu, y & 0xffffu) | one_##name(x >> 16, y >> 16) << 16;               \
  }                                                                                                 \
  extern "C" __global__ void name(const unsigned short* x, u64 x_len, unsigned short* y, u64 y_len) { \
    const u64 len = x_len < y_len ? x_len : y_len;                                                  \
    const u64 step = (u64)gridDim.x * blockDim.x, first = (u64)blockIdx.x * blockDim.x + threadIdx.x; \
    const u64 eights = (((u64)x | (u64)y) & 15) == 0 ? len / 8 : 0;                                 \
    for (u64 i = first; i < eights; i += step) {                                                    \
      const Eight a = ((const Eight*)x)[i];                                                         \
      Eight b = ((Eight*)y)[i];                                                                     \
      for (int k = 0; k < 4; ++k) b.pairs[k] = two_##name(a.pairs[k], b.pairs[k]);                  \
      ((Eight*)y)[i] = b;                                                                           \
    }                                                                                               \
    for (u64 i = 8 * eights + first; i < len; i += step) y[i] = (unsigned short)one_##name(x[i], y[i]); \
  }

COMBINE_BF16(sum_bf16, narrow(a + b))
// One of two numbers of 16 bits, or a NaN: the lower bits of what is not a NaN are 0.
COMBINE_BF16(min_bf16, __float_as_uint(least(a, b)) >> 16)
COMBINE_BF16(max_bf16, __float_as_uint(most(a, b)) >> 16)

COMBINE(sum_f32, float, a + b)
COMBINE(min_f32, float, least(a, b))
COMBINE(max_f32, float, most(a, b))
OF_INTEGERS(i32, int, (int)((unsigned)a + (unsigned)b))
OF_INTEGERS(u32, unsigned, a + b)
OF_INTEGERS(i64, long long, (long long)((u64)a + (u64)b))
OF_INTEGERS(u64, u64, a + b)
