// gemm: d = a * b^T of bf16 matrices, summed in f32, with the tensor cores of compute capability 9.0.
//
// target: sm_90a
//
// a has `m` rows of `k` elements, b has `n` rows of `k`, and d has `m` rows of `n`: both operands have the direction
// of the sum (k) along their rows. The result is bf16, since it is the operand of the next product.
//
// A block computes tiles of 128 rows and 128 columns of d, one after the other, in steps of 64 elements of k. It
// has three warpgroups. One thread of the last one is the loader: it lets the copy engine fetch the boxes of a and b for
// each step into a ring in shared memory. Each of the others multiplies 64 rows of a tile by wgmma, with the sums
// in its registers. The loader needs few registers and gives the rest to them (setmaxnreg).
//
// Two barriers of each slot of the ring are between them:
//
// - loaded: the bytes of the step have arrived. Its phase needs one arrival, of this block's loader, which names the
//   bytes to expect, and these bytes.
// - consumed: every multiplying warp of every block of the cluster is done with the slot.
//
// The blocks of a cluster (one or two) compute tiles one above the other, so they need the same rows of b. Each
// loads a part of them into the shared memory of all (multicast). A part that another block loads may arrive before the
// own loader does: the phase cannot end without its arrival. It cannot arrive before the slot is free, because a
// loader waits for the warps of all blocks, which arrive at the barriers of all blocks.
//
// The n-th use of a slot has phase n % 2 of `loaded`, and waits for the phase before of `consumed`; the phase before the
// first one counts as ended. Slot and phase go on from tile to tile.
//
// The copy engine reads zeros outside of a and b, in the direction of k in both, so a product outside is 0 * 0, even
// if the inner elements are NaN. Outside of d it writes the rest of a row's last unit of 16 bytes, and nothing else. So sizes
// need not be multiples of the tile's: the caller only has to give rows that begin at multiples of 16 bytes, which is a
// rule of tensor maps.
//
// In memory, the 16-byte units of a row of 128 bytes are permuted: unit u of row r lies at place u ^ (r % 8) (swizzle of
// 128 bytes). Without that, eight rows of a column of units would be in the same banks. The copy engine, wgmma and
// the address in `stage` agree on it, if the boxes begin at multiples of 1024.
//
// Dependent launches: barriers and tensor maps are made ready before `griddepcontrol.wait`. Only the loader
// executes it. That suffices for all that a block does: its stores to d follow the loads, over the barriers. Also the loader
// of a block without a tile waits, since who waits for this kernel relies on the kernels before it. The last load of
// the block lets the next kernel begin; it takes the multiprocessors that have no block of this one.
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

// CUtensorMap.
struct __align__(64) TensorMap { u64 words[16]; };
struct Sizes { u32 m, n, k; };

constexpr u32 LANES = 32, GROUP = 4 * LANES;  // threads of a warp and of a warpgroup
constexpr u32 MULTIPLYING = 2;                // warpgroups; the one after them loads
constexpr u32 WARPS = 4 * MULTIPLYING;        // multiplying
constexpr u32 THREADS = (MULTIPLYING + 1) * GROUP;
constexpr u32 ROWS = 64 * MULTIPLYING;        // of a tile
constexpr u32 COLUMNS = 128;                  // of a tile
constexpr u32 SLOTS = 6;                      // of the ring: as many as shared memory has room for
constexpr u32 DEPTH = 64;                     // elements of k in a step: the 128 bytes of the swizzle
constexpr u32 DEPTH_OF_WGMMA = 16;
constexpr u32 PARTS = 2;                      // boxes of b in a step, shared among the blocks of a cluster
constexpr u32 ROWS_OF_WARP = 16;              // of d
constexpr u32 BOX_COLUMNS = 64;               // of d, in a store
constexpr u32 STORES = 2;                     // of a warp, on their way at the same time
constexpr u32 ATOM_BYTES = 8 * 128;           // rows after which the swizzle repeats
// Tiles are taken from bands of so many rows of tiles, so that the blocks that run at the same time cover about as many
// rows as columns of d. This is what L2 reads least for.
constexpr u32 BAND = 16;
// Registers of a thread: 128 * 40 + 256 * 232 is below the 65536 of a multiprocessor.
constexpr u32 LOADING_REGISTERS = 40, MULTIPLYING_REGISTERS = 232;

