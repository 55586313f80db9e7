// pointwise: each element of y from the element of x at the same index. The types of the elements
// are numbers.
//
// Covers the shorter of x and y. Estimate: 30 to 120 instructions per element, the most for the
// divisions in f64 of `rescale` and `field`. At 64 lanes per clock and SM, 132 SMs do above 100
// thousand million elements per second: bound by the copy that feeds it.
//
// `convert` takes runs of 8 elements where x and y are aligned for accesses of 16 bytes: about 20
// instructions per element, and two conversions at a quarter of the rate of f64 where a value is a
// float. It is bound by the memory of the device, about 2000 GB/s of loads and stores: u16 to f32
// is 650 GB/s of input.
#include "elements.cuh"

// ---- types ------------------------------------------------------------------

// An integer held to the range of a type, which may be shorter, or of another sign.
DEV u64 saturated(u64 word, bool is_negative, u32 type) {
  const u32 bits = 8 * bytes_of(type) - (is_signed(type) ? 1 : 0);
  const u64 most = ~0ull >> (64 - bits);
  if (!is_negative) return word < most ? word : most;
  if (!is_signed(type)) return 0;
  const i64 least = -(i64)most - 1;
  return (i64)word > least ? word : (u64)least;
}

DEV void convert_one(u32 from, u32 to, const u8* x, u8* y, u64 i) {
  if (from == to) {
    put_bits(y, i, bytes_of(to), bits_at(x, i, bytes_of(from)));
  } else if (is_integer(from) && is_integer(to)) {
    const u64 word = word_at(x, i, from);
    put_bits(y, i, bytes_of(to), saturated(word, is_signed(from) && (i64)word < 0, to));
  } else if (to == F64) {
    put_real(y, i, F64, real_at(x, i, from));
  } else {
    put_real(y, i, to, odd_at(x, i, from));
  }
}

// A thread converts RUN elements beside each other. Their bits are in as many words as an element
// has bytes.
constexpr u32 RUN = 8;

// Loads or stores the words of a run, 16 bytes at a time.
DEV void load_run(const u8* x, u64 run, u32 bytes, u64 (&words)[RUN]) {
  if (bytes == 1) {
    words[0] = ((const u64*)x)[run];
    return;
  }
#pragma unroll
  for (u32 k = 0; k < RUN / 2; ++k) {
    if (2 * k >= bytes) break;
    const ulonglong2 both = ((const ulonglong2*)x)[run * (bytes / 2) + k];
    words[2 * k] = both.x;
    words[2 * k + 1] = both.y;
  }
}

DEV void store_run(u8* y, u64 run, u32 bytes, const u64 (&words)[RUN]) {
  if (bytes == 1) {
    ((u64*)y)[run] = words[0];
    return;
  }
#pragma unroll
  for (u32 k = 0; k < RUN / 2; ++k) {
    if (2 * k >= bytes) break;
    ((ulonglong2*)y)[run * (bytes / 2) + k] = make_ulonglong2(words[2 * k], words[2 * k + 1]);
  }
}

// The bits of the elements of a run.
template <typename T> DEV void unpack(const u64 (&words)[RUN], u64 (&bits)[RUN]) {
#pragma unroll
  for (u32 k = 0; k < RUN; ++k) {
    bits[k] = (T)(words[k * sizeof(T) / 8] >> 8 * (k * sizeof(T) % 8));
  }
}

// Adds element `k` of a run to its words, which are 0 at the start.
struct Pack {
  u64 (&words)[RUN];
  u32 k;
  template <typename T> DEV void operator()(T bits) const {
    words[k * sizeof(T) / 8] |= (u64)bits << 8 * (k * sizeof(T) % 8);
  }
};

template <typename T>
DEV void pack_integers(u32 to, bool is_below, const u64 (&bits)[RUN], u64 (&words)[RUN]) {
#pragma unroll
  for (u32 k = 0; k < RUN; ++k) {
    Pack{words, k}((T)saturated(bits[k], is_below && (i64)bits[k] < 0, to));
  }
}

template <u32 TO> DEV void pack_reals(const double (&reals)[RUN], u64 (&words)[RUN]) {
#pragma unroll
  for (u32 k = 0; k < RUN; ++k) {
    with_element(TO, reals[k], Pack{words, k});
  }
}

