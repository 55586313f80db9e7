// shape: parts of arrays, and sums of elements. An array is a stack of images; its rows are
// numbered over the whole stack, and its elements over all rows. The types of the elements are
// numbers.
//
// One thread computes one element of y, and takes the elements of x in one order. So a sum is the
// same bits in any launch. An index beyond the end of x is held to its last element.
//
// Estimate: `crop` has two divisions per element, with 32 bits where the numbers are short: about
// 60 instructions. `bin` and `project` have about 40 instructions per element of x, and 150 for the
// exact mean of 64 bit integers: above 100 thousand million elements per second on 132 SMs. Two
// threads beside each other read elements beside each other, except in `project` along the last
// axis: there each thread reads a row of its own, and the lines stay in the caches. All three are
// bound by the copy that feeds them, if there are thousands of elements of y.
#include "elements.cuh"

DEV u64 quotient(u64 a, u64 b) { return (a | b) >> 32 ? a / b : (u32)a / (u32)b; }

// `CropPlan` in params.rs: the sizes of the images of x and y in units of `bytes` bytes.
struct CropPlan {
  u64 top, left, height, width, out_height, out_width, first_in, first_out;
};

extern "C" __global__ void crop(u32 bytes, CropPlan p, const u8* x, u64 x_len, u8* y, u64 y_len) {
  const u64 x_count = x_len / bytes;
  if (x_count == 0) return;
  EACH(i, y_len / bytes) {
    const u64 line = quotient(i, p.out_width);
    const u64 column = i - line * p.out_width;
    const u64 image = quotient(p.first_out + line, p.out_height);
    const u64 row = p.first_out + line - image * p.out_height;
    const u64 from = image * p.height + p.top + row - p.first_in;
    const u64 at = from * p.width + p.left + column;
    put_bits(y, i, bytes, bits_at(x, low_of(at, x_count - 1), bytes));
  }
}

// ---- bin --------------------------------------------------------------------

// `BinPlan` in params.rs: the factors of the axes, and the sizes of x.
struct BinPlan {
  u64 images, rows, columns, depth, height, width, first_in, first_out;
};

// The exact mean of integers, rounded to nearest, ties to even: `whole` whole parts and `rest` that
// is less than 2^64, over `count` elements.
DEV u64 mean_of(u64 whole, u64 rest, u64 count) {
  const u64 more = rest / count;
  const u64 left = rest - more * count;
  const u64 floor = whole + more;
  const u64 other = count - left;
  return left > other || (left == other && (floor & 1)) ? floor + 1 : floor;
}

// The elements of a window of x: calls `take` with their indices, row by row.
template <typename Take> DEV void window(const BinPlan& p, u64 element, u64 x_count, Take take) {
  const u64 out_depth = p.depth / p.images, out_height = p.height / p.rows;
  const u64 out_width = p.width / p.columns;
  const u64 line = quotient(element, out_width);
  const u64 column = (element - line * out_width) * p.columns;
  const u64 out_image = quotient(p.first_out + line, out_height);
  const u64 row = (p.first_out + line - out_image * out_height) * p.rows;
  const u64 outer = quotient(out_image, out_depth);
  const u64 image = outer * p.depth + (out_image - outer * out_depth) * p.images;
  for (u64 z = 0; z < p.images; ++z) {
    for (u64 r = 0; r < p.rows; ++r) {
      const u64 from = (image + z) * p.height + row + r - p.first_in;
      for (u64 c = 0; c < p.columns; ++c) {
        take(low_of(from * p.width + column + c, x_count - 1));
      }
    }
  }
}

extern "C" __global__ void bin(u32 from, u32 to, u32 is_mean, BinPlan p, const u8* x, u64 x_len,
                               u8* y, u64 y_len) {
  const u64 x_count = x_len / bytes_of(from);
  const u64 count = p.images * p.rows * p.columns;
  if (x_count == 0) return;
  EACH(i, y_len / bytes_of(to)) {
    if (!is_integer(from)) {
      double sum = 0.0;
      window(p, i, x_count, [&](u64 at) { sum += float_at(x, at, from); });
      put_real(y, i, to, is_mean ? sum / (double)count : sum);
    } else if (!is_mean) {
      u64 sum = 0;
      window(p, i, x_count, [&](u64 at) { sum += word_at(x, at, from); });
      put_bits(y, i, bytes_of(to), sum);
    } else if (bytes_of(from) < 8) {
      // The sum fits in 64 bits. Below zero, a whole part moves it to zero or above.
      u64 sum = 0;
      window(p, i, x_count, [&](u64 at) { sum += word_at(x, at, from); });
      const bool is_negative = is_signed(from) && (i64)sum < 0;
      const u64 less = is_negative ? (0 - sum + count - 1) / count : 0;
      put_bits(y, i, bytes_of(to), mean_of(0 - less, sum + less * count, count));
    } else {
      u64 whole = 0, rest = 0;
      window(p, i, x_count, [&](u64 at) {
        const u64 word = word_at(x, at, from);
        const bool is_negative = is_signed(from) && (i64)word < 0;
        const u64 part = is_negative ? 0 - (0 - word + count - 1) / count : word / count;
        whole += part;
        rest += word - part * count;
      });
      put_bits(y, i, bytes_of(to), mean_of(whole, rest, count));
    }
  }
}

