// What the operations on neighbourhoods share: the rows of a call, cut into tiles, and the elements
// that stand beyond the edges.
//
// The data are volumes of `depth` images of `height` rows of `width` elements. Global row g belongs
// to image g / height, and image i to volume i / depth. A launch gets some output rows, y, and the
// rows of the input that their windows reach, x. An element beyond the edges stands for an element
// of the same volume, or for zero. The caller has put all of them into x; the indices are held to
// the rows of x all the same.
//
// After elements.cuh.
constexpr u32 THREADS = 256;

DEV i64 low(i64 a, i64 b) { return a < b ? a : b; }
DEV i64 high(i64 a, i64 b) { return a > b ? a : b; }
DEV i64 hold(i64 v, i64 least, i64 most) { return low(high(v, least), most); }

// The numbers of `Edges`.
constexpr u32 NEAREST = 0, REFLECT = 1, MIRROR = 2, CONSTANT = 3;

// The index that stands at position `v` beyond the edges, of `n` in all; -1 for a zero. `v` may be
// further away than the axis is long. The divisions stand here once for all entries.
__device__ __noinline__ i64 index_beyond(i64 v, i64 n, u32 edges) {
  if (edges == NEAREST) return hold(v, 0, n - 1);
  if (edges == CONSTANT) return -1;
  const i64 period = edges == REFLECT ? 2 * n : edges == MIRROR ? high(2 * n - 2, 1) : n;
  const i64 rest = v % period;
  const i64 at = rest < 0 ? rest + period : rest;
  return at < n ? at : edges == REFLECT ? period - 1 - at : period - at;
}

DEV i64 index_at(i64 v, i64 n, u32 edges) {
  return v >= 0 && v < n ? v : index_beyond(v, n, edges);
}

// The first argument of every entry; `Place` in window.rs.
struct Place {
  u64 width, height, depth, first_out, first_in;
};

// Elements of a window on each side of its middle.
struct Radius {
  u32 z, y, x;
};

// The output rows of a call cut into tiles of at most `tile` rows that never cross an image: `head`
// of them in the first image, `full` in each of the next, `count` in all.
struct Rows {
  u64 first, end, image, head, full, count, tile;
  i64 in_first, in_rows;
};

DEV Rows split(const Place& p, u64 x_elements, u64 y_elements, u32 tile) {
  Rows r;
  r.count = 0;
  r.tile = tile;
  const bool empty = p.width == 0 || p.height == 0 || p.depth == 0 || tile == 0;
  if (empty || x_elements < p.width || y_elements < p.width) return r;
  r.first = p.first_out;
  r.end = p.first_out + y_elements / p.width;
  r.in_first = (i64)p.first_in;
  r.in_rows = (i64)(x_elements / p.width);
  r.image = r.first / p.height;
  const u64 last = (r.end - 1) / p.height;
  r.full = (p.height + tile - 1) / tile;
  if (last == r.image) {
    r.head = (r.end - r.first + tile - 1) / tile;
    r.count = r.head;
  } else {
    r.head = ((r.image + 1) * p.height - r.first + tile - 1) / tile;
    r.count =
        r.head + (last - r.image - 1) * r.full + (r.end - last * p.height + tile - 1) / tile;
  }
  return r;
}

// One tile of rows: the first of its rows in y (out) and in its image (top), the number of the
// image in its volume (z), the first row of the volume counted from the first row of x (base).
struct Tile {
  i64 out, top, z, base;
  u32 rows;
};

DEV Tile tile_at(const Place& p, const Rows& r, u64 index) {
  u64 image = r.image;
  u64 start = r.first + index * r.tile;
  if (index >= r.head) {
    const u64 skipped = index - r.head;
    image = r.image + 1 + skipped / r.full;
    start = image * p.height + skipped % r.full * r.tile;
  }
  const u64 stop = image * p.height + p.height;
  Tile t;
  t.out = (i64)(start - r.first);
  t.top = (i64)(start - image * p.height);
  t.z = (i64)(image % p.depth);
  t.base = (i64)(image / p.depth * p.depth * p.height) - r.in_first;
  t.rows = (u32)low((i64)(r.end < stop ? r.end : stop) - (i64)start, (i64)r.tile);
  return t;
}

// The row of x with row `v` of image `z` of the tile's volume, which may lie beyond the edges; -1
// for zeros.
DEV i64 row_at(const Place& p, const Rows& r, const Tile& t, u32 edges, i64 z, i64 v) {
  const i64 image = index_at(z, (i64)p.depth, edges);
  const i64 row = index_at(v, (i64)p.height, edges);
  if (image < 0 || row < 0) return -1;
  return hold(t.base + image * (i64)p.height + row, 0, r.in_rows - 1);
}
