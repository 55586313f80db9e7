// project: one element for all elements along an axis. The types of the elements are numbers.
//
// The threads of a block share the elements along the axis. Integers, maxima and minima are reduced
// in any order, and sums of floats and deviations in the order of the axis. So a result is the same
// bits in any launch. An index beyond the end of x is held to its last element.
//
// Estimate: integers, and the maximum and minimum of floats, have 4 to 12 instructions per element
// in loads of 16 bytes, 4 of them in flight in each thread. One image of 2048 x 2048 of u16 has 64
// blocks, whose threads wait 8 times for 0.7 us: about 1000 GB/s. Sums of floats and deviations are
// added by one warp of a block, about 10 cycles for each element along the axis, while the others
// load: 128 elements take 0.9 us, so an image takes 14 us for each pass, 500 GB/s for one pass and
// 260 GB/s for two. All warps add short integers in the first of two passes, which takes 11 us: 300
// GB/s. More images are faster, up to the memory of the device.
#include "elements.cuh"
#include "keys.cuh"

// The numbers of `Projection` in how.rs. The number of the maximum is 0.
constexpr u32 MIN = 1, MEAN = 2, SUM = 3, STD = 4;

// `ProjectPlan` in params.rs: x is [.., count, inner] elements, and y is [.., inner]. `first_in`
// and `first_out` are the indices of the first elements of x and y.
struct ProjectPlan {
  u64 count, inner, first_in, first_out;
};

// The index in x of the first element of element i of y.
DEV u64 start_of(const ProjectPlan& p, u64 i) {
  const u64 outer = quotient(p.first_out + i, p.inner);
  return outer * p.count * p.inner + (p.first_out + i - outer * p.inner) - p.first_in;
}

// Elements are loaded one by one, or as many as 16 bytes have.
template <typename T> constexpr u32 WIDE = 16 / sizeof(T);
template <typename T, u32 V> struct Unit {
  using Bits = uint4;
};
template <typename T> struct Unit<T, 1> {
  using Bits = T;
};

template <typename T> DEV T part_of(T bits, u32) { return bits; }
template <typename T> DEV T part_of(const uint4& bits, u32 e) {
  const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
  if constexpr (sizeof(T) == 8) {
    return (T)words[2 * e + 1] << 32 | words[2 * e];
  } else {
    return (T)(words[e * sizeof(T) / 4] >> 8 * (e * sizeof(T) % 4));
  }
}

// Whether the elements are in whole units of 16 bytes. The `wide` elements of a unit are along the
// axis where inner is 1. Otherwise they belong to elements of y beside each other.
DEV bool is_wide(const ProjectPlan& p, const u8* x, u64 x_count, u64 y_count, u64 wide) {
  const bool is_aligned = (u64)x % 16 == 0 && p.first_in % wide == 0 && x_count >= wide;
  if (p.inner == 1) return is_aligned && p.count % wide == 0;
  return is_aligned && p.inner % wide == 0 && p.first_out % wide == 0 && y_count % wide == 0;
}

constexpr u32 THREADS = 256;

// `put_real` once for all ways to reduce.
__device__ __noinline__ void put_result(u8* y, u64 i, u32 type, double v) {
  put_real(y, i, type, v);
}

// Shared memory of both ways to reduce.
constexpr u32 ROOM = 4128;

// ---- project in any order

// The sum of integers: `sign` is the bit of the sign, and is subtracted once for each element.
template <typename T> struct Sum {
  using State = u64;
  T sign;
  DEV State none() const { return 0; }
  DEV void take(State& sum, T bits, u64, bool is_new) const {
    if (is_new) sum += (T)(bits ^ sign);
  }
  DEV void join(State& sum, State other) const { sum += other; }
};

// The largest key of integers, which are exclusive or with `flip`.
template <typename T> struct Largest {
  using State = T;
  T flip;
  DEV State none() const { return 0; }
  DEV void take(State& best, T bits, u64, bool) const {
    const T key = bits ^ flip;
    if (key > best) best = key;
  }
  DEV void join(State& best, State other) const {
    if (other > best) best = other;
  }
};

