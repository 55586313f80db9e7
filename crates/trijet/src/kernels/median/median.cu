// median: exact (2r+1) x (2r+1) median of 8 and 16 bit images, r = 1..7, with five ways to continue
// an image beyond its edges (`edges`).
//
// The data are a stack of images, each `height` rows of `width` pixels. Global row g belongs to
// image g / height. A launch gets a chunk with its halo: x holds rows from first_in_row on, y rows
// from first_out_row on. The window of output row g is rows g-r..=g+r; a row beyond the edges of
// the image of g stands for a row of this image, or for zeros. The caller has put all of them into
// x; the indices are held to x_len and y_len all the same.
//
// Rows are done in pairs; where a tile has an odd number of them, the last pair reads one row of
// old shared memory for a result that is dropped.
//
// A block takes tiles of TILE_ROWS rows that never cross an image, in a grid-stride loop over both
// grid axes: any grid is right. Launch with blocks of 256 x 1 x 1 threads, no dynamic shared
// memory.
//
// r = 1, 2: selection networks of min and max in registers. Two horizontal neighbours share their
// sorted columns, two vertical ones (r = 2) the sort of the common rows. 8 bit pixels travel as
// two f16 subnormals in one register: the order of non-negative halves is the order of their bit
// patterns, so one min.f16x2 (sm_80; the u16x2 form needs sm_90) does two pixels. After columns
// and rows are sorted, 13 of 25 values can still be the median at r = 2; the last 19 exchanges
// were searched for, and hold for all 252 monotone 0/1 matrices, which by the 0/1 principle is all
// inputs. Estimate per pixel: about 16 (r = 1) and 65 (r = 2) instructions for u8, twice that for
// u16; at 64 lanes per clock and SM that is above 200 GB/s of input on 132 SMs: bound by the copy
// that feeds it.
//
// r = 3..7: bisection over bit planes. The tile is turned into one bit plane per pixel bit
// (ballot), and the window of a pixel is then 2 to 8 words per plane. From the top bit down: count
// the zeros among the candidates, keep the half that holds the median. Full adders (two LOP3) cut
// the population counts, which run at a quarter of the rate, from 8 words to 4. Two vertical
// neighbours share the common rows. Estimate per pixel and plane: 28 (r = 3) to 75 (r = 7)
// instructions. A sliding histogram costs about 150 shared accesses per 8 bit pixel at r = 7
// (twice an instruction's issue cost), wants two levels and no registers at 16 bit, and its time
// depends on the data; comparing every window pixel against a trial value costs 225 per plane at
// r = 7. A plane that is constant over the tile (12 bit cameras, flat regions) is skipped.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define DEV __device__ __forceinline__

constexpr u32 THREADS = 256;
constexpr u32 TILE_ROWS = 32;

// ---- tiles ------------------------------------------------------------------

DEV i64 low(i64 a, i64 b) { return a < b ? a : b; }
DEV i64 high(i64 a, i64 b) { return a > b ? a : b; }
DEV i64 hold(i64 v, i64 least, i64 most) { return low(high(v, least), most); }

// The numbers of `Edges` in mod.rs.
constexpr u32 NEAREST = 0, REFLECT = 1, MIRROR = 2, CONSTANT = 3;

// The row or column of an image that stands at place `v`, of `n` in all; -1 for a zero. A place
// beyond the edges may be further away than the image is long.
DEV i64 place(i64 v, i64 n, u32 edges) {
  if (v >= 0 && v < n) return v;
  if (edges == NEAREST) return hold(v, 0, n - 1);
  if (edges == CONSTANT) return -1;
  const i64 turn = edges == REFLECT ? 2 * n : edges == MIRROR ? high(2 * n - 2, 1) : n;
  const i64 rest = v % turn;
  const i64 at = rest < 0 ? rest + turn : rest;
  return at < n ? at : edges == REFLECT ? turn - 1 - at : turn - at;
}

DEV u64 tiles_of(u64 rows) { return (rows + TILE_ROWS - 1) / TILE_ROWS; }

