// The value of a node: a hash of its number and of the values of its predecessors.
DEV void node(Worker& w, const Args& args, u64 payload) {
  const u32 number = (u32)payload;
  u32 sum = 0;
  if (number < args.length) {
    const u64 end = min((u64)args.ends[(u64)number + 1], args.edges);
    // 64 bits: the sum of an end and a lane does not wrap around.
    for (u64 edge = (u64)args.ends[number] + lane_id(); edge < end; edge += 32) {
      const u32 at = args.before[edge];
      if (at < args.length) sum += load_relaxed(args.values + at);
    }
  }
  for (u32 step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane_id() == 0 && number < args.length) store_relaxed(args.values + number, mix(number ^ sum));
}