// The dynamic shared memory of a block.
struct Shared {
  u16 a[SLOTS][ROWS * DEPTH];
  u16 b[SLOTS][COLUMNS * DEPTH];
  u16 staged[WARPS][STORES][ROWS_OF_WARP * BOX_COLUMNS];
  u64 loaded[SLOTS], consumed[SLOTS];
};

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
// Makes this thread's new barriers known to the copy engine and, if all threads of the cluster do this, to all of them.
DEV void barriers_ready() {
  asm volatile(
      "fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
DEV void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
DEV void wait_for_predecessor() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// All threads of a warpgroup do this. The first gives registers back, the second waits until there are enough.
template <u32 COUNT> DEV void shrink_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <u32 COUNT> DEV void grow_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

DEV void barrier_init(u64* barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
DEV void barrier_arrive_and_expect(u64* barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
// Arrives at the barrier of another block at the place of this one. There is nothing to make visible there: wgmma has
// read what it needed, and no thread wrote. A release for the cluster would cost a fence of the whole GPU in each step.
DEV void barrier_arrive_at(const u64* barrier, u32 rank) {
  asm volatile(
      "{\n .reg .u32 there;\n mapa.shared::cluster.u32 there, %0, %1;\n"
      " mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
      ::"r"(shared_address(barrier)), "r"(rank) : "memory");
}
// Waits for the end of the phase with this parity.
DEV void barrier_wait(const u64* barrier, u32 parity) {
  asm volatile(
      "{\n .reg .pred ended;\nagain:\n"
      " mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      " @ended bra done;\n bra again;\ndone:\n}"
      ::"r"(shared_address(barrier)), "r"(parity) : "memory");
}

DEV void prefetch(const TensorMap* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
// Copies the box at (column, row) of the matrix to this place.
DEV void load_box(u16* to, const TensorMap* matrix, u32 column, u32 row, u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      ::"r"(shared_address(to)), "l"(matrix), "r"(column), "r"(row), "r"(shared_address(barrier)) : "memory");
}
// The same for the same place of all blocks in `mask`, each of which counts the bytes at its own barrier.
DEV void load_box_for(u16 mask, u16* to, const TensorMap* matrix, u32 column, u32 row, u64* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;"
      ::"r"(shared_address(to)), "l"(matrix), "r"(column), "r"(row), "r"(shared_address(barrier)), "h"(mask)
      : "memory");
}
// Copies this place to the box at (column, row) of the matrix.
DEV void store_box(const TensorMap* matrix, const u16* from, u32 column, u32 row) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];"
               ::"l"(matrix), "r"(column), "r"(row), "r"(shared_address(from)) : "memory");
}
DEV void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until all stores but the last LEFT have read what they store.
template <u32 LEFT> DEV void store_wait_read() { asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(LEFT) : "memory"); }
DEV void store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
// What this thread wrote to shared memory is there for the copy engine.
DEV void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Two elements of d, the first in the lower half, rounded to the nearest, ties to even.
DEV u32 rounded(float first, float second) {
  u32 both;
  asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
// Stores four matrices of 8 rows of 16 bytes. Lane i has the address of row i % 8 of matrix i / 8, and two elements
// of row i / 4 of each.
DEV void store_matrices(u32 row, u32 first, u32 second, u32 third, u32 fourth) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
               ::"r"(row), "r"(first), "r"(second), "r"(third), "r"(fourth) : "memory");
}

// How wgmma finds an operand with rows of 128 bytes in the swizzle: address / 16, the bytes between groups of 8 rows / 16
// at bit 32, and 1 at bit 62 for the swizzle. The field at bit 16 is not used then. Elements further along the rows are
// at an address that is higher by their bytes, within the 128.
DEV u64 descriptor(const u16* operand) {
  return (u64)((shared_address(operand) & 0x3ffff) >> 4) | (u64)1 << 16 | (u64)(ATOM_BYTES >> 4) << 32 | (u64)1 << 62;
}
// Before the first multiplication whose sums the threads have touched.
DEV void multiply_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEV void multiply_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all committed groups of multiplications but the last LEFT.
template <u32 LEFT> DEV void multiply_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory"); }

#define SUMS_8(i) \
  "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3]), "+f"(sums[i + 4]), "+f"(sums[i + 5]), \
      "+f"(sums[i + 6]), "+f"(sums[i + 7])
#define SUMS_32(i) SUMS_8(i), SUMS_8(i + 8), SUMS_8(i + 16), SUMS_8(i + 24)