// The output rows of one chunk cut into row tiles: `head` of them in the first image, `full` in
// each of the next, `count` in all.
struct Rows {
  u64 first, end, image, head, full, count;
  i64 in_first, in_rows;
};

DEV Rows split(u32 width, u32 height, u64 first_out_row, u64 first_in_row, u64 x_len, u64 y_len) {
  Rows r;
  r.count = 0;
  if (width == 0 || height == 0 || x_len < width || y_len < width) return r;
  r.first = first_out_row;
  r.end = first_out_row + y_len / width;
  r.in_first = (i64)first_in_row;
  r.in_rows = (i64)(x_len / width);
  r.image = r.first / height;
  const u64 last = (r.end - 1) / height;
  r.full = tiles_of(height);
  if (last == r.image) {
    r.head = tiles_of(r.end - r.first);
    r.count = r.head;
  } else {
    r.head = tiles_of((r.image + 1) * height - r.first);
    r.count = r.head + (last - r.image - 1) * r.full + tiles_of(r.end - last * height);
  }
  return r;
}

// One row tile: output rows `start..start + rows` of y, counted from its first row (out), and the
// first of their rows (top) and of those of their image (base), counted from the first row of x.
struct Tile {
  i64 out, top, base;
  u32 rows;
};

// The row of x at row `v` of a window, both counted from the first row of x; -1 for zeros.
DEV i64 row_at(const Rows& r, const Tile& t, u32 height, u32 edges, i64 v) {
  const i64 row = place(v - t.base, height, edges);
  return row < 0 ? -1 : hold(t.base + row, 0, r.in_rows - 1);
}

DEV Tile tile_at(const Rows& r, u32 height, u64 index) {
  u64 image = r.image;
  u64 start = r.first + index * TILE_ROWS;
  if (index >= r.head) {
    const u64 skipped = index - r.head;
    image = r.image + 1 + skipped / r.full;
    start = image * height + skipped % r.full * TILE_ROWS;
  }
  const i64 base = (i64)(image * height);
  const i64 stop = low((i64)r.end, base + height);
  Tile t;
  t.out = (i64)(start - r.first);
  t.top = (i64)start - r.in_first;
  t.base = base - r.in_first;
  t.rows = (u32)low(stop - (i64)start, TILE_ROWS);
  return t;
}

// ---- r = 1, 2: selection networks -------------------------------------------

// How pixels lie in a 32 bit word. A word is `2 * PACK` pixels; a lane register holds PACK pixels
// that lie two columns apart, so that `even` and `odd` lanes together are one word.
template <typename T> struct Lanes;

template <> struct Lanes<u8> {
  static constexpr u32 PER_WORD = 4;
  static DEV u32 min(u32 a, u32 b) {
    u32 v;
    asm("min.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
  }
  static DEV u32 max(u32 a, u32 b) {
    u32 v;
    asm("max.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
  }
  // lane[k] holds the pixels at columns k - 2 and k of word c; l and r are its neighbours.
  static DEV void unpack(u32 l, u32 c, u32 r, u32 (&lane)[6]) {
    const u32 before = l >> 16 | c << 16;
    const u32 after = c >> 16 | r << 16;
    lane[0] = before & 0x00ff00ff;
    lane[1] = before >> 8 & 0x00ff00ff;
    lane[2] = c & 0x00ff00ff;
    lane[3] = c >> 8 & 0x00ff00ff;
    lane[4] = after & 0x00ff00ff;
    lane[5] = after >> 8 & 0x00ff00ff;
  }
  static DEV u32 pack(u32 even, u32 odd) { return even | odd << 8; }
};

template <> struct Lanes<u16> {
  static constexpr u32 PER_WORD = 2;
  static DEV u32 min(u32 a, u32 b) { return a < b ? a : b; }
  static DEV u32 max(u32 a, u32 b) { return a < b ? b : a; }
  static DEV void unpack(u32 l, u32 c, u32 r, u32 (&lane)[6]) {
    lane[0] = l & 0xffff;
    lane[1] = l >> 16;
    lane[2] = c & 0xffff;
    lane[3] = c >> 16;
    lane[4] = r & 0xffff;
    lane[5] = r >> 16;
  }
  static DEV u32 pack(u32 even, u32 odd) { return even | odd << 16; }
};

template <typename T> DEV void exchange(u32& a, u32& b) {
  const u32 least = Lanes<T>::min(a, b);
  b = Lanes<T>::max(a, b);
  a = least;
}

template <typename T> DEV void sort2(u32* v) { exchange<T>(v[0], v[1]); }

template <typename T> DEV void sort4(u32* v) {
  exchange<T>(v[0], v[1]);
  exchange<T>(v[2], v[3]);
  exchange<T>(v[0], v[2]);
  exchange<T>(v[1], v[3]);
  exchange<T>(v[1], v[2]);
}

// out = sorted(v[0..N] and extra), v sorted.
template <typename T, int N> DEV void insert(const u32* v, u32 extra, u32* out) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out[i] = Lanes<T>::min(v[i], extra);
    extra = Lanes<T>::max(v[i], extra);
  }
  out[N] = extra;
}

