// An expert with the tokens that were routed to it: it makes a task for each 16 of them.
DEV void expert(Worker& w, const Args& args, u64 payload) {
  const u32 number = (u32)payload;
  if ((u64)number + 1 >= args.marks) return;
  // 64 bits: the sum of a token and a step does not wrap around.
  const u64 end = min((u64)args.ends[number + 1], min(args.length, args.results) / 32);
  for (u64 first = args.ends[number]; first < end; first += 32 * 16) {
    const u64 token = first + lane_id() * 16;
    must_spawn(w, token < end, TOKENS, (u64)(number & 0xffffff) << 32 | token);
  }
}

// Sixteen tokens by the weights of their expert: a lane for each of 32 columns. Words wrap around.
DEV void tokens(Worker& w, const Args& args, u64 payload) {
  const u32 number = payload >> 32 & 0xffffff, first = (u32)payload, lane = lane_id();
  if (number + 1 >= args.marks) return;
  const u64 end = min(min((u64)args.ends[number + 1], (u64)first + 16), min(args.length, args.results) / 32);
  for (u64 token = first; token < end; ++token) {
    const u32 own = args.x[token * 32 + lane];
    u32 sum = 0;
    for (u32 at = 0; at < 32; ++at) sum += __shfl_sync(~0u, own, at) * mix(number << 10 | at << 5 | lane);
    store_relaxed(args.y + token * 32 + lane, sum);
  }
}