// The first of the largest or the smallest floats, of which any NaN is best. The keys of both zeros
// are equal, and no key is 0.
template <typename T> struct First {
  struct State {
    T key;
    u64 at;
  };
  Keys keys;
  bool is_min;
  DEV State none() const { return {0, ~0ull}; }
  DEV void take(State& best, T bits, u64 at, bool) const {
    const T sign = (T)keys.sign;
    const T key = key_of<T>(bits == sign ? (T)0 : bits, keys);
    const T turned = is_min && key != (T)~(T)0 ? (T)~key : key;
    if (turned > best.key) best = {turned, at};
  }
  DEV void join(State& best, const State& other) const {
    if (other.key > best.key || (other.key == best.key && other.at < best.at)) best = other;
  }
};

// Takes units along an axis of `units` units: `group`, `group + groups` and so on, in batches. The
// loads of a batch do not wait for one another. Beyond the end, a batch takes the last unit again,
// which is not new.
template <typename T, u32 V, bool ALONG, typename Op, typename State, u32 N>
DEV void fold(const Op& op, const u8* x_bytes, u64 start, u64 step, u64 last, u64 units, u32 group,
              u32 groups, State (&states)[N]) {
  constexpr u32 BATCH = V > 1 ? 4 : 8;
  using Bits = typename Unit<T, V>::Bits;
  const Bits* x = (const Bits*)x_bytes;
#pragma unroll 1
  for (u64 n = group; n < units; n += groups * BATCH) {
    Bits bits[BATCH];
#pragma unroll
    for (u32 k = 0; k < BATCH; ++k) {
      bits[k] = x[low_of(start + low_of(n + k * groups, units - 1) * step, last)];
    }
#pragma unroll
    for (u32 k = 0; k < BATCH; ++k) {
      const bool is_new = n + k * groups < units;
      const u64 at = low_of(n + k * groups, units - 1);
#pragma unroll
      for (u32 e = 0; e < V; ++e) {
        op.take(states[ALONG ? 0 : e], part_of<T>(bits[k], e), ALONG ? at * V + e : at, is_new);
      }
    }
  }
}

// Reduces the elements of a tile of y after another, and calls `put` with the index in y and the
// state of each. `lanes` units beside each other are taken by as many threads, and `groups` threads
// share the elements along the axis of each.
template <typename T, u32 V, bool ALONG, typename Op, typename Put>
DEV void reduce(const ProjectPlan& p, const u8* x, u64 x_count, u64 y_count, u64* room, u32 lanes,
                u32 groups, const Op& op, Put put) {
  using State = typename Op::State;
  constexpr u32 N = ALONG ? 1 : V;
  static_assert(THREADS * N * sizeof(State) <= ROOM * 8);
  State* all = (State*)room;
  const u32 span = lanes * groups;
  const u32 spans = THREADS / span;
  const u32 mine = threadIdx.x / span, within = threadIdx.x % span;
  const u32 unit = mine * lanes + within % lanes;
  const u32 outputs = spans * lanes * N;
#pragma unroll 1
  for (u64 tile = blockIdx.x; tile * outputs < y_count; tile += gridDim.x) {
    const u64 first = tile * outputs;
    State states[N];
#pragma unroll
    for (u32 e = 0; e < N; ++e) states[e] = op.none();
    if (mine < spans && first + unit * N < y_count) {
      const u64 start = start_of(p, first + unit * N) / V;
      const u64 units = ALONG ? p.count / V : p.count;
      const u64 step = ALONG ? 1 : p.inner / V;
      fold<T, V, ALONG>(op, x, start, step, x_count / V - 1, units, within / lanes, groups, states);
    }
#pragma unroll
    for (u32 e = 0; e < N; ++e) all[threadIdx.x * N + e] = states[e];
    __syncthreads();
#pragma unroll 1
    for (u32 i = threadIdx.x; i < outputs; i += THREADS) {
      if (first + i >= y_count) break;
      // The states of an element of y are lanes * N apart, in the span of its threads.
      const u32 row = lanes * N;
      const State* at = all + i / row * span * N + i % row;
      State state = *at;
#pragma unroll 1
      for (u32 g = 1; g < groups; ++g) op.join(state, at[g * row]);
      put(first + i, state);
    }
    __syncthreads();
  }
}

// The threads that share an axis of `units` units: so many that each takes 8, and at most `most`.
DEV u32 groups_of(u64 units, u32 most) {
  return (u32)low_of(units < 8 ? 1 : units / 8, most);
}

