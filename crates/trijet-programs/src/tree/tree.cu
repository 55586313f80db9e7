// A node of a random tree: its hash (32 bits) and its depth (16 bits). Its children follow from the hash.
DEV void node(Worker& w, const Args& args, u64 payload) {
  const u32 hash = (u32)payload, depth = payload >> 32 & 0xffff;
  const u32 most = depth < args.depth ? args.children : 0;
  const u32 many = most == 0 ? 0 : mix(hash ^ 0x9e3779b9u) % (most + 1);
  if (lane_id() == 0) atomicAdd(args.sums, 1ull), atomicAdd(args.sums + 1, (u64)hash);
  must_spawn(w, lane_id() < many, NODE, (u64)(depth + 1) << 32 | mix(hash + lane_id() + 1));
}
