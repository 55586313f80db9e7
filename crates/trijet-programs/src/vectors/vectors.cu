// Operations on the elements `[begin, end)` of four arrays. The fields of a task have the array that is written, the one that is
// read, the begin, the end, and the bits of a number.
struct Ranges { float* to; const float* from; u64 begin, end; float value; };

DEV float* array(const Args& args, u64 number, u64& end) {
  float* const spans[4] = { args.a, args.b, args.c, args.d };
  const u64 lengths[4] = { args.as, args.bs, args.cs, args.ds };
  const u64 length = number < 4 ? lengths[number] : 0;
  end = end < length ? end : length;
  return number < 4 ? spans[number] : args.a;
}

DEV Ranges ranges(const Worker& w, const Args& args, u64 payload, bool reads) {
  Ranges r;
  r.begin = field(w, payload, 2);
  r.end = field(w, payload, 3);
  r.to = array(args, field(w, payload, 0), r.end);
  r.from = reads ? array(args, field(w, payload, 1), r.end) : r.to;
  // A lane adds its number to the begin.
  r.begin = r.begin < r.end ? r.begin : r.end;
  r.value = __uint_as_float((u32)field(w, payload, 4));
  return r;
}

DEV void fill(Worker& w, const Args& args, u64 payload) {
  const Ranges r = ranges(w, args, payload, false);
  for (u64 at = r.begin + lane_id(); at < r.end; at += 32) store_relaxed((u32*)r.to + at, __float_as_uint(r.value));
}

DEV void copy(Worker& w, const Args& args, u64 payload) {
  const Ranges r = ranges(w, args, payload, true);
  for (u64 at = r.begin + lane_id(); at < r.end; at += 32) store_relaxed((u32*)r.to + at, load_relaxed((u32*)r.from + at));
}

// Adds `value` times the elements of one array to those of another.
DEV void axpy(Worker& w, const Args& args, u64 payload) {
  const Ranges r = ranges(w, args, payload, true);
  for (u64 at = r.begin + lane_id(); at < r.end; at += 32) {
    const float x = __uint_as_float(load_relaxed((u32*)r.from + at)), y = __uint_as_float(load_relaxed((u32*)r.to + at));
    store_relaxed((u32*)r.to + at, __float_as_uint(__fmaf_rn(r.value, x, y)));
  }
}
