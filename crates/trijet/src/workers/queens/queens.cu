// A board of n columns with queens in its first rows: the columns and both diagonals that they attack (16 bits each), the
// number of rows with a queen (4 bits) and n (4 bits).
DEV u64 board(u32 columns, u32 left, u32 right, u32 row, u32 n) {
  return (u64)columns | (u64)left << 16 | (u64)right << 32 | (u64)row << 48 | (u64)n << 52;
}

// The solutions of a board, without recursion.
DEV u32 count(u32 n, u32 rows, u32 columns0, u32 left0, u32 right0) {
  const u32 all = (1u << n) - 1;
  u32 columns[16], left[16], right[16], open[16], solutions = 0;
  int depth = 0;
  if (rows == 0) return 1;
  columns[0] = columns0; left[0] = left0; right[0] = right0; open[0] = all & ~(columns0 | left0 | right0);
  while (depth >= 0) {
    if (!open[depth]) { --depth; continue; }
    const u32 bit = open[depth] & (0u - open[depth]);
    open[depth] ^= bit;
    if (depth == (int)rows - 1) { ++solutions; continue; }
    columns[depth + 1] = columns[depth] | bit;
    left[depth + 1] = ((left[depth] | bit) << 1) & all;
    right[depth + 1] = (right[depth] | bit) >> 1;
    ++depth;
    open[depth] = all & ~(columns[depth] | left[depth] | right[depth]);
  }
  return solutions;
}

// Places a queen into the next row: a lane for each column. Boards with fewer than `cut` queens become tasks.
DEV void place(Worker& w, const Args& args, u64 payload) {
  const u32 columns = payload & 0xffff, left = payload >> 16 & 0xffff, right = payload >> 32 & 0xffff;
  const u32 row = payload >> 48 & 15, n = payload >> 52 & 15, all = (1u << n) - 1, bit = 1u << lane_id();
  if (row >= n) return;                           // no board has so many queens
  const bool mine = lane_id() < n && (bit & all & ~(columns | left | right));
  const u32 next[3] = { columns | bit, ((left | bit) << 1) & all, (right | bit) >> 1 };
  if (row < args.cut && row + 1 < n && spawn(w, mine, PLACE, board(next[0], next[1], next[2], row + 1, n))) return;
  u64 found = mine ? count(n, n - row - 1, next[0], next[1], next[2]) : 0;
  for (u32 step = 16; step > 0; step /= 2) found += __shfl_xor_sync(~0u, found, step);
  if (lane_id() == 0 && found > 0) atomicAdd(args.total, found);
}
