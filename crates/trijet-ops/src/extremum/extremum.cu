// extremum: the smallest or the largest element of a window of 2r+1 elements along each axis, r = 0
// to 31, for keys of 8, 16, 32 and 64 bits, with five ways to continue an image beyond its edges.
//
// A maximum is a minimum of inverted keys (`invert`), so one entry serves both. The minimum over a
// box is the minimum along z, then x, then y. A block takes a tile of COLUMNS x 32 elements. It
// goes through the 32 + 2ry rows of the tile in strips of 16 rows: it finds where these rows are in
// x, reads the minima along z into a strip, and keeps the minima along x of the strip. At the end
// it takes the minima along y.
//
// Along x and y, a thread computes RUN = 8 neighbours at once. Their windows have a common middle
// of 2r-6 elements, and each adds a part of the 7 elements before and after it: 2r+8 loads for 8
// results, so at most 9 loads for each instead of 63. Windows of less than 8 elements are read one
// after another.
//
// Estimate per element for r = 31: the strips have 94 rows for 32 rows of the tile and 126 columns
// for 64, so 6 loads of an element from the cache with 30 instructions each. 2.9 x 9 + 9 = 35 loads
// from shared memory have 50 more. That is 260 instructions: at 64 to 128 lanes per clock and SM on
// 132 SMs and 1.7 GHz 55 to 110 G elements/s, so u16 above 110 GB/s. For r = 1 it is about 70
// instructions, above 200 G elements/s. A window of 2rz+1 images multiplies the loads from the
// cache, 6 x 63 for rz = ry = rx = 31.
//
// Launch with blocks of 256 x 1 x 1 threads in any grid, no dynamic shared memory.
#include "elements.cuh"
#include "window.cuh"
#include "keys.cuh"

constexpr u32 RADIUS_MAX = 31;
constexpr u32 TILE_ROWS = 32;
constexpr u32 STRIP = 16;
constexpr u32 RUN = 8;

template <typename K> DEV K least(K a, K b) { return a < b ? a : b; }

// The minima of the windows of `side` elements that begin at RUN neighbours. `at` points at the
// first of side + RUN - 1 elements, which are `step` apart.
template <typename K> DEV void minima(const K* at, u32 step, u32 side, K (&found)[RUN]) {
  if (side < RUN) {
#pragma unroll
    for (u32 i = 0; i < RUN; ++i) {
      K value = at[i * step];
      for (u32 k = 1; k < side; ++k) value = least(value, at[(i + k) * step]);
      found[i] = value;
    }
    return;
  }
  K middle = at[(RUN - 1) * step];
  for (u32 k = RUN; k < side; ++k) middle = least(middle, at[k * step]);
  K before = middle;
#pragma unroll
  for (u32 i = RUN; i-- > 0;) {
    if (i + 1 < RUN) before = least(before, at[i * step]);
    found[i] = before;
  }
  K after = middle;
#pragma unroll
  for (u32 i = 1; i < RUN; ++i) {
    after = least(after, at[(side + i - 1) * step]);
    found[i] = least(found[i], after);
  }
}

// The elements of a strip that a thread reads at once.
constexpr u32 AT_ONCE = 4;

// Reads `count` rows of `columns` elements into a strip, as minima along z. For each of `images`
// images, row v of the strip begins at lines[z * STRIP + v] in x, and its column c is places[c]
// elements further. Both are below 0 for zeros.
template <typename T, typename K, u32 PITCH>
DEV void read_strip(const T* x, const i64* lines, const i64* places, u32 images, u32 columns,
                    u32 count, const Keys& keys, T invert, K (&strip)[STRIP][PITCH]) {
  const T zero = key_of<T>(0, keys) ^ invert;
  u32 v = threadIdx.x / columns, c = threadIdx.x % columns;
#pragma unroll 1
  while (v < count) {
    u32 row[AT_ONCE], column[AT_ONCE];
    K values[AT_ONCE];
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; ++k) {
      row[k] = v;
      column[k] = c;
      values[k] = (K)(T)~(T)0;
      v += THREADS / columns;
      c += THREADS % columns;
      if (c >= columns) {
        c -= columns;
        ++v;
      }
    }
#pragma unroll 1
    for (u32 z = 0; z < images; ++z) {
#pragma unroll
      for (u32 k = 0; k < AT_ONCE; ++k) {
        const i64 start = lines[z * STRIP + least(row[k], count - 1)];
        const i64 place = places[column[k]];
        T key = zero;
        if (start >= 0 && place >= 0) key = key_of<T>(x[start + place], keys) ^ invert;
        values[k] = least(values[k], (K)key);
      }
    }
#pragma unroll
    for (u32 k = 0; k < AT_ONCE; ++k) {
      if (row[k] < count) strip[row[k]][column[k]] = values[k];
    }
  }
}

