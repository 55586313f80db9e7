// Elements of arrays whose type is a number that a kernel gets at run time. The branches on such a
// number are the same for all threads.
//
// Values are computed in f64, which holds every element but 64 bit integers exactly. A result
// becomes an element with one rounding: to nearest, ties to even; integers saturate, and NaN gives
// 0. A NaN in a float has all bits set but the sign.
typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

// The numbers of `RealType` in elements/real_type.rs.
constexpr u32 U8 = 0, I8 = 1, U16 = 2, I16 = 3, U32 = 4, I32 = 5, U64 = 6, I64 = 7;
constexpr u32 F16 = 8, BF16 = 9, F32 = 10, F64 = 11;

DEV bool is_integer(u32 type) { return type < F16; }
DEV bool is_signed(u32 type) { return (type & 1) != 0; }

DEV u32 bytes_of(u32 type) {
  return type <= I8 ? 1 : type <= I16 || type == F16 || type == BF16 ? 2
         : type <= I32 || type == F32 ? 4 : 8;
}

DEV float half_value(u16 bits) {
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(bits));
  return v;
}

// The bits of an integer, extended to 64 bits with its sign.
DEV u64 word_at(const u8* x, u64 i, u32 type) {
  switch (type) {
    case U8: return x[i];
    case I8: return (u64)(i64)((const i8*)x)[i];
    case U16: return ((const u16*)x)[i];
    case I16: return (u64)(i64)((const i16*)x)[i];
    case U32: return ((const u32*)x)[i];
    case I32: return (u64)(i64)((const i32*)x)[i];
    default: return ((const u64*)x)[i];
  }
}

// The value of a float, which f64 holds exactly.
DEV double float_at(const u8* x, u64 i, u32 type) {
  switch (type) {
    case F16: return half_value(((const u16*)x)[i]);
    case BF16: return __uint_as_float((u32)((const u16*)x)[i] << 16);
    case F32: return ((const float*)x)[i];
    case F64:
    default: return ((const double*)x)[i];
  }
}

// The value of an element. 64 bit integers are rounded to nearest.
DEV double real_at(const u8* x, u64 i, u32 type) {
  if (!is_integer(type)) return float_at(x, i, type);
  const u64 word = word_at(x, i, type);
  return is_signed(type) ? (double)(i64)word : (double)word;
}

// The value rounded to odd: towards zero, and the last bit set if this was not exact. A value that
// is rounded to odd can be rounded again to a type with at least two bits less, as if only once.
DEV double odd_of(u64 word) {
  const double v = __ull2double_rz(word);
  return (u64)v == word ? v : __longlong_as_double(__double_as_longlong(v) | 1);
}

DEV float odd_of(double real) {
  const float v = __double2float_rz(real);
  return (double)v == real ? v : __uint_as_float(__float_as_uint(v) | 1);
}

DEV double odd_at(const u8* x, u64 i, u32 type) {
  if (!is_integer(type)) return float_at(x, i, type);
  const u64 word = word_at(x, i, type);
  const bool negative = is_signed(type) && (i64)word < 0;
  const double magnitude = odd_of(negative ? 0 - word : word);
  return negative ? -magnitude : magnitude;
}

// The integer nearest to v, held to least..=most; 0 for NaN. At most 32 bits.
template <typename T> DEV T nearest(double v, T least, T most) {
  if (!(v > (double)least)) return v == v ? least : (T)0;
  return v < (double)most ? (T)rint(v) : most;
}

DEV u64 nearest_u64(double v) {
  if (!(v > 0.0)) return 0;
  return v < 18446744073709551616.0 ? (u64)rint(v) : ~0ull;
}

DEV i64 nearest_i64(double v) {
  if (!(v > -9223372036854775808.0)) return v == v ? (i64)(1ull << 63) : 0;
  return v < 9223372036854775808.0 ? (i64)rint(v) : (i64)(~0ull >> 1);
}

DEV u16 nearest_f16(double v) {
  if (v != v) return 0x7fff;
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(odd_of(v)));
  return bits;
}

DEV u16 nearest_bf16(double v) {
  if (v != v) return 0x7fff;
  const u32 bits = __float_as_uint(odd_of(v));
  return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Calls `take` with the element of a type, as an integer of its size.
template <typename Take> DEV void with_element(u32 type, double v, const Take& take) {
  switch (type) {
    case U8: take(nearest<u8>(v, 0, 255)); break;
    case I8: take((u8)nearest<i8>(v, -128, 127)); break;
    case U16: take(nearest<u16>(v, 0, 65535)); break;
    case I16: take((u16)nearest<i16>(v, -32768, 32767)); break;
    case U32: take(nearest<u32>(v, 0, ~0u)); break;
    case I32: take((u32)nearest<i32>(v, (i32)(1u << 31), (i32)(~0u >> 1))); break;
    case U64: take(nearest_u64(v)); break;
    case I64: take((u64)nearest_i64(v)); break;
    case F16: take(nearest_f16(v)); break;
    case BF16: take(nearest_bf16(v)); break;
    case F32: take(v == v ? __float_as_uint((float)v) : 0x7fffffffu); break;
    default: take(v == v ? (u64)__double_as_longlong(v) : ~0ull >> 1); break;
  }
}

struct Put {
  u8* y;
  u64 i;
  template <typename T> DEV void operator()(T bits) const { ((T*)y)[i] = bits; }
};

DEV void put_real(u8* y, u64 i, u32 type, double v) { with_element(type, v, Put{y, i}); }

// The low bytes of a word as an element of this many bytes.
DEV void put_bits(u8* y, u64 i, u32 bytes, u64 word) {
  switch (bytes) {
    case 1: y[i] = (u8)word; break;
    case 2: ((u16*)y)[i] = (u16)word; break;
    case 4: ((u32*)y)[i] = (u32)word; break;
    default: ((u64*)y)[i] = word; break;
  }
}

// The bits of an element of this many bytes.
DEV u64 bits_at(const u8* x, u64 i, u32 bytes) {
  switch (bytes) {
    case 1: return x[i];
    case 2: return ((const u16*)x)[i];
    case 4: return ((const u32*)x)[i];
    default: return ((const u64*)x)[i];
  }
}

DEV u64 low_of(u64 a, u64 b) { return a < b ? a : b; }

// With 32 bits where the numbers are short.
DEV u64 quotient(u64 a, u64 b) { return (a | b) >> 32 ? a / b : (u32)a / (u32)b; }

// The loop over 0..len: any launch along x is right.
#define EACH(i, len)                                                                       \
  for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x, i##_step = (u64)gridDim.x * blockDim.x; \
       i < (len); i += i##_step)
