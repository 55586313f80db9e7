// Two procedures that make each other: as the recursion F(n) = F(n - 1) + F(n - 2), until n is 0 or 1.
DEV void even(Worker& w, const Args& args, u64 payload) {
  if (lane_id() == 0) atomicAdd(args.counts, 1ull);
  must_spawn(w, lane_id() < 2 && payload > 1, ODD, payload - 1 - lane_id());
}

DEV void odd(Worker& w, const Args& args, u64 payload) {
  if (lane_id() == 0) atomicAdd(args.counts + 1, 1ull);
  must_spawn(w, lane_id() < 2 && payload > 1, EVEN, payload - 1 - lane_id());
}
