// gaussian: a Gaussian filter, one pass along each axis, with the arithmetic of scipy.ndimage: sums
// in double precision, rounded to the type of the elements after each pass.
//
// A pass takes the middle element times its weight, then adds, from the outermost pair of elements
// inwards, the sum of the pair times its weight. No product is fused with a sum. So the sums are
// SciPy's bit for bit, and the twin's. The passes go along z, then y, then x, as in SciPy.
//
// gaussian_plane_<type>: the passes along y and x of a tile of 64 x 32 elements. A thread computes
// 8 neighbours at once. An element that several of their windows have is loaded and converted once:
// 22+2r loads for 8 sums. The pass along y reads global memory, for the tile and the rx columns
// beside it. Its results are in shared memory as doubles, for the pass along x.
// gaussian_stack: the pass along z, one thread for each element of any type.
//
// Estimate per element, in double precision: 3r+1 operations for each pass, those along y
// (64+2rx)/64 times, and (22+2ry)/8+2 conversions, as often, which are 4 times as slow. For sigma 2
// (r = 8) that is 56 operations and 10 conversions, at 64 per clock and SM on 132 SMs and 1.7 GHz
// 150 G elements/s: above the link. For the largest radius, 31, it is 279 operations and 26
// conversions: 37 G elements/s, 75 GB/s of u16. GPUs with few units for double precision are slower
// by up to 32 times.
//
// Launch with blocks of 256 x 1 x 1 threads in any grid, no dynamic shared memory.
#include "elements.cuh"
#include "reals.cuh"
#include "window.cuh"

constexpr u32 RADIUS_MAX = 31;
constexpr u32 TILE_ROWS = 32;
constexpr u32 STACK_ROWS = 16;
constexpr u32 COLUMNS = 64;
constexpr u32 RUN = 8;
static_assert(TILE_ROWS * COLUMNS == THREADS * RUN, "a thread has one run along x");

// The weights of one axis, from the middle outwards.
struct Weights {
  double of[RADIUS_MAX + 1];
};

// One pass for the element whose window has its middle at 0. `value(k)` is the element k places
// from the middle.
template <typename V> DEV double pass(const double* weights, i64 radius, V value) {
  double sum = value(0) * weights[0];
  for (i64 k = radius; k > 0; --k) sum += (value(-k) + value(k)) * weights[k];
  return sum;
}

// The same sums for the RUN elements from 0 on. Element j of the run needs the elements j - k and
// j + k at the same time. The next step needs all of them but one of each side again: `before` and
// `after` are rings, and each step puts a new element in the place of one that is not needed.
template <typename V>
DEV void passes(const double* weights, i32 radius, V value, double (&sums)[RUN]) {
#pragma unroll
  for (i32 j = 0; j < RUN; ++j) sums[j] = value(j) * weights[0];
  if (radius == 0) return;
  double before[RUN], after[RUN];
#pragma unroll
  for (i32 j = 0; j < RUN; ++j) {
    before[j] = value(j - radius);
    after[j] = value(j + radius);
  }
#pragma unroll 1
  for (i32 outer = radius; outer > 0; outer -= RUN) {
#pragma unroll
    for (i32 step = 0; step < RUN; ++step) {
      const i32 k = outer - step;
      if (k == 0) return;
      const double weight = weights[k];
#pragma unroll
      for (i32 j = 0; j < RUN; ++j) {
        sums[j] += (before[(j + step) % RUN] + after[(j + RUN - step) % RUN]) * weight;
      }
      before[step] = value((i32)RUN - k);
      after[RUN - 1 - step] = value(k - 1);
    }
  }
}