template <typename T, typename K, u32 COLUMNS>
DEV void extremum(const Place& p, const u8* x_bytes, u64 x_len, u8* y_bytes, u64 y_len,
                  const Keys& keys, const Radius& radius, u32 edges, u64 invert_bits) {
  // One more column than is used: threads that take rows of a strip then use different banks.
  __shared__ K strip[STRIP][COLUMNS + 2 * RADIUS_MAX + 1];
  __shared__ K along_x[(TILE_ROWS + 2 * RADIUS_MAX) * COLUMNS];
  __shared__ i64 lines[(2 * RADIUS_MAX + 1) * STRIP];
  __shared__ i64 places[COLUMNS + 2 * RADIUS_MAX];
  __shared__ Rows rows;
  __shared__ Tile tile;
  const T* x = (const T*)x_bytes;
  T* y = (T*)y_bytes;
  const T invert = (T)invert_bits;
  const u32 x_side = 2 * radius.x + 1, y_side = 2 * radius.y + 1;
  const u32 columns = COLUMNS + 2 * radius.x, images = 2 * radius.z + 1;
  if (radius.x > RADIUS_MAX || radius.y > RADIUS_MAX || radius.z > RADIUS_MAX) return;
  if (threadIdx.x == 0) rows = split(p, x_len / sizeof(T), y_len / sizeof(T), TILE_ROWS);
  __syncthreads();
#pragma unroll 1
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(p, rows, index);
    __syncthreads();
#pragma unroll 1
    for (u64 left = (u64)blockIdx.x * COLUMNS; left < p.width; left += (u64)gridDim.x * COLUMNS) {
      const u32 height = tile.rows + 2 * radius.y;
      if (threadIdx.x < columns) {
        // Columns further right are in no window.
        const i64 right = low((i64)left - radius.x + threadIdx.x, (i64)p.width + radius.x - 1);
        places[threadIdx.x] = index_at(right, (i64)p.width, edges);
      }
#pragma unroll 1
      for (u32 first = 0; first < height; first += STRIP) {
        const u32 count = (u32)low(height - first, STRIP);
        // The last threads are the first that have no minima of the strip before to find.
#pragma unroll 1
        for (u32 i = THREADS - 1 - threadIdx.x; i < images * STRIP; i += THREADS) {
          const i64 row = row_at(p, rows, tile, edges, tile.z + i / STRIP - radius.z,
                                 tile.top + first + i % STRIP - radius.y);
          lines[i] = row < 0 ? -1 : row * (i64)p.width;
        }
        __syncthreads();
        read_strip<T, K>(x, lines, places, images, columns, count, keys, invert, strip);
        __syncthreads();
        if (threadIdx.x < STRIP * (COLUMNS / RUN) && threadIdx.x % STRIP < count) {
          const u32 v = threadIdx.x % STRIP;
          const u32 c = threadIdx.x / STRIP * RUN;
          K found[RUN];
          minima(&strip[v][c], 1, x_side, found);
#pragma unroll
          for (u32 i = 0; i < RUN; ++i) along_x[(first + v) * COLUMNS + c + i] = found[i];
        }
      }
      __syncthreads();
      // In a tile of less rows, the last run also reads rows of an earlier tile, for results that
      // are dropped.
#pragma unroll 1
      for (u32 i = threadIdx.x; i < TILE_ROWS / RUN * COLUMNS; i += THREADS) {
        const u32 c = i % COLUMNS;
        const u32 v = i / COLUMNS * RUN;
        if (v >= tile.rows || left + c >= p.width) continue;
        K found[RUN];
        minima(along_x + v * COLUMNS + c, COLUMNS, y_side, found);
        T* at = y + (tile.out + v) * (i64)p.width + left + c;
#pragma unroll
        for (u32 k = 0; k < RUN; ++k) {
          if (v + k < tile.rows) at[k * p.width] = element_of<T>((T)found[k] ^ invert, keys);
        }
      }
      __syncthreads();
    }
  }
}

#define EXTREMUM_ENTRY(NAME, T, K, COLUMNS)                                              \
  extern "C" __global__ void __launch_bounds__(256, 4)                                   \
      NAME(Place p, const u8* x, u64 x_len, u8* y, u64 y_len, Keys keys, Radius radius,  \
           u32 edges, u64 invert) {                                                      \
    extremum<T, K, COLUMNS>(p, x, x_len, y, y_len, keys, radius, edges, invert);         \
  }

EXTREMUM_ENTRY(extremum_8, u8, u32, 64)
EXTREMUM_ENTRY(extremum_16, u16, u32, 64)
EXTREMUM_ENTRY(extremum_32, u32, u32, 64)
EXTREMUM_ENTRY(extremum_64, u64, u64, 32)
