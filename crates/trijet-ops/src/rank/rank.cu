// rank: the element of a given rank in a window of 2r+1 elements along each axis, for keys of 8,
// 16, 32 and 64 bits, with five ways to continue an image beyond its edges.
//
// Bisection over bit planes, as in median.cu of trijet, for windows of any sides. A tile is turned
// into one bit plane per bit of a key (ballot). The window of an element is then a field of 2rx+1
// bits in each of its (2rz+1)(2ry+1) rows, and as many fields as fit share a word. From the top bit
// down: count the zeros among the candidates, keep the half that holds the rank. A plane that is
// constant over the tile is skipped: 12 bit cameras, and the exponents of floats of like size.
//
// The entries differ in the number of words of a window: 1 (sides 3 and 5, and 3 x 3 x 3), 3 (up to
// 9 x 9), 8 (up to 15 x 15, and 5 x 5 x 5) and 13 (7 x 7 x 7).
//
// Estimate per element and plane: 8 instructions for a row of the window and 6 for a word, so 30
// for 3 x 3, 70 for 7 x 7, 170 for 15 x 15 and 470 for 7 x 7 x 7. At 64 lanes per clock and SM on
// 132 SMs and 1.7 GHz, u16 at 3 x 3 is 60 GB/s of input, and f32 56 GB/s, if no plane is skipped:
// as fast as the link that feeds it. 7 x 7 is about 26 GB/s, 15 x 15 about 10, and 7 x 7 x 7 about
// 4: bound by instructions.
//
// Launch with blocks of 256 x 1 x 1 threads in any grid, and dynamic shared memory for
// (2rz+1)(tile_rows + 2ry) rows of COLUMNS / 32 entries of one 64 bit word per plane.
//
// median_cube_<bits>: the median of 3 x 3 x 3, by a selection network of min and max. The keys
// along z are sorted once for an element, those along x once for the three rows of windows that
// have them, and those along y for each window. Then 19 of 27 keys can still be the median. The
// last 27 exchanges were searched for, and hold for all 980 monotone 0/1 cubes, which by the 0/1
// principle is all inputs.
// Estimate per element: 104 min and max, at 64 lanes per clock and SM, and 90 other instructions:
// 70 G elements/s for keys up to 32 bits, 140 GB/s of u16. Keys of 64 bits take 4 instructions for
// each min and max: 25 G elements/s. No dynamic shared memory.
#include "elements.cuh"
#include "window.cuh"
#include "keys.cuh"

extern __shared__ u64 planes[];

// The words of a window: `group` rows of `field` bits in each.
struct Fields {
  u32 field, mask, group, rows;
};

DEV Fields fields_of(const Radius& radius) {
  Fields f;
  f.field = 2 * radius.x + 1;
  f.mask = (1u << f.field) - 1;
  f.group = 32 / f.field;
  f.rows = (2 * radius.z + 1) * (2 * radius.y + 1);
  return f;
}

// Fills the plane entries of one tile, and reports which planes hold a one and which a zero. Bit c
// of an entry is the element rx columns left of column c.
template <typename T, u32 BITS, u32 WORDS>
DEV void slice(const Place& p, const T* x, const Rows& rows, const Tile& tile, const Keys& keys,
               const Radius& radius, u32 edges, u64 left, u64* ones, u64* zeros) {
  const u32 lane = threadIdx.x % 32;
  const u32 height = (u32)rows.tile + 2 * radius.y;
  const u32 used = tile.rows + 2 * radius.y;
  const T zero = key_of<T>(0, keys);
  u64 any = 0, all = ~0ull;
#pragma unroll 1
  for (u32 i = threadIdx.x / 32; i < (2 * radius.z + 1) * used * (WORDS + 1); i += THREADS / 32) {
    const u32 word = i % (WORDS + 1);
    const u32 line = i / (WORDS + 1);
    const u32 z = line / used;
    const u32 v = line % used;
    const i64 from = row_at(p, rows, tile, edges, tile.z + z - radius.z, tile.top + v - radius.y);
    // Columns further right are in no window.
    const i64 right = low((i64)left - radius.x + word * 32 + lane, (i64)p.width + radius.x - 1);
    const i64 column = index_at(right, (i64)p.width, edges);
    const T key = from < 0 || column < 0 ? zero : key_of<T>(x[from * p.width + column], keys);
    u64* entries = planes + ((z * height + v) * WORDS) * BITS;
#pragma unroll
    for (u32 half = 0; half < (BITS + 31) / 32; ++half) {
      u32 mine = 0;
#pragma unroll
      for (u32 b = 0; b < (BITS < 32 ? BITS : 32); ++b) {
        const u32 bits = __ballot_sync(~0u, key >> (half * 32 + b) & 1);
        if (lane == b) mine = bits;
      }
      const u32 bit = half * 32 + lane;
      if (bit < BITS) {
        if (mine != 0) any |= 1ull << bit;
        if (mine != ~0u) all &= ~(1ull << bit);
        u32* entry = (u32*)(entries + word * BITS + bit);
        if (word < WORDS) entry[0] = mine;
        if (word > 0) *(entry - 2 * BITS + 1) = mine;
      }
    }
  }
#pragma unroll
  for (u32 half = 0; half < (BITS + 31) / 32; ++half) {
    const u32 seen = __reduce_or_sync(~0u, (u32)(any >> (32 * half)));
    const u32 unseen = __reduce_or_sync(~0u, (u32)(~all >> (32 * half)));
    if (lane == 0) {
      atomicOr((u32*)ones + half, seen);
      atomicOr((u32*)zeros + half, unseen);
    }
  }
}