template <typename T>
DEV void plane(const Place& p, const u8* x_bytes, u64 x_len, u8* y_bytes, u64 y_len,
               const Radius& radius, u32 edges, const Weights& y_weights,
               const Weights& x_weights) {
  // An odd number of columns, and results with a space after each row: threads that take rows then
  // use different banks.
  constexpr u32 PITCH = COLUMNS + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  __shared__ double along_y[TILE_ROWS * (COLUMNS + 2 * RADIUS_MAX + 1)];
  __shared__ double weights[2][RADIUS_MAX + 1];
  __shared__ i64 lines[TILE_ROWS + 2 * RADIUS_MAX];
  __shared__ Rows rows;
  __shared__ Tile tile;
  static_assert(TILE_ROWS * PITCH * sizeof(T) <= sizeof along_y);
  T* results = (T*)along_y;
  const T* x = (const T*)x_bytes;
  T* y = (T*)y_bytes;
  const u32 columns = COLUMNS + 2 * radius.x, pitch = columns + 1;
  if (radius.x > RADIUS_MAX || radius.y > RADIUS_MAX) return;
  if (threadIdx.x <= RADIUS_MAX) {
    weights[0][threadIdx.x] = y_weights.of[threadIdx.x];
    weights[1][threadIdx.x] = x_weights.of[threadIdx.x];
  }
  if (threadIdx.x == 0) rows = split(p, x_len / sizeof(T), y_len / sizeof(T), TILE_ROWS);
  __syncthreads();
#pragma unroll 1
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(p, rows, index);
    __syncthreads();
    // The last run of a tile of less rows also reads rows after it, for results that are dropped.
    if (threadIdx.x < TILE_ROWS + 2 * radius.y) {
      const i64 v = tile.top + threadIdx.x - radius.y;
      const i64 row = row_at(p, rows, tile, edges, tile.z, v);
      lines[threadIdx.x] = row < 0 ? -1 : row * (i64)p.width;
    }
    __syncthreads();
#pragma unroll 1
    for (u64 left = (u64)blockIdx.x * COLUMNS; left < p.width; left += (u64)gridDim.x * COLUMNS) {
      const u32 runs = (tile.rows + RUN - 1) / RUN;
#pragma unroll 1
      for (u32 i = threadIdx.x; i < runs * columns; i += THREADS) {
        const u32 v = i / columns * RUN;
        const u32 c = i % columns;
        // Columns further right are in no window.
        const i64 right = low((i64)left - radius.x + c, (i64)p.width + radius.x - 1);
        const i64 column = index_at(right, (i64)p.width, edges);
        const i64* line = lines + v + radius.y;
        double sums[RUN] = {};
        if (column >= 0) {
          passes(weights[0], radius.y, [&](i32 k) {
            const i64 start = line[k];
            return start < 0 ? 0.0 : Real<T>::value(x[start + column]);
          }, sums);
        }
#pragma unroll
        for (u32 j = 0; j < RUN; ++j) {
          along_y[(v + j) * pitch + c] = Real<T>::value(Real<T>::element(sums[j]));
        }
      }
      __syncthreads();
      const u32 v = threadIdx.x % TILE_ROWS;
      const u32 c = threadIdx.x / TILE_ROWS * RUN;
      double sums[RUN] = {};
      if (v < tile.rows && left + c < p.width) {
        const double* at = along_y + v * pitch + c + radius.x;
        passes(weights[1], radius.x, [&](i32 k) { return at[k]; }, sums);
      }
      __syncthreads();
#pragma unroll
      for (u32 j = 0; j < RUN; ++j) results[v * PITCH + c + j] = Real<T>::element(sums[j]);
      __syncthreads();
#pragma unroll 1
      for (u32 i = threadIdx.x; i < tile.rows * COLUMNS; i += THREADS) {
        const u32 row = i / COLUMNS, column = i % COLUMNS;
        if (left + column >= p.width) continue;
        y[(tile.out + row) * (i64)p.width + left + column] = results[row * PITCH + column];
      }
      __syncthreads();
    }
  }
}

// Writes an element; integers drop the fraction.
DEV void put_cut(u8* y, u64 i, u32 type, double v) {
  put_real(y, i, type, is_integer(type) ? trunc(v) : v);
}

extern "C" __global__ void __launch_bounds__(256, 4)
    gaussian_stack(u32 type, Place p, const u8* x, u64 x_len, u8* y, u64 y_len, Radius radius,
                   u32 edges, const __grid_constant__ Weights z_weights) {
  __shared__ double weights[RADIUS_MAX + 1];
  __shared__ i64 lines[2 * RADIUS_MAX + 1];
  __shared__ Rows rows;
  __shared__ Tile tile;
  const u32 bytes = bytes_of(type);
  if (radius.z > RADIUS_MAX) return;
  if (threadIdx.x <= RADIUS_MAX) weights[threadIdx.x] = z_weights.of[threadIdx.x];
  if (threadIdx.x == 0) rows = split(p, x_len / bytes, y_len / bytes, STACK_ROWS);
  __syncthreads();
#pragma unroll 1
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(p, rows, index);
    __syncthreads();
    // The rows of a tile are beside each other in every image.
    if (threadIdx.x < 2 * radius.z + 1) {
      const i64 z = tile.z + threadIdx.x - radius.z;
      const i64 image = index_at(z, (i64)p.depth, edges);
      lines[threadIdx.x] = image < 0 ? -1 : image * (i64)p.height + tile.top;
    }
    __syncthreads();
#pragma unroll 1
    for (u32 v = 0; v < tile.rows; ++v) {
#pragma unroll 1
      for (u64 c = (u64)blockIdx.x * THREADS + threadIdx.x; c < p.width;
           c += (u64)gridDim.x * THREADS) {
        const i64* line = lines + radius.z;
        const double found = pass(weights, radius.z, [&](i64 k) {
          if (line[k] < 0) return 0.0;
          const i64 row = hold(tile.base + line[k] + v, 0, rows.in_rows - 1);
          return real_at(x, row * p.width + c, type);
        });
        put_cut(y, (tile.out + v) * p.width + c, type, found);
      }
    }
    __syncthreads();
  }
}

#define PLANE_ENTRY(NAME, T)                                                                    \
  extern "C" __global__ void __launch_bounds__(256, 3)                                          \
      gaussian_plane_##NAME(Place p, const u8* x, u64 x_len, u8* y, u64 y_len, Radius radius,   \
                            u32 edges, const __grid_constant__ Weights y_weights,               \
                            const __grid_constant__ Weights x_weights) {                        \
    plane<T>(p, x, x_len, y, y_len, radius, edges, y_weights, x_weights);                       \
  }

PLANE_ENTRY(u8, u8)
PLANE_ENTRY(i8, i8)
PLANE_ENTRY(u16, u16)
PLANE_ENTRY(i16, i16)
PLANE_ENTRY(u32, u32)
PLANE_ENTRY(i32, i32)
PLANE_ENTRY(u64, u64)
PLANE_ENTRY(i64, i64)
PLANE_ENTRY(f16, f16)
PLANE_ENTRY(bf16, bf16)
PLANE_ENTRY(f32, float)
PLANE_ENTRY(f64, double)