// ---- project ----------------------------------------------------------------

// The numbers of `Projection` in how.rs. The number of the maximum is 0.
constexpr u32 MIN = 1, MEAN = 2, SUM = 3, STD = 4;

// `ProjectPlan` in params.rs: x is [.., count, inner] elements, and y is [.., inner]. `first_in`
// and `first_out` are the indices of the first elements of x and y.
struct ProjectPlan {
  u64 count, inner, first_in, first_out;
};

// The bits of elements, `step` elements apart, in batches: the loads of a batch do not wait for one
// another. The bits of an integer are not extended.
constexpr u32 BATCH = 8;

template <typename T>
DEV void batch_of(const T* x, u64 start, u64 step, u64 last, u64 (&bits)[BATCH]) {
#pragma unroll
  for (u32 k = 0; k < BATCH; ++k) bits[k] = x[low_of(start + k * step, last)];
}

DEV void batch_at(const u8* x, u64 start, u64 step, u64 last, u32 bytes, u64 (&bits)[BATCH]) {
  switch (bytes) {
    case 1: batch_of(x, start, step, last, bits); break;
    case 2: batch_of((const u16*)x, start, step, last, bits); break;
    case 4: batch_of((const u32*)x, start, step, last, bits); break;
    default: batch_of((const u64*)x, start, step, last, bits); break;
  }
}

// The bits of an integer, extended to 64 bits with its sign.
DEV u64 word_of(u64 bits, u32 type) {
  switch (type) {
    case I8: return (u64)(i64)(i8)bits;
    case I16: return (u64)(i64)(i16)bits;
    case I32: return (u64)(i64)(i32)bits;
    default: return bits;
  }
}

DEV double float_of(u64 bits, u32 type) {
  switch (type) {
    case F16: return half_value((u16)bits);
    case BF16: return __uint_as_float((u32)bits << 16);
    case F32: return __uint_as_float((u32)bits);
    default: return __longlong_as_double((i64)bits);
  }
}

DEV double real_of(u64 bits, u32 type) {
  if (!is_integer(type)) return float_of(bits, type);
  const u64 word = word_of(bits, type);
  return is_signed(type) ? (double)(i64)word : (double)word;
}

// Calls `take` with the bits of each element along the axis, in order.
template <typename Take>
DEV void along(const u8* x, u64 start, const ProjectPlan& p, u64 last, u32 type, Take take) {
  u64 bits[BATCH];
  const u32 bytes = bytes_of(type);
  for (u64 n = 0; n < p.count; n += BATCH) {
    batch_at(x, start + n * p.inner, p.inner, last, bytes, bits);
    const u32 most = (u32)low_of(p.count - n, BATCH);
#pragma unroll
    for (u32 k = 0; k < BATCH; ++k) {
      if (k < most) take(bits[k]);
    }
  }
}

extern "C" __global__ void project(u32 from, u32 to, u32 how, ProjectPlan p, const u8* x, u64 x_len,
                                   u8* y, u64 y_len) {
  const u64 x_count = x_len / bytes_of(from);
  const u64 turn = is_signed(from) ? 1ull << 63 : 0;
  if (x_count == 0) return;
  const u64 last = x_count - 1;
  EACH(i, y_len / bytes_of(to)) {
    const u64 outer = quotient(p.first_out + i, p.inner);
    const u64 start =
        outer * p.count * p.inner + (p.first_out + i - outer * p.inner) - p.first_in;
    if (how == MEAN || how == STD || (how == SUM && !is_integer(from))) {
      double sum = 0.0;
      along(x, start, p, last, from, [&](u64 bits) { sum += real_of(bits, from); });
      const double mean = sum / (double)p.count;
      double squares = 0.0;
      if (how == STD) {
        along(x, start, p, last, from, [&](u64 bits) {
          const double v = real_of(bits, from) - mean;
          squares += v * v;
        });
      }
      put_real(y, i, to,
               how == SUM ? sum : how == MEAN ? mean : sqrt(squares / (double)p.count));
    } else if (how == SUM) {
      u64 sum = 0;
      along(x, start, p, last, from, [&](u64 bits) { sum += word_of(bits, from); });
      put_bits(y, i, bytes_of(to), sum);
    } else if (is_integer(from)) {
      // The first element is compared with itself.
      u64 best = word_at(x, low_of(start, last), from) ^ turn;
      along(x, start, p, last, from, [&](u64 bits) {
        const u64 word = word_of(bits, from) ^ turn;
        if (how == MIN ? word < best : word > best) best = word;
      });
      put_bits(y, i, bytes_of(to), best ^ turn);
    } else {
      double best = float_at(x, low_of(start, last), from);
      along(x, start, p, last, from, [&](u64 bits) {
        const double v = float_of(bits, from);
        // NaN is kept.
        if (best == best && (v != v || (how == MIN ? v < best : v > best))) best = v;
      });
      put_real(y, i, to, best);
    }
  }
}