template <typename T> DEV u32 median3(u32 a, u32 b, u32 c) {
  exchange<T>(a, b);
  return Lanes<T>::max(a, Lanes<T>::min(b, c));
}

// Columns sorted: column[k][i] is the i-th smallest of lane k. Gives the medians around the even
// and the odd lane.
template <typename T> DEV void select3(const u32 (&column)[6][5], u32& even, u32& odd) {
  u32 least[2], most[2], middle[2];
  const u32 least_both = Lanes<T>::max(column[2][0], column[3][0]);
  const u32 most_both = Lanes<T>::min(column[2][2], column[3][2]);
#pragma unroll
  for (int o = 0; o < 2; ++o) {
    const u32* outer = column[o == 0 ? 1 : 4];
    least[o] = Lanes<T>::max(least_both, outer[0]);
    most[o] = Lanes<T>::min(most_both, outer[2]);
    middle[o] = median3<T>(column[2][1], column[3][1], outer[1]);
  }
  even = median3<T>(least[0], middle[0], most[0]);
  odd = median3<T>(least[1], middle[1], most[1]);
}

// m is sorted along both axes. The 13 values that can be the median, then the searched network.
template <typename T> DEV u32 select25(const u32 (&m)[5][5]) {
  u32 c[13] = {m[0][3], m[0][4], m[1][2], m[1][3], m[1][4], m[2][1], m[2][2],
               m[2][3], m[3][0], m[3][1], m[3][2], m[4][0], m[4][1]};
  exchange<T>(c[9], c[4]);
  exchange<T>(c[2], c[12]);
  exchange<T>(c[5], c[3]);
  exchange<T>(c[8], c[3]);
  exchange<T>(c[2], c[9]);
  exchange<T>(c[0], c[9]);
  exchange<T>(c[11], c[3]);
  exchange<T>(c[9], c[3]);
  exchange<T>(c[11], c[9]);
  exchange<T>(c[11], c[6]);
  exchange<T>(c[3], c[6]);
  exchange<T>(c[9], c[11]);
  exchange<T>(c[10], c[11]);
  exchange<T>(c[10], c[7]);
  exchange<T>(c[3], c[5]);
  exchange<T>(c[5], c[10]);
  exchange<T>(c[12], c[10]);
  exchange<T>(c[12], c[1]);
  exchange<T>(c[5], c[12]);
  return c[12];
}

template <typename T> DEV void select5(const u32 (&column)[6][5], u32& even, u32& odd) {
  u32 m[2][5][5];
#pragma unroll
  for (int i = 0; i < 5; ++i) {
    u32 shared_lanes[4] = {column[1][i], column[2][i], column[3][i], column[4][i]};
    sort4<T>(shared_lanes);
    insert<T, 4>(shared_lanes, column[0][i], m[0][i]);
    insert<T, 4>(shared_lanes, column[5][i], m[1][i]);
  }
  even = select25<T>(m[0]);
  odd = select25<T>(m[1]);
}

