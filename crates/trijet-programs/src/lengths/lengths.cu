// Steps of a generator of numbers, of which each depends on the one before: some tasks take many of them.
DEV void steps(Worker& w, const Args& args, u64 payload) {
  const u32 number = (u32)payload;
  const u32 zeros = __clz(mix(number));
  const u32 count = args.base << (zeros < args.skew ? zeros : args.skew);
  u32 x = number * 32 + lane_id();
  // The counter differs between lanes as far as the compiler knows, so that the loop is the same in every kernel.
#pragma unroll 1
  for (u32 at = threadIdx.y; at < count; ++at) {
    x = x * 1664525u + 1013904223u;
    asm volatile("" : "+r"(x));
  }
  const u64 at = (u64)number * 32 + lane_id();
  if (at < args.length) store_relaxed(args.out + at, x);
}
