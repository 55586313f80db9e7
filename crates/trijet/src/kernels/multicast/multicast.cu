// multicast_matmul: y = x * w in f32, where the tiles of x are loaded once for a whole cluster.
//
// target: sm_90
//
// x has `rows` rows of `inner` elements, w has `inner` rows of `columns`, and y has `rows` rows of `columns`. A
// block computes 32 rows and 32 columns of y at a time, from tiles of 32 rows and 32 columns of x and of w, in the
// order of w's rows. The blocks of a cluster have the same rows and neighbouring columns, so they need the same
// tiles of x. Each of them loads a part of such a tile into the shared memory of all (multicast), and its own tile
// of w for itself.
//
// The last warp loads, and the others compute. A ring of two slots is between them, with two barriers for each:
//
// - loaded: the bytes of both tiles have arrived. Its phase needs one arrival, of this block's loader, which names
//   the bytes to expect, and these bytes. Parts that other blocks load may arrive before the loader does: the
//   phase cannot end without its arrival.
// - consumed: every computing warp of every block of the cluster is done with the slot. A loader writes to all
//   blocks, so it waits for all. They arrive at the barriers of all blocks.
//
// A slot is used again when its `consumed` phase ends, so no part for one use can arrive during an earlier one:
// the block that got it would not have arrived yet. The n-th use of a slot has phase n % 2 of `loaded`, and waits
// for the phase before of `consumed`; the phase before the first one counts as ended. No block ends before all
// have arrived at its barriers.
//
// The copy engine reads zeros outside of x and w. Where it does in the direction of `inner`, it does in both, and
// a sum never is -0, so adding 0 * 0 changes nothing. Each element is the sum of its products in order, rounded
// after every operation (built with --fmad=false), so that the host's plain loop gives the same bits.
typedef unsigned int u32;
typedef unsigned short u16;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

// CUtensorMap.
struct __align__(64) TensorMap { u64 words[16]; };
struct Sizes { u32 rows, inner, columns; };

constexpr u32 LANES = 32;
constexpr u32 SIDE = 32;        // rows and columns of each tile
constexpr u32 PART_ROWS = 8;    // of x, in one copy
constexpr u32 PARTS = SIDE / PART_ROWS;
constexpr u32 SLOTS = 2;
constexpr u32 COMPUTING = 8;    // warps
constexpr u32 PER_THREAD = SIDE / COMPUTING;
constexpr u32 TILE_BYTES = SIDE * SIDE * 4;

DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
DEV u32 rank_in_cluster() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DEV u32 blocks_of_cluster() {
  u32 blocks;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  return blocks;
}
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

DEV void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
DEV void barrier_arrive_and_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
// Arrives at the barrier of another block at the place of this one.
DEV void barrier_arrive_at(const u64* barrier, u32 rank) {
  asm volatile(
      "{\n .reg .u32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
      " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there];\n}"
      ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
// Waits for the end of the phase with this parity, and sees what all blocks did before their arrivals.
DEV void barrier_wait(const u64* barrier, u32 parity) {
  asm volatile(
      "{\n .reg .pred ended;\nagain:\n"
      " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 ended, [%0], %1;\n"
      " @ended bra done;\n bra again;\ndone:\n}"
      ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

// Copies the box at (column, row) of the matrix to this place.
DEV void load_box(float* to, const TensorMap* matrix, u32 column, u32 row, u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      ::"r"(shared_address(to)), "l"(matrix), "r"(column), "r"(row), "r"(shared_address(barrier)) : "memory");
}
// The same for the same place of all blocks in `mask`, each of which counts the bytes at its own barrier.
DEV void load_box_for(u16 mask, float* to, const TensorMap* matrix, u32 column, u32 row, u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;"
      ::"r"(shared_address(to)), "l"(matrix), "r"(column), "r"(row), "r"(shared_address(barrier)), "h"(mask)
      : "memory");
}

// The place in the ring: both roles use the slots in the same order.
struct Turn {
  u32 slot = 0, phase = 0;
  DEV void next() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
};

extern "C" __global__ void __launch_bounds__((COMPUTING + 1) * LANES)
    multicast_matmul_f32(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, float* y,
                         u64 y_len, Sizes sizes) {
  __shared__ __align__(128) float xs[SLOTS][SIDE][SIDE], ws[SLOTS][SIDE][SIDE];
  __shared__ u64 loaded[SLOTS], consumed[SLOTS];
  const u32 warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const u32 rank = rank_in_cluster(), blocks = blocks_of_cluster();
  if (threadIdx.x == 0) {
    for (u32 slot = 0; slot < SLOTS; ++slot) {
      barrier_init(&loaded[slot], 1);
      barrier_init(&consumed[slot], blocks * COMPUTING);
    }
    // The copy engine and the other blocks have to see them too.
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_barrier();

  const u32 row_tiles = (sizes.rows + SIDE - 1) / SIDE, column_tiles = (sizes.columns + SIDE - 1) / SIDE;
  // Blocks without columns in the last group go along, since the others need their parts of x.
  const u32 groups = (column_tiles + blocks - 1) / blocks;
  const u64 tasks = (u64)row_tiles * groups;
  Turn turn;
  for (u64 task = blockIdx.x / blocks; task < tasks; task += gridDim.x / blocks) {
    const u32 row = (u32)(task / groups) * SIDE, column = ((u32)(task % groups) * blocks + rank) * SIDE;
    if (warp == COMPUTING) {
      for (u32 k = 0; k < sizes.inner; k += SIDE, turn.next()) {
        if (lane != 0) continue;
        u64* arrived = &loaded[turn.slot];
        barrier_wait(&consumed[turn.slot], turn.phase ^ 1);
        barrier_arrive_and_expect(arrived, 2 * TILE_BYTES);
        for (u32 part = rank; part < PARTS; part += blocks) {
          const u32 first = part * PART_ROWS;
          load_box_for((u16)((1u << blocks) - 1), xs[turn.slot][first], &x, k, row + first, arrived);
        }
        load_box(ws[turn.slot][0], &w, column, k, arrived);
      }
    } else {
      float sums[PER_THREAD] = {};
      for (u32 k = 0; k < sizes.inner; k += SIDE, turn.next()) {
        barrier_wait(&loaded[turn.slot], turn.phase);
        for (u32 i = 0; i < SIDE; ++i) {
          const float factor = ws[turn.slot][i][lane];
          for (u32 r = 0; r < PER_THREAD; ++r) sums[r] += xs[turn.slot][r * COMPUTING + warp][i] * factor;
        }
        __syncwarp();
        if (lane < blocks) barrier_arrive_at(&consumed[turn.slot], lane);
      }
      for (u32 r = 0; r < PER_THREAD; ++r) {
        const u64 own = row + r * COMPUTING + warp, at = own * sizes.columns + column + lane;
        if (own < sizes.rows && column + lane < sizes.columns && at < y_len) y[at] = sums[r];
      }
    }
  }
  // Others arrive at the barriers of this block until they are done.
  cluster_barrier();
}