// The word of pixels at columns `column..` of row `row` of x, or of zeros. A word that lies in the
// row is read whole: two aligned reads where the row is not aligned.
template <typename T>
DEV u32 read_word(const T* x, u64 x_len, u32 width, u32 edges, i64 row, i64 column) {
  constexpr u32 PER_WORD = Lanes<T>::PER_WORD;
  if (row < 0) return 0;
  const T* line = x + row * width;
  if (column >= 0 && column + PER_WORD <= width) {
    const u64 address = (u64)(line + column);
    const u64 aligned = address & ~3ull;
    const u32 shift = (u32)(address - aligned) * 8;
    if (shift == 0) return *(const u32*)aligned;
    if (aligned >= (u64)x && aligned + 8 <= (u64)(x + x_len)) {
      const u32 first = ((const u32*)aligned)[0];
      return first >> shift | ((const u32*)aligned)[1] << (32 - shift);
    }
  }
  u32 word = 0;
#pragma unroll
  for (u32 e = 0; e < PER_WORD; ++e) {
    const i64 from = place(column + e, width, edges);
    word |= (from < 0 ? 0u : (u32)line[from]) << (32 / PER_WORD * e);
  }
  return word;
}

template <typename T> DEV void write_word(T* y, u32 width, i64 row, u32 column, u32 word) {
  constexpr u32 PER_WORD = Lanes<T>::PER_WORD;
  T* at = y + row * width + column;
  if ((u64)column + PER_WORD <= width && ((u64)at & 3) == 0) {
    *(u32*)at = word;
    return;
  }
#pragma unroll
  for (u32 e = 0; e < PER_WORD; ++e) {
    if (column + e < width) at[e] = (T)(word >> (32 / PER_WORD * e));
  }
}

// Medians of one word of pixels in two output rows. `tile` points at the word in the top row of
// the upper window; the common rows of both windows are sorted once per lane.
template <int R, typename T, int STRIDE>
DEV void select_word(const u32* tile, u32 (&word)[2]) {
  constexpr int D = 2 * R + 1;
  u32 lane[D + 1][6];
#pragma unroll
  for (int i = 0; i <= D; ++i) {
    const u32* at = tile + i * STRIDE;
    Lanes<T>::unpack(at[-1], at[0], at[1], lane[i]);
  }
  u32 column[2][6][5];
#pragma unroll
  for (int k = 2 - R; k < 4 + R; ++k) {
    u32 common[2 * R];
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) common[i] = lane[i + 1][k];
    if constexpr (R == 1) sort2<T>(common);
    if constexpr (R == 2) sort4<T>(common);
    insert<T, 2 * R>(common, lane[0][k], column[0][k]);
    insert<T, 2 * R>(common, lane[D][k], column[1][k]);
  }
#pragma unroll
  for (int o = 0; o < 2; ++o) {
    u32 even, odd;
    if constexpr (R == 1) select3<T>(column[o], even, odd);
    if constexpr (R == 2) select5<T>(column[o], even, odd);
    word[o] = Lanes<T>::pack(even, odd);
  }
}

template <int R, typename T>
DEV void median_network(u32 width, u32 height, u64 first_out_row, u64 first_in_row, const T* x,
                        u64 x_len, T* y, u64 y_len, u32 edges) {
  constexpr u32 PER_WORD = Lanes<T>::PER_WORD;
  constexpr u32 WORDS = 32 + 2;
  constexpr u32 TILE_COLUMNS = 32 * PER_WORD;
  __shared__ u32 words[(TILE_ROWS + 2 * R) * WORDS];
  __shared__ Rows rows;
  __shared__ Tile tile;
  const u32 lane = threadIdx.x % 32;
  const u32 warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    rows = split(width, height, first_out_row, first_in_row, x_len, y_len);
  }
  __syncthreads();
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(rows, height, index);
    __syncthreads();
    for (u64 left = (u64)blockIdx.x * TILE_COLUMNS; left < width;
         left += (u64)gridDim.x * TILE_COLUMNS) {
      for (u32 i = threadIdx.x; i < (tile.rows + 2 * R) * WORDS; i += THREADS) {
        const i64 row = row_at(rows, tile, height, edges, tile.top - R + i / WORDS);
        const i64 column = (i64)left + ((i64)(i % WORDS) - 1) * PER_WORD;
        words[i] =
            read_word<T>(x, x_len, width, edges, row, low(column, (i64)width + PER_WORD));
      }
      __syncthreads();
      const u64 column = left + lane * PER_WORD;
      for (u32 row = warp * 2; row < tile.rows && column < width; row += THREADS / 32 * 2) {
        u32 word[2];
        select_word<R, T, WORDS>(words + row * WORDS + lane + 1, word);
        write_word<T>(y, width, tile.out + row, (u32)column, word[0]);
        if (row + 1 < tile.rows) {
          write_word<T>(y, width, tile.out + row + 1, (u32)column, word[1]);
        }
      }
      __syncthreads();
    }
  }
}

