// warp_specialized: z[i] = x[i] + y[i] in f32, in blocks of three warps, each with a role of its own.
//
// target: sm_90
//
// The loader fetches tiles of x and y into a ring in shared memory, the computer adds them, and the
// storer writes the sums back, so the three work on different tiles at the same time. They meet at four
// barriers of each slot of the ring: loaded, consumed, computed, stored. Slot and phase follow from the
// count of a block's own turns, and not from the number of the tile: with an even grid all tiles of a block
// are even or odd.
//
// Bulk copies move whole units of 16 bytes from and to addresses that are multiples of 16, and a span may
// begin at any element. So a run of elements lies in its slot at the same offset from such an address as
// in global memory; lanes move the at most 3 elements on each side of the units one by one, and nothing
// outside the spans is touched.
//
// Covers the shortest of x, y and z. Any number of blocks is right; a block has 96 threads.
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

constexpr u32 TILE = 1024;  // elements of a tile
constexpr u32 SLOTS = 3;    // slots of the ring: one for each role
constexpr u32 UNIT = 4;     // elements of the 16 bytes that a bulk copy moves at least
constexpr u32 LANES = 32;

DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

DEV void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
DEV void barrier_arrive(u64* barrier) {
  asm volatile("{\n .reg .b64 state;\n mbarrier.arrive.shared.b64 state, [%0];\n}"
               :: "r"(shared_address(barrier)) : "memory");
}
// The phase also waits for this many bytes of bulk copies.
DEV void barrier_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared.b64 [%0], %1;"
               :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Waits for the end of a phase. On a new barrier, phase 1 counts as ended.
DEV void barrier_wait(u64* barrier, u32 phase) {
  asm volatile("{\n .reg .pred ended;\n"
               "again:\n mbarrier.try_wait.parity.shared.b64 ended, [%0], %1;\n"
               " @ended bra done;\n bra again;\ndone:\n}"
               :: "r"(shared_address(barrier)), "r"(phase) : "memory");
}

DEV void bulk_load(float* to, const float* from, u32 elements, u64* barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               :: "r"(shared_address(to)), "l"(from), "r"(4 * elements), "r"(shared_address(barrier))
               : "memory");
}
DEV void bulk_store(float* to, const float* from, u32 elements) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
               "cp.async.bulk.commit_group;"
               :: "l"(to), "r"(shared_address(from)), "r"(4 * elements) : "memory");
}

// A run of elements of a tile, cut where addresses are multiples of 16.
struct Run {
  u32 offset;  // of its first element from such an address, and of the element in its slot
  u32 head;    // elements before the first whole unit
  u32 bulk;    // elements of whole units
  u32 rest;    // elements outside whole units, on both sides

  DEV Run(const float* first, u32 elements) {
    offset = (u32)((u64)first / 4) % UNIT;
    const u32 before = (UNIT - offset) % UNIT;
    head = before < elements ? before : elements;
    bulk = (elements - head) / UNIT * UNIT;
    rest = elements - bulk;
  }
  // The n-th element outside whole units.
  DEV u32 outside(u32 n) const { return n < head ? n : n + bulk; }
};

// The place of a role in the ring, by its own turns.
//
// In its n-th turn in a slot (n = 0, 1, ..) a role waits for phase n of the barrier that says what it needs is
// there, and for phase n - 1 of the one that says what it overwrites is no longer needed. The numbers alternate
// between 0 and 1. That suffices, because phase n + 1 of a barrier cannot end before each lane that waits for
// phase n has gone on: the arrivals of phase n + 1 follow, over the other barriers, an arrival of that lane.
struct Turn {
  u32 slot = 0, phase = 0;
  DEV void next() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};

DEV void load(float* slot, const float* from, const Run& run, u32 lane, u64* loaded) {
  if (lane == 0 && run.bulk > 0) {
    bulk_load(slot + run.offset + run.head, from + run.head, run.bulk, loaded);
  }
  if (lane < run.rest) slot[run.offset + run.outside(lane)] = from[run.outside(lane)];
}

extern "C" __global__ void __launch_bounds__(3 * LANES)
    warp_specialized_add_f32(const float* x, u64 x_len, const float* y, u64 y_len, float* z, u64 z_len) {
  __shared__ __align__(128) float xs[SLOTS][TILE + UNIT], ys[SLOTS][TILE + UNIT], zs[SLOTS][TILE + UNIT];
  __shared__ u64 loaded[SLOTS], consumed[SLOTS], computed[SLOTS], stored[SLOTS];
  const u32 role = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  if (threadIdx.x == 0) {
    for (u32 slot = 0; slot < SLOTS; ++slot) {
      barrier_init(&loaded[slot], LANES);
      barrier_init(&consumed[slot], LANES);
      barrier_init(&computed[slot], LANES);
      barrier_init(&stored[slot], LANES);
    }
    // The copy engine has to see them too.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();

  const u64 shorter = x_len < y_len ? x_len : y_len;
  const u64 len = shorter < z_len ? shorter : z_len;
  const u64 step = (u64)gridDim.x * TILE;
  Turn turn;
  for (u64 first = (u64)blockIdx.x * TILE; first < len; first += step, turn.next()) {
    const u32 elements = len - first < TILE ? (u32)(len - first) : TILE, slot = turn.slot;
    const Run xr(x + first, elements), yr(y + first, elements), zr(z + first, elements);
    if (role == 0) {
      barrier_wait(&consumed[slot], turn.phase ^ 1);
      if (lane == 0) barrier_expect(&loaded[slot], 4 * (xr.bulk + yr.bulk));
      load(xs[slot], x + first, xr, lane, &loaded[slot]);
      load(ys[slot], y + first, yr, lane, &loaded[slot]);
      barrier_arrive(&loaded[slot]);
    } else if (role == 1) {
      barrier_wait(&loaded[slot], turn.phase);
      // Before the first write: the storer may still read the sums of an earlier tile.
      barrier_wait(&stored[slot], turn.phase ^ 1);
      for (u32 i = lane; i < elements; i += LANES) {
        zs[slot][zr.offset + i] = xs[slot][xr.offset + i] + ys[slot][yr.offset + i];
      }
      // Makes the sums visible to the copy engine.
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      barrier_arrive(&consumed[slot]);
      barrier_arrive(&computed[slot]);
    } else {
      barrier_wait(&computed[slot], turn.phase);
      const float* sums = zs[slot] + zr.offset;
      if (lane == 0 && zr.bulk > 0) bulk_store(z + first + zr.head, sums + zr.head, zr.bulk);
      if (lane < zr.rest) z[first + zr.outside(lane)] = sums[zr.outside(lane)];
      // The slot is free when the copy has read it, which is before its bytes have arrived. The lane that waits
      // for that is one of those that arrive.
      if (lane == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      barrier_arrive(&stored[slot]);
    }
  }
  if (role == 2 && lane == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
