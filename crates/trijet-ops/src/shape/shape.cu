// shape: parts of arrays, and sums of elements. An array is a stack of images; its rows are
// numbered over the whole stack, and its elements over all rows. The types of the elements are
// numbers.
//
// `crop` copies units of up to 16 bytes. In `bin`, one thread computes one element of y, and takes
// the elements of x in one order. So a sum is the same bits in any launch. An index beyond the end
// of x is held to its last element.
//
// Estimate: `crop` has two divisions per unit, with 32 bits where the numbers are short: about 60
// instructions, above 400 thousand million units per second on 132 SMs. From units of 4 bytes on it
// is bound by the memory of the device, about 1200 GB/s read and as many written. `bin` has about
// 40 instructions per element of x, and 150 for the exact mean of 64 bit integers: above 100
// thousand million elements per second.
#include "elements.cuh"

// `CropPlan` in params.rs: the sizes of the images of x and y in units of `bytes` bytes.
struct CropPlan {
  u64 top, left, height, width, out_height, out_width, first_in, first_out;
};

// The index in x of unit i of y.
DEV u64 unit_at(const CropPlan& p, u64 i) {
  const u64 line = quotient(i, p.out_width);
  const u64 column = i - line * p.out_width;
  const u64 image = quotient(p.first_out + line, p.out_height);
  const u64 row = p.first_out + line - image * p.out_height;
  const u64 from = image * p.height + p.top + row - p.first_in;
  return from * p.width + p.left + column;
}

// Copies units as large as T. A thread loads IN_FLIGHT units before it stores them.
template <typename T>
DEV void copy_part(CropPlan p, u32 bytes, const u8* x, u64 x_len, u8* y, u64 y_len) {
  constexpr u32 IN_FLIGHT = 8;
  const u64 x_count = x_len / sizeof(T), y_count = y_len / sizeof(T);
  if (x_count == 0 || y_count == 0) return;
  p.left = p.left * bytes / sizeof(T);
  p.width = p.width * bytes / sizeof(T);
  p.out_width = p.out_width * bytes / sizeof(T);
  const u64 step = (u64)gridDim.x * blockDim.x * IN_FLIGHT;
#pragma unroll 1
  for (u64 first = (u64)blockIdx.x * blockDim.x * IN_FLIGHT; first < y_count; first += step) {
    T units[IN_FLIGHT];
#pragma unroll
    for (u32 k = 0; k < IN_FLIGHT; ++k) {
      const u64 i = low_of(first + k * blockDim.x + threadIdx.x, y_count - 1);
      units[k] = ((const T*)x)[low_of(unit_at(p, i), x_count - 1)];
    }
#pragma unroll
    for (u32 k = 0; k < IN_FLIGHT; ++k) {
      const u64 i = first + k * blockDim.x + threadIdx.x;
      if (i < y_count) ((T*)y)[i] = units[k];
    }
  }
}

// The largest units for which both addresses and all rows are aligned.
extern "C" __global__ void __launch_bounds__(256)
    crop(u32 bytes, CropPlan p, const u8* x, u64 x_len, u8* y, u64 y_len) {
  const u64 all = (u64)x | (u64)y | (p.left | p.width | p.out_width) * bytes;
  if (all % 16 == 0) {
    copy_part<uint4>(p, bytes, x, x_len, y, y_len);
  } else if (all % 8 == 0) {
    copy_part<u64>(p, bytes, x, x_len, y, y_len);
  } else if (all % 4 == 0) {
    copy_part<u32>(p, bytes, x, x_len, y, y_len);
  } else if (all % 2 == 0) {
    copy_part<u16>(p, bytes, x, x_len, y, y_len);
  } else {
    copy_part<u8>(p, bytes, x, x_len, y, y_len);
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