// ---- r = 3..7: bisection over bit planes ------------------------------------

// How the rows of a window share words: GROUP rows of FIELD bits in each of WORDS words. Rows
// 0..2R are common to two vertical neighbours; row 2R is the neighbour's own, in the last word.
template <int R> struct Window {
  static constexpr int SIDE = 2 * R + 1;
  static constexpr int FIELD = R == 3 ? 8 : R == 4 ? 10 : 16;
  static constexpr int GROUP = 32 / FIELD;
  static constexpr int WORDS = 2 * R / GROUP + 1;
  static constexpr u32 FIELD_MASK = (1u << SIDE) - 1;
  static __device__ constexpr u32 mask(int word) {
    u32 bits = 0;
    for (int i = 0; i < GROUP; ++i) {
      if (word * GROUP + i < SIDE) bits |= FIELD_MASK << (FIELD * i);
    }
    return bits;
  }
};

// Puts `field` into place k of `word`. Bits beyond the window's side may be junk in it: the
// candidate mask clears them, except where a shifted field would overlap the next one.
template <int R> DEV u32 put(u32 word, int k, u32 field) {
  if (k == 0) return Window<R>::FIELD == 10 ? field & Window<R>::FIELD_MASK : field;
  if constexpr (Window<R>::FIELD == 16) return __byte_perm(word, field, 0x5410);
  if constexpr (Window<R>::FIELD == 8) {
    return __byte_perm(word, field, k == 1 ? 0x3240 : k == 2 ? 0x3410 : 0x4210);
  }
  return word | (field & Window<R>::FIELD_MASK) << (Window<R>::FIELD * k);
}

DEV void add(u32 a, u32 b, u32 c, u32& sum, u32& carry) {
  sum = a ^ b ^ c;
  carry = (a & b) | (c & (a ^ b));
}

// Set bits in N words.
template <int N> DEV u32 count(const u32* w) {
  if constexpr (N == 2) return __popc(w[0]) + __popc(w[1]);
  u32 s0, c0;
  add(w[0], w[1], w[2], s0, c0);
  if constexpr (N == 3) return __popc(s0) + 2 * __popc(c0);
  if constexpr (N >= 6) {
    u32 s1, c1;
    add(w[3], w[4], w[5], s1, c1);
    if constexpr (N == 6) return __popc(s0) + __popc(s1) + 2 * (__popc(c0) + __popc(c1));
    if constexpr (N >= 7) {
      u32 s, c2, t, f;
      add(s0, s1, w[6], s, c2);
      add(c0, c1, c2, t, f);
      const u32 seven = __popc(s) + 2 * __popc(t) + 4 * __popc(f);
      if constexpr (N == 7) return seven;
      if constexpr (N == 8) return seven + __popc(w[7]);
    }
  }
}

// One bisection: the words still in the running, the rank sought among them, the bits found.
template <int R> struct Search {
  u32 live[Window<R>::WORDS];
  u32 rank;
  u32 found;

  DEV void begin() {
#pragma unroll
    for (int j = 0; j < Window<R>::WORDS; ++j) live[j] = Window<R>::mask(j);
    rank = Window<R>::SIDE * Window<R>::SIDE / 2;
    found = 0;
  }

  DEV void step(const u32* plane, u32 bit) {
    u32 zeros[Window<R>::WORDS];
#pragma unroll
    for (int j = 0; j < Window<R>::WORDS; ++j) zeros[j] = live[j] & ~plane[j];
    const u32 below = count<Window<R>::WORDS>(zeros);
    const u32 one = rank < below ? 0u : ~0u;
    rank -= below & one;
    found |= one & bit;
#pragma unroll
    for (int j = 0; j < Window<R>::WORDS; ++j) live[j] &= ~(plane[j] ^ one);
  }
};

