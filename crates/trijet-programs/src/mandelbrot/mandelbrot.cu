// A tile of 16 x 16 pixels by a block. All operations are rounded one by one, so the host computes the same counts.
DEV void tile(Worker& w, const Args& args, u64 payload) {
  const u32 tiles = args.width / 16, number = (u32)payload;
  const u32 px = number % tiles * 16 + (threadIdx.x & 15);
  const u64 py = (u64)(number / tiles) * 16 + (threadIdx.x >> 4);
  const float d = __fdiv_rn(3.f, (float)args.width);
  float cx = __fadd_rn(-2.f, __fmul_rn((float)px, d)), cy = __fadd_rn(-1.5f, __fmul_rn((float)py, d));
  // A value that comes out of a shuffle is computed once: the assembler moved the division into the loop.
  cx = __shfl_sync(~0u, cx, lane_id());
  cy = __shfl_sync(~0u, cy, lane_id());
  float x = 0.f, y = 0.f;
  u32 k = 0;
  for (; k < args.limit; ++k) {
    const float xx = __fmul_rn(x, x), yy = __fmul_rn(y, y);
    if (__fadd_rn(xx, yy) > 4.f) break;
    y = __fadd_rn(__fmul_rn(__fmul_rn(2.f, x), y), cy);
    x = __fadd_rn(__fsub_rn(xx, yy), cx);
  }
  const u64 at = py * args.width + px;
  if (at < args.pixels) store_relaxed(args.counts + at, k);
}