// The values as `real_at` gives them for f64, and otherwise as `odd_at` gives them. An integer of
// less than 64 bits has the same value in both.
DEV void reals_of(u32 from, u32 to, const u64 (&bits)[RUN], double (&reals)[RUN]) {
#pragma unroll
  for (u32 k = 0; k < RUN; ++k) {
    const u64 word = bits[k];
    if (from == F16) {
      reals[k] = half_value((u16)word);
    } else if (from == BF16) {
      reals[k] = __uint_as_float((u32)word << 16);
    } else if (from == F32) {
      reals[k] = __uint_as_float((u32)word);
    } else if (from == F64) {
      reals[k] = __longlong_as_double((i64)word);
    } else if (bytes_of(from) < 8) {
      reals[k] = (double)(i64)word;
    } else if (to == F64) {
      reals[k] = is_signed(from) ? (double)(i64)word : (double)word;
    } else {
      const bool negative = is_signed(from) && (i64)word < 0;
      const double magnitude = odd_of(negative ? 0 - word : word);
      reals[k] = negative ? -magnitude : magnitude;
    }
  }
}

DEV void convert_run(u32 from, u32 to, const u8* x, u8* y, u64 run) {
  u64 words[RUN] = {}, bits[RUN];
  load_run(x, run, bytes_of(from), words);
  if (from == to) {
    store_run(y, run, bytes_of(to), words);
    return;
  }
  switch (bytes_of(from)) {
    case 1: unpack<u8>(words, bits); break;
    case 2: unpack<u16>(words, bits); break;
    case 4: unpack<u32>(words, bits); break;
    default: unpack<u64>(words, bits); break;
  }
  // Only signed integers can be below zero.
  const bool is_below = is_integer(from) && is_signed(from);
  const u64 sign = is_below ? 1ull << (8 * bytes_of(from) - 1) : 0;
#pragma unroll
  for (u32 k = 0; k < RUN; ++k) {
    bits[k] = (bits[k] ^ sign) - sign;
    words[k] = 0;
  }
  if (is_integer(from) && is_integer(to)) {
    switch (bytes_of(to)) {
      case 1: pack_integers<u8>(to, is_below, bits, words); break;
      case 2: pack_integers<u16>(to, is_below, bits, words); break;
      case 4: pack_integers<u32>(to, is_below, bits, words); break;
      default: pack_integers<u64>(to, is_below, bits, words); break;
    }
  } else {
    double reals[RUN];
    reals_of(from, to, bits, reals);
    switch (to) {
      case U8: pack_reals<U8>(reals, words); break;
      case I8: pack_reals<I8>(reals, words); break;
      case U16: pack_reals<U16>(reals, words); break;
      case I16: pack_reals<I16>(reals, words); break;
      case U32: pack_reals<U32>(reals, words); break;
      case I32: pack_reals<I32>(reals, words); break;
      case U64: pack_reals<U64>(reals, words); break;
      case I64: pack_reals<I64>(reals, words); break;
      case F16: pack_reals<F16>(reals, words); break;
      case BF16: pack_reals<BF16>(reals, words); break;
      case F32: pack_reals<F32>(reals, words); break;
      default: pack_reals<F64>(reals, words); break;
    }
  }
  store_run(y, run, bytes_of(to), words);
}

extern "C" __global__ void __launch_bounds__(256)
    convert(u32 from, u32 to, const u8* x, u64 x_len, u8* y, u64 y_len) {
  const u64 len = low_of(x_len / bytes_of(from), y_len / bytes_of(to));
  const u64 runs = ((u64)x | (u64)y) % 16 == 0 ? len / RUN : 0;
  EACH(run, runs) convert_run(from, to, x, y, run);
  EACH(i, len - runs * RUN) convert_one(from, to, x, y, runs * RUN + i);
}

extern "C" __global__ void swap(u32 bytes, const u8* x, u64 x_len, u8* y, u64 y_len) {
  EACH(i, low_of(x_len, y_len) / bytes) {
    const u64 word = bits_at(x, i, bytes);
    const u64 swapped = (u64)__byte_perm((u32)word, 0, 0x0123) << 32
                        | __byte_perm((u32)(word >> 32), 0, 0x0123);
    put_bits(y, i, bytes, swapped >> (64 - 8 * bytes));
  }
}