constexpr u32 PLANE_COLUMNS = 128;
constexpr u32 PLANE_WORDS = PLANE_COLUMNS / 32;

// Two medians, one above the other. `planes` points at the entry of the lane's 32 columns in the
// top row of the upper window; entries of one row are STRIDE apart. Bit c of an entry is the pixel
// R columns left of column c.
template <int R, u32 BITS, u32 STRIDE>
DEV void search_pair(const u64* planes, u32 lane, u32 ones, u32 zeros, u32 (&found)[2]) {
  using W = Window<R>;
  constexpr int OWN_WORD = 2 * R / W::GROUP;
  constexpr int OWN_PLACE = 2 * R % W::GROUP;
  Search<R> upper, lower;
  upper.begin();
  lower.begin();
#pragma unroll 1
  for (int b = (int)BITS - 1; b >= 0; --b) {
    const u32 bit = 1u << b;
    if (!(ones & bit)) continue;
    if (!(zeros & bit)) {
      upper.found |= bit;
      lower.found |= bit;
      continue;
    }
    u32 plane[W::WORDS];
    u32 field[W::SIDE + 1];
#pragma unroll
    for (int i = 0; i <= W::SIDE; ++i) {
      const u64 entry = planes[(u32)i * STRIDE + (u32)b];
      field[i] = __funnelshift_r((u32)entry, (u32)(entry >> 32), lane);
    }
#pragma unroll
    for (int i = 0; i < 2 * R; ++i) {
      u32& word = plane[i / W::GROUP];
      word = put<R>(word, i % W::GROUP, field[i + 1]);
    }
    const u32 common = plane[OWN_WORD];
    plane[OWN_WORD] = put<R>(common, OWN_PLACE, field[0]);
    upper.step(plane, bit);
    plane[OWN_WORD] = put<R>(common, OWN_PLACE, field[W::SIDE]);
    lower.step(plane, bit);
  }
  found[0] = upper.found;
  found[1] = lower.found;
}

// Fills the plane entries of one tile and reports which planes hold a one and which a zero.
template <int R, typename T, u32 BITS>
DEV void slice(const T* x, u32 width, u32 height, u32 edges, const Rows& rows, const Tile& tile,
               u64 left, u64* planes, u32* ones, u32* zeros) {
  const u32 lane = threadIdx.x % 32;
  u32 any = 0, all = ~0u;
  for (u32 i = threadIdx.x / 32; i < (tile.rows + 2 * R) * (PLANE_WORDS + 1);
       i += THREADS / 32) {
    const u32 row = i / (PLANE_WORDS + 1);
    const u32 word = i % (PLANE_WORDS + 1);
    const i64 from = row_at(rows, tile, height, edges, tile.top - R + row);
    // Columns further right are in no window.
    const i64 right = low((i64)left - R + word * 32 + lane, (i64)width + R - 1);
    const i64 column = place(right, width, edges);
    const u32 pixel = from < 0 || column < 0 ? 0 : x[from * width + column];
    u32 mine = 0;
#pragma unroll
    for (u32 b = 0; b < BITS; ++b) {
      const u32 bits = __ballot_sync(~0u, pixel >> b & 1);
      if (lane == b) mine = bits;
    }
    if (lane < BITS) {
      any |= mine;
      all &= mine;
      u32* entry = (u32*)(planes + (row * PLANE_WORDS + word) * BITS + lane);
      if (word < PLANE_WORDS) entry[0] = mine;
      if (word > 0) *(entry - 2 * BITS + 1) = mine;
    }
  }
  if (lane < BITS && any) atomicOr(ones, 1u << lane);
  if (lane < BITS && ~all) atomicOr(zeros, 1u << lane);
}

