// pointwise: each element of y from the element of x at the same index. The types of the elements
// are numbers.
//
// Covers the shorter of x and y. Estimate: 30 to 120 instructions per element, the most for the
// divisions in f64 of `rescale` and `field`. At 64 lanes per clock and SM, 132 SMs do above 100
// thousand million elements per second: bound by the copy that feeds it.
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

extern "C" __global__ void convert(u32 from, u32 to, const u8* x, u64 x_len, u8* y, u64 y_len) {
  const u64 len = low_of(x_len / bytes_of(from), y_len / bytes_of(to));
  EACH(i, len) {
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