template <typename T, typename Op, typename Put>
DEV void in_any_order(const ProjectPlan& p, const u8* x, u64 x_count, u64 y_count, u64* room,
                      const Op& op, Put put) {
  constexpr u32 V = WIDE<T>;
  const bool wide = is_wide(p, x, x_count, y_count, V);
  if (p.inner == 1 && wide) {
    const u32 groups = groups_of(p.count / V, 64);
    reduce<T, V, true>(p, x, x_count, y_count, room, 1, groups, op, put);
  } else if (wide) {
    // A power of two, so that all threads have work. 4 units of 16 bytes are beside each other.
    const u32 groups = 1u << (31 - __clz(groups_of(p.count, 64)));
    reduce<T, V, false>(p, x, x_count, y_count, room, THREADS / groups, groups, op, put);
  } else {
    const u32 lanes = (u32)low_of(p.inner, 32);
    const u32 groups = groups_of(p.count, (u32)low_of(THREADS / lanes, 64));
    reduce<T, 1, false>(p, x, x_count, y_count, room, lanes, groups, op, put);
  }
}

// ---- project in order

// 32 elements of y at a time: all threads load the next elements along the axis of each, and store
// their values in shared memory, where one warp takes them in order. Meanwhile the next are loaded.
// The first pass of a deviation adds in any order if the sum is exact: then all warps add.
// A step has `depth` elements along the axis.
constexpr u32 LANES = 32;
constexpr u32 DEPTH_MAX = 128;
static_assert(DEPTH_MAX * LANES + DEPTH_MAX / 4 <= ROOM);

// The index of a value in shared memory. The space after four rows spreads the banks.
DEV u32 value_at(u32 n, u32 lane) { return n * LANES + n / 4 + lane; }

// The units that a thread loads in a step: `shift` is the logarithm of the elements of a unit. The
// threads beside each other load units along the axis, or across it.
struct Step {
  u32 loads, depth, shift;
  bool along;

  DEV u32 lane(u32 k) const {
    const u32 unit = k * THREADS + threadIdx.x;
    return along ? unit / (depth >> shift) : (unit % (LANES >> shift)) << shift;
  }
  DEV u32 row(u32 k) const {
    const u32 unit = k * THREADS + threadIdx.x;
    return along ? (unit % (depth >> shift)) << shift : unit / (LANES >> shift);
  }
};

constexpr u32 LOADS_MAX = 8;

template <typename T>
DEV void load_ones(const ProjectPlan& p, const T* x, u64 last, const u64* starts, const Step& step,
                   u64 from, u64 (&bits)[LOADS_MAX]) {
#pragma unroll
  for (u32 k = 0; k < LOADS_MAX; ++k) {
    const u64 n = low_of(from + step.row(k), p.count - 1);
    bits[k] = x[low_of(starts[step.lane(k)] + n * p.inner, last)];
  }
}

// The bits of one element, or of a unit of 16 bytes in two words, for each load.
DEV void load_step(const ProjectPlan& p, const u8* x, u64 x_count, const u64* starts,
                   const Step& step, u32 bytes, u64 from, u64 (&bits)[LOADS_MAX]) {
  if (step.shift != 0) {
#pragma unroll
    for (u32 k = 0; k < LOADS_MAX / 2; ++k) {
      if (k >= step.loads) break;
      const u64 n = low_of(from + step.row(k), p.count - 1);
      const u64 unit = (starts[step.lane(k)] + n * p.inner) >> step.shift;
      const ulonglong2 both = ((const ulonglong2*)x)[low_of(unit, (x_count >> step.shift) - 1)];
      bits[2 * k] = both.x;
      bits[2 * k + 1] = both.y;
    }
    return;
  }
  switch (bytes) {
    case 1: load_ones(p, x, x_count - 1, starts, step, from, bits); break;
    case 2: load_ones(p, (const u16*)x, x_count - 1, starts, step, from, bits); break;
    case 4: load_ones(p, (const u32*)x, x_count - 1, starts, step, from, bits); break;
    default: load_ones(p, (const u64*)x, x_count - 1, starts, step, from, bits); break;
  }
}

