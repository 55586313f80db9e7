// A row of a sparse matrix with a vector. Sums of words wrap around, so their order does not matter.
DEV void row(Worker& w, const Args& args, u64 payload) {
  const u32 number = (u32)payload;
  if (number >= args.rows || (u64)number + 1 >= args.marks) return;
  const u64 end = min((u64)args.ends[number + 1], args.entries);
  u32 sum = 0;
  // 64 bits: the sum of an end and a lane does not wrap around.
  for (u64 at = (u64)args.ends[number] + lane_id(); at < end; at += 32) {
    const u32 column = args.columns[at];
    if (column < args.length) sum += args.x[column] * mix(column ^ number);
  }
  for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane_id() == 0) store_relaxed(args.y + number, sum);
}
