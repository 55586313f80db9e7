// cluster_matmul: y = x * w in f32, row by row, where a tile of w is read once for a whole cluster.
//
// target: sm_90
//
// x has rows of `inner` elements, w has `inner` rows of `columns` elements, and y has rows of `columns`.
// A block computes 16 rows and 64 columns of y. The blocks of a cluster have the same columns and rows below
// each other. The first of them, the leader, loads each tile of w, and all read it from the leader's shared
// memory. Two barriers of the cluster go with a tile: before it is read, and before the leader loads the next
// one or ends, since its shared memory ends with it. So blocks without rows go along.
//
// Each element is the sum of its products in the order of w's rows, rounded after every operation (built
// with --fmad=false), so that the host's plain loop gives the same bits.
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEV __device__ __forceinline__

constexpr u32 THREADS = 256;
constexpr u32 ROWS = 16, COLUMNS = 64;        // of y, for a block
constexpr u32 DEPTH = 32;                     // rows of a tile of w
constexpr u32 ABREAST = THREADS / COLUMNS;    // rows that the threads of a block cover at once
constexpr u32 PER_THREAD = ROWS / ABREAST;

DEV u32 rank_in_cluster() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
DEV void cluster_barrier() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
// The address of the leader's variable at the place of this block's.
DEV u32 at_leader(const void* own) {
  u32 address;
  asm volatile("mapa.shared::cluster.u32 %0, %1, 0;"
               : "=r"(address) : "r"((u32)__cvta_generic_to_shared(own)));
  return address;
}
DEV float read_of_cluster(u32 address) {
  float value;
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    cluster_matmul_f32(u32 inner, u32 columns, const float* x, u64 x_len, const float* w, u64 w_len,
                       float* y, u64 y_len) {
  __shared__ float xs[ROWS][DEPTH];
  __shared__ float ws[DEPTH][COLUMNS];  // used in the leader only
  const u64 row = (u64)blockIdx.x * ROWS, column = (u64)blockIdx.y * COLUMNS;
  const u32 own_row = threadIdx.x / COLUMNS, own_column = threadIdx.x % COLUMNS;
  const bool leads = rank_in_cluster() == 0;
  const u32 leaders = at_leader(ws);
  float sums[PER_THREAD] = {};
  for (u64 first = 0; first < inner; first += DEPTH) {
    const u32 depth = inner - first < DEPTH ? (u32)(inner - first) : DEPTH;
    const u32 k = threadIdx.x % DEPTH;
    for (u32 r = threadIdx.x / DEPTH; r < ROWS; r += THREADS / DEPTH) {
      const u64 at = (row + r) * inner + first + k;
      xs[r][k] = k < depth && at < x_len ? x[at] : 0.0f;
    }
    for (u32 r = own_row; leads && r < depth; r += ABREAST) {
      const u64 at = (first + r) * columns + column + own_column;
      ws[r][own_column] = column + own_column < columns && at < w_len ? w[at] : 0.0f;
    }
    cluster_barrier();
    for (u32 r = 0; r < depth; ++r) {
      const float factor = read_of_cluster(leaders + 4 * (r * COLUMNS + own_column));
      #pragma unroll
      for (u32 n = 0; n < PER_THREAD; ++n) sums[n] += xs[own_row + n * ABREAST][r] * factor;
    }
    cluster_barrier();
  }
  #pragma unroll
  for (u32 n = 0; n < PER_THREAD; ++n) {
    const u64 at = (row + own_row + n * ABREAST) * columns + column + own_column;
    if (column + own_column < columns && at < y_len) y[at] = sums[n];
  }
}