// The value of an element of a type.
DEV double real_of(u64 bits, u32 type) {
  switch (type) {
    case I8: return (double)(i8)bits;
    case I16: return (double)(i16)bits;
    case I32: return (double)(i32)bits;
    case I64: return (double)(i64)bits;
    case F16: return half_value((u16)bits);
    case BF16: return __uint_as_float((u32)bits << 16);
    case F32: return __uint_as_float((u32)bits);
    case F64: return __longlong_as_double((i64)bits);
    default: return (double)bits;
  }
}

template <typename T>
DEV void store_wide(double* values, const Step& step, u32 type, const u64 (&bits)[LOADS_MAX]) {
  constexpr u32 LOADS = sizeof(T) < 4 ? sizeof(T) : 4;
#pragma unroll
  for (u32 k = 0; k < LOADS; ++k) {
    double* at = values + value_at(step.row(k), step.lane(k));
#pragma unroll
    for (u32 e = 0; e < WIDE<T>; ++e) {
      const u64 part = (T)(bits[2 * k + e * sizeof(T) / 8] >> 8 * (e * sizeof(T) % 8));
      at[step.along ? value_at(e, 0) : e] = real_of(part, type);
    }
  }
}

DEV void store_step(double* values, const Step& step, u32 type, const u64 (&bits)[LOADS_MAX]) {
  if (step.shift == 0) {
#pragma unroll
    for (u32 k = 0; k < LOADS_MAX; ++k) {
      values[value_at(step.row(k), step.lane(k))] = real_of(bits[k], type);
    }
    return;
  }
  switch (type) {
    case U8: store_wide<u8>(values, step, U8, bits); break;
    case I8: store_wide<u8>(values, step, I8, bits); break;
    case U16: store_wide<u16>(values, step, U16, bits); break;
    case I16: store_wide<u16>(values, step, I16, bits); break;
    case U32: store_wide<u32>(values, step, U32, bits); break;
    case I32: store_wide<u32>(values, step, I32, bits); break;
    case F16: store_wide<u16>(values, step, F16, bits); break;
    case BF16: store_wide<u16>(values, step, BF16, bits); break;
    case F32: store_wide<u32>(values, step, F32, bits); break;
    case U64: store_wide<u64>(values, step, U64, bits); break;
    case I64: store_wide<u64>(values, step, I64, bits); break;
    default: store_wide<u64>(values, step, F64, bits); break;
  }
}

DEV void in_order(u32 from, u32 to, u32 how, const ProjectPlan& p, const u8* x, u64 x_count, u8* y,
                  u64 y_count, bool is_exact, bool wide, u64* room, u64* starts) {
  double* values = (double*)room;
  const u32 bytes = bytes_of(from);
  Step step;
  step.along = p.inner == 1;
  step.shift = !wide ? 0 : bytes == 1 ? 4 : bytes == 2 ? 3 : bytes == 4 ? 2 : 1;
  step.depth = wide && bytes < 8 ? DEPTH_MAX : 64;
  step.loads = (LANES * step.depth >> step.shift) / THREADS;
  const u32 passes = how == STD ? 2 : 1;
  // The warps that add the values of a step. The sum of the first warp is the result.
  const u32 adders = is_exact ? THREADS / LANES : 1;
  const u32 warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
#pragma unroll 1
  for (u64 tile = blockIdx.x; tile * LANES < y_count; tile += gridDim.x) {
    const u64 i = tile * LANES + threadIdx.x;
    if (threadIdx.x < LANES) starts[threadIdx.x] = start_of(p, low_of(i, y_count - 1));
    __syncthreads();
    double sum = 0.0, mean = 0.0, squares = 0.0;
#pragma unroll 1
    for (u32 pass = 0; pass < passes; ++pass) {
      u64 bits[LOADS_MAX] = {};
      // Each turn loads elements, and takes those that the turn before it loaded.
#pragma unroll 1
      for (u64 next = 0, first = 0; first < p.count; next += step.depth) {
        const u32 count = (u32)low_of(next - first, p.count - first);
        if (next > 0) store_step(values, step, from, bits);
        __syncthreads();
        if (next < p.count) load_step(p, x, x_count, starts, step, bytes, next, bits);
        if (pass == 0 && warp < adders) {
#pragma unroll 8
          for (u32 n = warp; n < count; n += adders) sum += values[value_at(n, lane)];
        } else if (pass == 1 && warp == 0) {
#pragma unroll 8
          for (u32 n = 0; n < count; ++n) {
            const double v = values[value_at(n, lane)] - mean;
            squares += v * v;
          }
        }
        __syncthreads();
        first = next;
      }
      if (pass == 0) {
        values[value_at(warp, lane)] = sum;
        __syncthreads();
        for (u32 other = 1; other < adders; ++other) sum += values[value_at(other, lane)];
        __syncthreads();
        mean = sum / (double)p.count;
      }
    }
    if (threadIdx.x < LANES && i < y_count) {
      put_result(y, i, to,
                 how == SUM ? sum : how == MEAN ? mean : sqrt(squares / (double)p.count));
    }
  }
}