// Begins to multiply 64 rows of a and 128 rows of b, and 16 elements of k: sums = a * b^T, plus the sums before if `add`.
DEV void multiply(float (&sums)[COLUMNS / 2], u64 a, u64 b, u32 add) {
  asm volatile(
      "{\n .reg .pred add;\n setp.ne.u32 add, %66, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16"
      " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "  %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
      "  %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
      "  %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63},"
      " %64, %65, add, 1, 1, 0, 0;\n}"
      : SUMS_32(0), SUMS_32(32) : "l"(a), "l"(b), "r"(add));
}
// The compiler does not know that sums change until the end of the wait for them. This keeps reads of them behind it.
DEV void arrived(float (&sums)[COLUMNS / 2]) {
  #pragma unroll
  for (u32 i = 0; i < COLUMNS / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

// The place in the ring: all roles use the slots in the same order.
struct Turn {
  u32 slot = 0, phase = 0;
  DEV void next() {
    if (++slot == SLOTS) slot = 0, phase ^= 1;
  }
  DEV u32 slot_before() const { return slot == 0 ? SLOTS - 1 : slot - 1; }
};

// The tiles of d, in the order in which clusters take them. A cluster takes one column of tiles, and as many rows of tiles
// as it has blocks.
struct Tiles {
  u32 heights, columns;  // clusters from top to bottom, and tiles from left to right
  u32 band;              // clusters

  DEV Tiles(Sizes sizes, u32 blocks)
      : heights((sizes.m + ROWS * blocks - 1) / (ROWS * blocks)),
        columns((sizes.n + COLUMNS - 1) / COLUMNS),
        band(BAND / blocks) {}
  DEV u32 count() const { return heights * columns; }
  DEV void place(u32 task, u32& height, u32& column) const {
    const u32 first = task / (band * columns) * band, in_band = task - first * columns;
    const u32 high = heights - first < band ? heights - first : band;
    height = first + in_band % high;
    column = in_band / high;
  }
};

// What all roles of a block know.
struct Block {
  Shared* shared;
  Sizes sizes;
  u32 rank, blocks;  // in the cluster
  Tiles tiles;

  DEV Block(u8* memory, Sizes sizes)
      : shared((Shared*)memory), sizes(sizes), rank(rank_in_cluster()), blocks(blocks_of_cluster()),
        tiles(sizes, blocks) {}
  DEV u32 first_task() const { return blockIdx.x / blocks; }
  DEV u32 stride() const { return gridDim.x / blocks; }
  DEV u32 steps() const { return (sizes.k + DEPTH - 1) / DEPTH; }
  // The first row and column of this block's tile.
  DEV void place(u32 task, u32& row, u32& column) const {
    tiles.place(task, row, column);
    row = (row * blocks + rank) * ROWS;
    column *= COLUMNS;
  }
};

DEV void load_tiles(const Block& block, const TensorMap* a, const TensorMap* b) {
  constexpr u32 PART_ROWS = COLUMNS / PARTS;
  const u16 all = (u16)((1u << block.blocks) - 1);
  Shared& shared = *block.shared;
  Turn turn;
  for (u32 task = block.first_task(); task < block.tiles.count(); task += block.stride()) {
    u32 row, column;
    block.place(task, row, column);
    for (u32 step = 0; step < block.steps(); ++step, turn.next()) {
      u64* loaded = &shared.loaded[turn.slot];
      barrier_wait(&shared.consumed[turn.slot], turn.phase ^ 1);
      barrier_arrive_and_expect(loaded, (ROWS + COLUMNS) * DEPTH * sizeof(u16));
      load_box(shared.a[turn.slot], a, step * DEPTH, row, loaded);
      for (u32 part = block.rank; part < PARTS; part += block.blocks) {
        const u32 first = part * PART_ROWS;
        u16* to = shared.b[turn.slot] + first * DEPTH;
        if (block.blocks == 1) {
          load_box(to, b, step * DEPTH, column + first, loaded);
        } else {
          load_box_for(all, to, b, step * DEPTH, column + first, loaded);
        }
      }
    }
  }
  launch_dependents();
  // Once more around the ring: when all slots are free, no other block arrives at a barrier of this one any more, and it may
  // end. What others loaded for it, its own warps have waited for.
  for (u32 i = 0; i < SLOTS; ++i, turn.next()) barrier_wait(&shared.consumed[turn.slot], turn.phase ^ 1);
}

// Rounds 16 rows and 64 columns of the sums of a warp to bf16 and puts them to `staged`, in the swizzle. Thread i of a warp has
// elements 2 * (i % 4) and one more of each 8 columns, of row i / 4 and of the eighth row below it.
DEV void stage(u16* staged, const float* sums, u32 lane) {
  constexpr u32 UNITS = 2;  // of 16 bytes: what a store of four matrices takes of each row
  const u32 row = lane % ROWS_OF_WARP, right = lane / ROWS_OF_WARP;
  #pragma unroll
  for (u32 i = 0; i < BOX_COLUMNS / 8 / UNITS; ++i) {
    const u32 unit = (UNITS * i + right) ^ (row % 8);
    const float* s = sums + 8 * i;
    store_matrices(shared_address(staged) + row * 128 + unit * 16, rounded(s[0], s[1]), rounded(s[2], s[3]),
                   rounded(s[4], s[5]), rounded(s[6], s[7]));
  }
}

// Stores what a warp has of a tile: a box of 64 columns after the other, each over the place that the box before the
// last one has left. `stored` counts the boxes of all tiles.
DEV void store_tile(const Block& block, const TensorMap* d, const float (&sums)[COLUMNS / 2], u32 row,
                    u32 column, u32 warp, u32 lane, u32& stored) {
  #pragma unroll
  for (u32 box = 0; box < COLUMNS / BOX_COLUMNS; ++box) {
    const u32 first = column + box * BOX_COLUMNS;
    // Tiles at the edges may have boxes without an element of d.
    if (row >= block.sizes.m || first >= block.sizes.n) break;
    u16* staged = block.shared->staged[warp][stored++ % STORES];
    if (lane == 0) store_wait_read<STORES - 1>();
    __syncwarp();
    stage(staged, sums + box * (BOX_COLUMNS / 2), lane);
    fence_for_copies();
    __syncwarp();
    if (lane == 0) {
      store_box(d, staged, first, row);
      store_commit();
    }
  }
}

DEV void multiply_tiles(const Block& block, const TensorMap* d, u32 warp, u32 lane) {
  Shared& shared = *block.shared;
  const u32 group = warp / 4;
  Turn turn;
  u32 stored = 0;
  for (u32 task = block.first_task(); task < block.tiles.count(); task += block.stride()) {
    float sums[COLUMNS / 2];
    for (u32 step = 0; step < block.steps(); ++step, turn.next()) {
      barrier_wait(&shared.loaded[turn.slot], turn.phase);
      const u64 a = descriptor(shared.a[turn.slot] + group * 64 * DEPTH), b = descriptor(shared.b[turn.slot]);
      multiply_fence();
      #pragma unroll
      for (u32 i = 0; i < DEPTH / DEPTH_OF_WGMMA; ++i) {
        const u64 along = i * DEPTH_OF_WGMMA * sizeof(u16) >> 4;
        multiply(sums, a + along, b + along, step > 0 || i > 0);
      }
      multiply_commit();
      // One step stays with the tensor cores while the one before is given back, so that they never wait for that.
      multiply_wait<1>();
      if (step > 0 && lane < block.blocks) barrier_arrive_at(&shared.consumed[turn.slot_before()], lane);
    }
    multiply_wait<0>();
    arrived(sums);
    if (lane < block.blocks) barrier_arrive_at(&shared.consumed[turn.slot_before()], lane);
    u32 row, column;
    block.place(task, row, column);
    store_tile(block, d, sums, row + warp * ROWS_OF_WARP, column, warp, lane, stored);
  }
  // The kernel ends with its stores.
  if (lane == 0) store_wait();
}

DEV void gemm(u8* memory, const TensorMap* a, const TensorMap* b, const TensorMap* d, Sizes sizes) {
  const Block block(memory, sizes);
  const u32 warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  const bool loads = threadIdx.x == MULTIPLYING * GROUP;
  if (loads) {
    if (shared_address(memory) % ATOM_BYTES != 0) asm volatile("trap;");
    prefetch(a), prefetch(b), prefetch(d);
    for (u32 slot = 0; slot < SLOTS; ++slot) {
      barrier_init(&block.shared->loaded[slot], 1);
      barrier_init(&block.shared->consumed[slot], block.blocks * WARPS);
    }
  }
  barriers_ready();
  if (warp < WARPS) {
    grow_registers<MULTIPLYING_REGISTERS>();
    multiply_tiles(block, d, warp, lane);
  } else {
    shrink_registers<LOADING_REGISTERS>();
    if (loads) {
      wait_for_predecessor();
      load_tiles(block, a, b);
    }
  }
}

extern __shared__ __align__(1024) u8 dynamic_memory[];
static_assert(sizeof(Shared) == 229472, "the dynamic shared memory that callers give");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    gemm_bf16(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
              const __grid_constant__ TensorMap d, Sizes sizes) {
  gemm(dynamic_memory, &a, &b, &d, sizes);
}