// The key of one element. `entries` points at the entry of the lane's 32 columns in the first row
// of the window; `pitch` is the distance of rows, and `skip` the distance from the row after the
// last row of an image to the first row of the next one.
template <typename T, u32 BITS, u32 N>
DEV T search(const u64* entries, u32 pitch, u32 skip, const Fields& f, u32 side, u32 lane, u32 rank,
             u64 ones, u64 zeros) {
  u32 live[N];
#pragma unroll
  for (u32 j = 0; j < N; ++j) {
    const u32 first = j * f.group;
    const u32 rows = first < f.rows ? (u32)low(f.rows - first, f.group) : 0;
    live[j] = (u32)((1ull << (rows * f.field)) - 1);
  }
  u64 found = 0;
#pragma unroll 1
  for (i64 b = (i64)BITS - 1; b >= 0; --b) {
    const u64 bit = 1ull << b;
    if (!(ones & bit)) continue;
    if (!(zeros & bit)) {
      found |= bit;
      continue;
    }
    const u64* at = entries + b;
    u32 plane[N];
    u32 below = 0;
    u32 row = 0, in_image = 0;
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      u32 word = 0;
#pragma unroll 1
      for (u32 k = 0; k < f.group && row < f.rows; ++k, ++row) {
        const u64 entry = *at;
        word |= (__funnelshift_r((u32)entry, (u32)(entry >> 32), lane) & f.mask) << (k * f.field);
        at += pitch;
        if (++in_image == side) {
          in_image = 0;
          at += skip;
        }
      }
      plane[j] = word;
      below += __popc(live[j] & ~word);
    }
    const u32 one = rank < below ? 0u : ~0u;
    rank -= below & one;
    if (one) found |= bit;
#pragma unroll
    for (u32 j = 0; j < N; ++j) live[j] &= ~(plane[j] ^ one);
  }
  return (T)found;
}

template <typename T, u32 BITS, u32 WORDS, u32 N>
DEV void rank_planes(const Place& p, const u8* x_bytes, u64 x_len, u8* y_bytes, u64 y_len,
                     const Keys& keys, const Radius& radius, u32 rank, u32 edges, u32 tile_rows) {
  __shared__ Rows rows;
  __shared__ Tile tile;
  __shared__ u64 ones, zeros;
  const T* x = (const T*)x_bytes;
  T* y = (T*)y_bytes;
  const u32 lane = threadIdx.x % 32;
  const u32 warp = threadIdx.x / 32;
  const Fields fields = fields_of(radius);
  const u32 pitch = WORDS * BITS;
  const u32 side = 2 * radius.y + 1;
  const u32 skip = (tile_rows + 2 * radius.y - side) * pitch;
  if (threadIdx.x == 0) rows = split(p, x_len / sizeof(T), y_len / sizeof(T), tile_rows);
  __syncthreads();
#pragma unroll 1
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(p, rows, index);
#pragma unroll 1
    for (u64 left = (u64)blockIdx.x * WORDS * 32; left < p.width;
         left += (u64)gridDim.x * WORDS * 32) {
      if (threadIdx.x == 0) ones = zeros = 0;
      __syncthreads();
      slice<T, BITS, WORDS>(p, x, rows, tile, keys, radius, edges, left, &ones, &zeros);
      __syncthreads();
#pragma unroll 1
      for (u32 i = warp; i < tile.rows * WORDS; i += THREADS / 32) {
        const u32 word = i % WORDS;
        const u32 row = i / WORDS;
        const u64 column = left + word * 32 + lane;
        if (column < p.width) {
          const u64* entries = planes + row * pitch + word * BITS;
          const T key =
              search<T, BITS, N>(entries, pitch, skip, fields, side, lane, rank, ones, zeros);
          y[(tile.out + row) * p.width + column] = element_of<T>(key, keys);
        }
      }
      __syncthreads();
    }
  }
}