// ---- project, for elements of the size of T

template <typename T>
DEV void project_integers(u32 from, u32 to, u32 how, const ProjectPlan& p, const u8* x, u64 x_count,
                          u8* y, u64 y_count, u64* room) {
  const T sign = is_signed(from) ? (T)((T)1 << (8 * sizeof(T) - 1)) : (T)0;
  if (how == MEAN || how == SUM) {
    in_any_order<T>(p, x, x_count, y_count, room, Sum<T>{sign}, [&](u64 i, u64 all) {
      const u64 sum = all - p.count * sign;
      if (how == SUM) {
        put_bits(y, i, bytes_of(to), sum);
      } else {
        put_result(y, i, to, (double)(i64)sum / (double)p.count);
      }
    });
  } else {
    const T flip = how == MIN ? (T)~sign : sign;
    in_any_order<T>(p, x, x_count, y_count, room, Largest<T>{flip},
                    [&](u64 i, T best) { ((T*)y)[i] = best ^ flip; });
  }
}

template <typename T>
DEV void project_floats(u32 from, u32 how, const ProjectPlan& p, const u8* x, u64 x_count, u8* y,
                        u64 y_count, u64* room) {
  constexpr u64 SIGN = 1ull << (8 * sizeof(T) - 1);
  const u64 infinity = from == F16 ? 0x7c00 : from == BF16 ? 0x7f80
                       : from == F32 ? 0x7f800000ull : 0x7ff0000000000000ull;
  const First<T> first = {{SIGN, infinity}, how == MIN};
  in_any_order<T>(p, x, x_count, y_count, room, first,
                  [&](u64 i, const typename First<T>::State& best) {
    const T bits = ((const T*)x)[low_of(start_of(p, i) + best.at * p.inner, x_count - 1)];
    ((T*)y)[i] = (T)(bits & (T)~SIGN) > (T)infinity ? (T)~SIGN : bits;
  });
}

extern "C" __global__ void __launch_bounds__(THREADS, 2)
    project(u32 from, u32 to, u32 how, ProjectPlan p, const u8* x, u64 x_len, u8* y, u64 y_len) {
  __shared__ u64 room[ROOM];
  __shared__ u64 starts[LANES];
  const u32 bytes = bytes_of(from);
  const u64 x_count = x_len / bytes, y_count = y_len / bytes_of(to);
  if (x_count == 0 || y_count == 0 || p.count == 0 || p.inner == 0) return;
  // Sums in f64 of so few short integers are exact: none is above 2^53. Any order gives the same.
  const bool is_exact = is_integer(from) && bytes < 8 && p.count <= 1ull << (53 - 8 * bytes);
  const bool is_sum = how == SUM || how == MEAN || how == STD;
  if (is_sum && !((how == SUM && is_integer(from)) || (how == MEAN && is_exact))) {
    const bool wide = is_wide(p, x, x_count, y_count, 16 / bytes);
    in_order(from, to, how, p, x, x_count, y, y_count, is_exact, wide, room, starts);
    return;
  }
  switch (is_integer(from) ? bytes : 16 + bytes) {
    case 1: project_integers<u8>(from, to, how, p, x, x_count, y, y_count, room); break;
    case 2: project_integers<u16>(from, to, how, p, x, x_count, y, y_count, room); break;
    case 4: project_integers<u32>(from, to, how, p, x, x_count, y, y_count, room); break;
    case 8: project_integers<u64>(from, to, how, p, x, x_count, y, y_count, room); break;
    case 18: project_floats<u16>(from, how, p, x, x_count, y, y_count, room); break;
    case 20: project_floats<u32>(from, how, p, x, x_count, y, y_count, room); break;
    default: project_floats<u64>(from, how, p, x, x_count, y, y_count, room); break;
  }
}
