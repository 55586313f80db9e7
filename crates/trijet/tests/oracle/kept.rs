//! Small programs that are kept. Each program once failed, or is the first to fail if the ordering
//! has a fault.

/// A producer on one stream and a consumer on another.
pub(crate) const ONE_CROSSING: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
phase
thread
  host b0 512 pinned seed 0
  host b1 512 pinned seed 1
  host b2 512 pinned seed 2
  mix 0 of b0[0..512] into b1[0..512] on s0
  mix 1 of b0[0..512] into b1[0..512] on s0
  mix 2 of b0[0..512] into b1[0..512] on s0
  mix 3 of b0[0..512] into b1[0..512] on s0
  mix 4 of b0[0..512] into b1[0..512] on s0
  mix 5 of b0[0..512] into b1[0..512] on s0
  mix 9 of b1[0..512] into b2[0..512] on s1
";

/// Two readers on two streams and then a writer on a third, which waits for both.
const TWO_READERS: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
stream s2 non-blocking on d0
phase
thread
  alloc b0 64 on s2 filled 1
  host b1 64 pinned seed 1
  host b2 64 pinned seed 2
  host b3 64 pinned seed 3
  mix 1 of b0[0..64] into b1[0..64] on s0
  mix 2 of b0[0..64] into b2[0..64] on s1
  copy b3[0..64] to b0[0..64] on s2
";

/// A buffer that is dropped while a dropped stream still reads it.
const DROPPED_IN_USE: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
phase
thread
  alloc b0 64 on s0 filled 7
  host b1 64 pinned seed 1
  mix 1 of b0[0..64] into b1[0..64] on s1
  replace s1
  alloc b0 64 on s0 filled 9
  read b1
";

/// Work of two threads in one stream, on the two parts of a buffer that was split.
const TWO_THREADS_ONE_STREAM: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 per-thread on d0
phase
thread
  alloc b0 64 on s0 filled 7
  host b1 64 pinned seed 1
  split b0 at 32 into b2
phase
thread
  copy b1[0..32] to b0[0..32] on s0
  mix 1 of b1[0..32] into b0[0..32] on s1
thread
  copy b1[32..64] to b2[0..32] on s0
  mix 2 of b1[32..64] into b2[0..32] on s1
phase
thread
  write b1 seed 4
";

/// The legacy stream, a blocking stream, and a non-blocking one.
const LEGACY_BETWEEN: &str = "
devices 1
stream s0 legacy on d0
stream s1 blocking on d0
stream s2 non-blocking on d0
phase
thread
  host b0 64 pageable seed 1
  alloc b1 64 on s1 filled 1
  alloc b2 64 on s2 filled 2
  copy-now b0[0..64] to b2[0..64] on d0
  write b0 seed 2
  mix 1 of b2[0..64] into b1[0..64] on s0
  fill-now b2[0..64] with 5 on d0
  mix 2 of b2[0..64] into b1[0..64] on s1
  copy b1[0..64] to b0[0..64] on s2
  read b0
";

/// Batches whose sources are read out of stream order.
const BATCHES: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
phase
thread
  host b0 64 pinned seed 1
  alloc b1 64 on s0 filled 1
  alloc b2 64 on s0 filled 2
  mix 1 of b1[0..64] into b0[0..64] on s1
  batch during-call on s0 b0[0..64] to b1[0..64]
  write b0 seed 3
  host b3 8 pinned seed 5
  batch any-time on s1 b0[0..64] to b2[0..64] b3[0..8] to b1[0..8]
  write b0 seed 4
";

pub(crate) const ALL: [&str; 6] =
    [ONE_CROSSING, TWO_READERS, DROPPED_IN_USE, TWO_THREADS_ONE_STREAM, LEGACY_BETWEEN, BATCHES];

/// A per-thread stream takes over the lane of a thread that ended, and waits for work of another
/// stream. The library once mistook the position of the work of the first thread for a position of
/// the new stream.
const LANE_OF_AN_ENDED_THREAD: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
stream s2 per-thread on d0
event e0 on d0
phase
thread
  alloc b0 1 on s0 filled 1
  alloc b1 1 on s0 filled 2
  alloc b2 1 on s1 filled 3
  host b3 1 pinned seed 1
  sync d0
phase
thread
  renew dropping streams
  fill b1[0..1] with 5 on s2
  renew dropping streams
  fill b0[0..1] with 9 on s0
  record e0 on s0
  renew dropping streams
  wait e0 on s2
  renew keeping streams
  copy b1[0..1] to b2[0..1] on s1
  copy b0[0..1] to b3[0..1] on s1
  read b3
";

/// The host reads the output of a per-thread stream after its thread ended. The handle of the
/// stream is kept.
const STREAM_OF_AN_ENDED_THREAD: &str = "
devices 1
stream s0 per-thread on d0
phase
thread
  host b0 64 pinned seed 1
phase
thread
  renew dropping streams
  host-fn on s0
  fill b0[0..64] with 7 on s0
  renew keeping streams
  read b0
";

/// The same program, but another thread dropped the stream. A new stream may take over its lane.
const STREAM_DROPPED_BY_ANOTHER_THREAD: &str = "
devices 1
stream s0 per-thread on d0
stream s1 non-blocking on d0
phase
thread
  host b0 64 pinned seed 1
  host b1 64 pinned seed 2
  host b2 64 pinned seed 3
phase
thread
  renew dropping streams
  fill b1[0..64] with 3 on s0
  host-fn on s0
  fill b0[0..64] with 7 on s0
  renew keeping streams
  query s1
phase
thread
  replace s1
  copy b0[0..64] to b2[0..64] on s1
  read b2
";

/// Another thread polls a future. The thread that polls does not get the knowledge of the creator
/// of the future.
const FUTURE_CROSSES_THREADS: &str = "
devices 1
stream s0 non-blocking on d0
stream s1 non-blocking on d0
phase
thread
  host b0 1 pinned seed 1
  alloc b1 1 on s1 filled 2
  copy b1[0..1] to b0[0..1] on s1
phase
thread
  sync d0
  future f0 of s0
  renew dropping streams
  poll f0
  mix 1 of b1[0..1] into b0[0..1] on s0
";

/// Each program runs with no call refused, and with one of the first records refused. Some of them
/// once gave wrong bytes or lent a guard too early.
pub(crate) const OF_LANES: [&str; 4] = [
    LANE_OF_AN_ENDED_THREAD,
    STREAM_OF_AN_ENDED_THREAD,
    STREAM_DROPPED_BY_ANOTHER_THREAD,
    FUTURE_CROSSES_THREADS,
];