// ---- values -----------------------------------------------------------------

// Elements of at most 16 bits and f32 are computed in f32, other elements in f64. Rounded after the
// product and after the sum (built with --fmad=false).
extern "C" __global__ void affine(u32 type, double scale, double offset, const u8* x, u64 x_len,
                                  u8* y, u64 y_len) {
  const bool is_short = bytes_of(type) <= 2 || type == F32;
  EACH(i, low_of(x_len, y_len) / bytes_of(type)) {
    const double v = real_at(x, i, type);
    put_real(y, i, type,
             is_short ? (double)((float)scale * (float)v + (float)offset) : scale * v + offset);
  }
}

extern "C" __global__ void rescale(u32 from, u32 to, double low, double high, double to_low,
                                   double to_high, const u8* x, u64 x_len, u8* y, u64 y_len) {
  EACH(i, low_of(x_len / bytes_of(from), y_len / bytes_of(to))) {
    double v = real_at(x, i, from);
    v = v < low ? low : v > high ? high : v;
    put_real(y, i, to, (v - low) / (high - low) * (to_high - to_low) + to_low);
  }
}

// `low` and `high` are integers of 64 bits for integers, and the bits of an f64 for floats.
extern "C" __global__ void clip(u32 type, u64 low, u64 high, const u8* x, u64 x_len, u8* y,
                                u64 y_len) {
  EACH(i, low_of(x_len, y_len) / bytes_of(type)) {
    if (!is_integer(type)) {
      const double least = __longlong_as_double((i64)low);
      const double most = __longlong_as_double((i64)high);
      const double v = float_at(x, i, type);
      put_real(y, i, type, v < least ? least : v > most ? most : v);
    } else {
      // The sign bit turned round, the order of signed words is the order of unsigned ones.
      const u64 turn = is_signed(type) ? 1ull << 63 : 0;
      const u64 word = word_at(x, i, type);
      const bool is_less = (word ^ turn) < (low ^ turn), is_more = (word ^ turn) > (high ^ turn);
      put_bits(y, i, bytes_of(type), is_less ? low : is_more ? high : word);
    }
  }
}

// The byte `high` for elements above `above`, which is given as in `clip`, else the byte `low`.
extern "C" __global__ void threshold(u32 type, u64 above, u32 low, u32 high, const u8* x,
                                     u64 x_len, u8* y, u64 y_len) {
  const u64 turn = is_signed(type) ? 1ull << 63 : 0;
  EACH(i, low_of(x_len / bytes_of(type), y_len)) {
    const bool is_above = is_integer(type)
                              ? (word_at(x, i, type) ^ turn) > (above ^ turn)
                              : float_at(x, i, type) > __longlong_as_double((i64)above);
    y[i] = (u8)(is_above ? high : low);
  }
}

// scale * (x - dark) / (flat - dark), and 0 where the divisor is 0. `dark` or `flat` may be empty.
// Otherwise they have the `area` elements of one image. Element 0 of x belongs to element `first`
// of the image.
extern "C" __global__ void field(u32 from, u32 to, u64 first, u64 area, double scale, const u8* x,
                                 u64 x_len, const double* dark, u64 dark_len, const double* flat,
                                 u64 flat_len, u8* y, u64 y_len) {
  if (area == 0) return;
  const bool has_dark = dark_len >= area, has_flat = flat_len >= area;
  const u64 step = (u64)gridDim.x * blockDim.x % area;
  u64 at = (first % area + (u64)blockIdx.x * blockDim.x + threadIdx.x) % area;
  EACH(i, low_of(x_len / bytes_of(from), y_len / bytes_of(to))) {
    const double offset = has_dark ? dark[at] : 0.0;
    double v = real_at(x, i, from) - offset;
    if (has_flat) {
      const double divisor = flat[at] - offset;
      v = divisor == 0.0 ? 0.0 : v / divisor;
    }
    put_real(y, i, to, scale * v);
    at += step;
    if (at >= area) at -= area;
  }
}