// ---- the median of 3 x 3 x 3

constexpr u32 CUBE_ROWS = 32;

template <typename K> DEV void order(K& a, K& b) {
  const K least = a < b ? a : b;
  b = a < b ? b : a;
  a = least;
}

template <typename K> DEV void order(K& a, K& b, K& c) {
  order(a, b);
  order(b, c);
  order(a, b);
}

// The median of three rows of 3 x 3 keys, which are in order along z and along x.
template <typename K> DEV K median_of(const K (&rows)[3][3][3]) {
  K s[3][3][3];
#pragma unroll
  for (u32 z = 0; z < 3; ++z) {
#pragma unroll
    for (u32 i = 0; i < 3; ++i) {
#pragma unroll
      for (u32 k = 0; k < 3; ++k) s[z][i][k] = rows[k][z][i];
      order(s[z][i][0], s[z][i][1], s[z][i][2]);
    }
  }
  // Each of the others has at least 14 keys above it, or at least 14 below it.
  K c[19] = {s[0][0][2], s[0][1][1], s[0][1][2], s[0][2][0], s[0][2][1], s[0][2][2], s[1][0][1],
             s[1][0][2], s[1][1][0], s[1][1][1], s[1][1][2], s[1][2][0], s[1][2][1], s[2][0][0],
             s[2][0][1], s[2][0][2], s[2][1][0], s[2][1][1], s[2][2][0]};
  order(c[0], c[6]); order(c[15], c[18]); order(c[3], c[13]); order(c[5], c[12]);
  order(c[6], c[8]); order(c[5], c[17]); order(c[4], c[16]); order(c[5], c[10]); order(c[4], c[7]);
  order(c[1], c[8]); order(c[11], c[14]); order(c[7], c[9]); order(c[9], c[14]);
  order(c[4], c[13]); order(c[2], c[11]); order(c[2], c[7]); order(c[7], c[16]);
  order(c[11], c[16]); order(c[5], c[15]); order(c[8], c[13]); order(c[9], c[11]);
  order(c[7], c[13]); order(c[7], c[9]); order(c[5], c[9]); order(c[11], c[13]);
  order(c[9], c[11]); order(c[5], c[9]);
  return c[9];
}

