// Visits a vertex at a distance: neighbours that are nearer by this way become tasks. A vertex may be visited again, at a smaller
// distance, so the result does not depend on the order.
DEV void visit(Worker& w, const Args& args, u64 payload) {
  const u32 vertex = (u32)payload, distance = payload >> 32 & 0xffffff;
  if ((u64)vertex + 1 >= args.marks || vertex >= args.length) return;
  const u64 end = min((u64)args.ends[vertex + 1], args.edges);
  for (u64 first = args.ends[vertex]; first < end; first += 32) {
    const u64 edge = first + lane_id();
    u32 next = ~0u;
    bool nearer = false;
    if (edge < end) {
      next = args.neighbours[edge];
      nearer = next < args.length && atomicMin(args.distances + next, distance + 1) > distance + 1;
    }
    must_spawn(w, nearer, VISIT, (u64)(distance + 1) << 32 | next);
  }
}