template <int R, typename T, u32 BITS>
DEV void median_planes(u32 width, u32 height, u64 first_out_row, u64 first_in_row, const T* x,
                       u64 x_len, T* y, u64 y_len, u32 edges) {
  constexpr u32 STRIDE = PLANE_WORDS * BITS;
  __shared__ u64 planes[(TILE_ROWS + 2 * R) * STRIDE];
  __shared__ Rows rows;
  __shared__ Tile tile;
  __shared__ u32 ones, zeros;
  const u32 lane = threadIdx.x % 32;
  const u32 warp = threadIdx.x / 32;
  if (threadIdx.x == 0) {
    rows = split(width, height, first_out_row, first_in_row, x_len, y_len);
  }
  __syncthreads();
  for (u64 index = blockIdx.y; index < rows.count; index += gridDim.y) {
    if (threadIdx.x == 0) tile = tile_at(rows, height, index);
    for (u64 left = (u64)blockIdx.x * PLANE_COLUMNS; left < width;
         left += (u64)gridDim.x * PLANE_COLUMNS) {
      if (threadIdx.x == 0) ones = zeros = 0;
      __syncthreads();
      slice<R, T, BITS>(x, width, height, edges, rows, tile, left, planes, &ones, &zeros);
      __syncthreads();
      const u32 word = warp % PLANE_WORDS;
      const u64 column = left + word * 32 + lane;
      if (left + word * 32 < width) {
        for (u32 row = warp / PLANE_WORDS * 2; row < tile.rows;
             row += THREADS / 32 / PLANE_WORDS * 2) {
          u32 found[2];
          search_pair<R, BITS, STRIDE>(planes + row * STRIDE + word * BITS, lane, ones, zeros,
                                       found);
          if (column < width) {
            T* at = y + (tile.out + row) * width + column;
            at[0] = (T)found[0];
            if (row + 1 < tile.rows) at[width] = (T)found[1];
          }
        }
      }
      __syncthreads();
    }
  }
}

// ---- entries ----------------------------------------------------------------

// BLOCKS per SM caps the registers at a point where none has to be spilled.

#define MEDIAN_ENTRY(BLOCKS, NAME, T, ...)                                                      \
  extern "C" __global__ void __launch_bounds__(256, BLOCKS)                                     \
      NAME(u32 width, u32 height, u64 first_out_row, u64 first_in_row, const T* x, u64 x_len,   \
           T* y, u64 y_len, u32 edges) {                                                        \
    __VA_ARGS__(width, height, first_out_row, first_in_row, x, x_len, y, y_len, edges);         \
  }

MEDIAN_ENTRY(5, median_r1_u8, u8, median_network<1, u8>)
MEDIAN_ENTRY(3, median_r2_u8, u8, median_network<2, u8>)
MEDIAN_ENTRY(4, median_r3_u8, u8, median_planes<3, u8, 8>)
MEDIAN_ENTRY(4, median_r4_u8, u8, median_planes<4, u8, 8>)
MEDIAN_ENTRY(4, median_r5_u8, u8, median_planes<5, u8, 8>)
MEDIAN_ENTRY(4, median_r6_u8, u8, median_planes<6, u8, 8>)
MEDIAN_ENTRY(4, median_r7_u8, u8, median_planes<7, u8, 8>)
MEDIAN_ENTRY(5, median_r1_u16, u16, median_network<1, u16>)
MEDIAN_ENTRY(3, median_r2_u16, u16, median_network<2, u16>)
MEDIAN_ENTRY(4, median_r3_u16, u16, median_planes<3, u16, 16>)
MEDIAN_ENTRY(4, median_r4_u16, u16, median_planes<4, u16, 16>)
MEDIAN_ENTRY(4, median_r5_u16, u16, median_planes<5, u16, 16>)
MEDIAN_ENTRY(4, median_r6_u16, u16, median_planes<6, u16, 16>)
MEDIAN_ENTRY(4, median_r7_u16, u16, median_planes<7, u16, 16>)