template <typename T, typename K, u32 COLUMNS>
DEV void median_cube(const Place& p, const u8* x_bytes, u64 x_len, u8* y_bytes, u64 y_len,
                     const Keys& keys, u32 edges) {
  constexpr u32 STRIP = CUBE_ROWS * COLUMNS / THREADS;
  __shared__ T along_z[3][CUBE_ROWS + 2][COLUMNS + 2];
  __shared__ i64 lines[3][CUBE_ROWS + 2];
  __shared__ Rows rows;
  __shared__ Tile tile;
  const T* x = (const T*)x_bytes;
  T* y = (T*)y_bytes;
  const K zero = key_of<T>(0, keys);
  if (threadIdx.x == 0) rows = split(p, x_len / sizeof(T), y_len / sizeof(T), CUBE_ROWS);
  __syncthreads();
#pragma unroll 1
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(p, rows, index);
    __syncthreads();
    const u32 height = tile.rows + 2;
#pragma unroll 1
    for (u32 i = threadIdx.x; i < 3 * height; i += THREADS) {
      const u32 z = i / height, v = i % height;
      const i64 row = row_at(p, rows, tile, edges, tile.z + z - 1, tile.top + v - 1);
      lines[z][v] = row < 0 ? -1 : row * (i64)p.width;
    }
    __syncthreads();
#pragma unroll 1
    for (u64 left = (u64)blockIdx.x * COLUMNS; left < p.width; left += (u64)gridDim.x * COLUMNS) {
#pragma unroll 1
      for (u32 i = threadIdx.x; i < height * (COLUMNS + 2); i += THREADS) {
        const u32 v = i / (COLUMNS + 2), c = i % (COLUMNS + 2);
        // Columns further right are in no window.
        const i64 right = low((i64)left - 1 + c, (i64)p.width);
        const i64 column = index_at(right, (i64)p.width, edges);
        K three[3];
#pragma unroll
        for (u32 z = 0; z < 3; ++z) {
          const i64 start = lines[z][v];
          three[z] = start < 0 || column < 0 ? zero : key_of<T>(x[start + column], keys);
        }
        order(three[0], three[1], three[2]);
#pragma unroll
        for (u32 z = 0; z < 3; ++z) along_z[z][v][c] = (T)three[z];
      }
      __syncthreads();
      const u32 c = threadIdx.x % COLUMNS;
      const u32 first = threadIdx.x / COLUMNS * STRIP;
      if (left + c < p.width) {
        // A ring of the rows that the window of an element has.
        K ring[3][3][3];
#pragma unroll
        for (u32 j = 0; j < STRIP + 2; ++j) {
          if (first + j >= height) break;
#pragma unroll
          for (u32 z = 0; z < 3; ++z) {
            K(&row)[3] = ring[j % 3][z];
#pragma unroll
            for (u32 i = 0; i < 3; ++i) row[i] = along_z[z][first + j][c + i];
            order(row[0], row[1], row[2]);
          }
          if (j < 2) continue;
          const K key = median_of(ring);
          y[(tile.out + first + j - 2) * (i64)p.width + left + c] = element_of<T>((T)key, keys);
        }
      }
      __syncthreads();
    }
  }
}

#define RANK_ENTRY(NAME, T, BITS, WORDS, N)                                                       \
  extern "C" __global__ void __launch_bounds__(256, 4)                                            \
      NAME(Place p, const u8* x, u64 x_len, u8* y, u64 y_len, Keys keys, Radius radius, u32 rank, \
           u32 edges, u32 tile_rows) {                                                            \
    rank_planes<T, BITS, WORDS, N>(p, x, x_len, y, y_len, keys, radius, rank, edges, tile_rows);  \
  }

RANK_ENTRY(rank_8_w1, u8, 8, 4, 1)
RANK_ENTRY(rank_8_w3, u8, 8, 4, 3)
RANK_ENTRY(rank_8_w8, u8, 8, 4, 8)
RANK_ENTRY(rank_8_w13, u8, 8, 4, 13)
RANK_ENTRY(rank_16_w1, u16, 16, 4, 1)
RANK_ENTRY(rank_16_w3, u16, 16, 4, 3)
RANK_ENTRY(rank_16_w8, u16, 16, 4, 8)
RANK_ENTRY(rank_16_w13, u16, 16, 4, 13)
RANK_ENTRY(rank_32_w1, u32, 32, 2, 1)
RANK_ENTRY(rank_32_w3, u32, 32, 2, 3)
RANK_ENTRY(rank_32_w8, u32, 32, 2, 8)
RANK_ENTRY(rank_32_w13, u32, 32, 2, 13)
RANK_ENTRY(rank_64_w1, u64, 64, 1, 1)
RANK_ENTRY(rank_64_w3, u64, 64, 1, 3)
RANK_ENTRY(rank_64_w8, u64, 64, 1, 8)
RANK_ENTRY(rank_64_w13, u64, 64, 1, 13)

#define CUBE_ENTRY(NAME, T, K, COLUMNS)                                                           \
  extern "C" __global__ void __launch_bounds__(256, 3)                                            \
      NAME(Place p, const u8* x, u64 x_len, u8* y, u64 y_len, Keys keys, Radius, u32, u32 edges,  \
           u32) {                                                                                 \
    median_cube<T, K, COLUMNS>(p, x, x_len, y, y_len, keys, edges);                               \
  }

CUBE_ENTRY(median_cube_8, u8, u32, 64)
CUBE_ENTRY(median_cube_16, u16, u32, 64)
CUBE_ENTRY(median_cube_32, u32, u32, 64)
CUBE_ENTRY(median_cube_64, u64, u64, 32)
