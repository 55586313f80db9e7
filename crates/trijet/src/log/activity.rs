//! The times of operations, taken from the activities that the engines report. Each operation gets
//! a tag, and each activity has the tag of its operation. A map converts times of the engines'
//! clock to the clock of the trace.
//!
//! The engines have another clock than the host. At the start and at the end of a trace, the
//! engines' clock is read between two readings of the host's clock. A time may be off by the
//! uncertainty of these readings, and by half of the drift between the two clocks during the trace.
#![forbid(unsafe_code)]

use super::calling;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::LaneId;
use crate::base::ledger::{Op, Times};
use crate::base::units::Nanos;
use crate::device::driver::{Activities, Driver, EngineActivity, Profiler};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Maximum error of the difference between two times of one device, in nanoseconds. Some devices
/// count in units of 1 us.
const DEVICE_NS: u64 = 10_000;

/// The number of samples that are taken of both clocks. Only the sample with the smallest error is
/// used. If a thread is interrupted during a sample, the error of the sample is large.
const READINGS: usize = 16;

/// A sample: the times of both clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sample {
    host: Nanos,
    engines: Nanos,
    /// Maximum time between the reading of one clock and the reading of the other, in nanoseconds.
    error: u64,
}

impl Sample {
    fn read(host: impl Fn() -> Nanos, engines: impl Fn() -> Result<Nanos>) -> Result<Self> {
        let one = || -> Result<Self> {
            let (before, engines, after) = (host(), engines()?, host());
            let width = after.0.saturating_sub(before.0);
            Ok(Self { host: Nanos(before.0 + width / 2), engines, error: width.div_ceil(2) })
        };
        let mut best = one()?;
        for _ in 1..READINGS {
            let next = one()?;
            if next.error < best.error {
                best = next;
            }
        }
        Ok(best)
    }

    /// The time of the engines' clock minus the time of the host's clock, in nanoseconds.
    fn ahead(&self) -> i128 {
        i128::from(self.engines.0) - i128::from(self.host.0)
    }
}

/// A map from times of the engines' clock to times of the host's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClockMap {
    ahead: i128,
    error: Nanos,
}

impl ClockMap {
    fn between(first: Sample, last: Sample) -> Self {
        let drift = (last.ahead() - first.ahead()).unsigned_abs();
        let apart = u64::try_from(drift.div_ceil(2)).unwrap_or(u64::MAX);
        Self {
            ahead: (first.ahead() + last.ahead()).div_euclid(2),
            error: Nanos(first.error.max(last.error).saturating_add(apart)),
        }
    }

    /// Converts a time of the engines' clock to a time of the host's clock. Times before time zero
    /// become time zero.
    fn host(&self, engines: Nanos) -> Nanos {
        let host = (i128::from(engines.0) - self.ahead).max(0);
        Nanos(u64::try_from(host).unwrap_or(u64::MAX))
    }
}

/// Sets the times of each operation to the times of its activity, if there is one. `tags` has the
/// index and the tag of each tagged operation.
fn assign(ops: &mut [Op], tags: &[(usize, u64)], work: &[EngineActivity], map: &ClockMap) {
    let times: HashMap<u64, Times> = work
        .iter()
        .map(|one| (one.tag, Times { begin: map.host(one.begin), end: map.host(one.end) }))
        .collect();
    for (index, tag) in tags {
        if let (Some(op), Some(times)) = (ops.get_mut(*index), times.get(tag)) {
            op.times = Some(*times);
        }
    }
}

/// Removes the times of each operation that ends after a later operation of its stream has ended.
/// Returns the number of these operations.
///
/// Such an end cannot be true. For a copy before the first launch of a graph, CUPTI reports the end
/// of a later launch. A dependent kernel is no exception: it starts before the previous kernel has
/// ended, but ends after the previous kernel.
fn take_back_impossible(ops: &mut [Op], tags: &[(usize, u64)]) -> u64 {
    let mut indices: Vec<usize> = tags.iter().map(|(index, _)| *index).collect();
    indices.sort_unstable_by(|a, b| b.cmp(a));
    let mut ends: HashMap<LaneId, u64> = HashMap::new();
    let mut taken_back = 0;
    for index in indices {
        let Some(op) = ops.get_mut(index) else { continue };
        let Some(times) = op.times else { continue };
        let later = ends.entry(op.position.lane).or_insert(u64::MAX);
        if times.end.0 > later.saturating_add(DEVICE_NS) {
            op.times = None;
            taken_back += 1;
        } else {
            *later = times.end.0.min(*later);
        }
    }
    taken_back
}

/// A collection of activities by a driver. It ends when the activities are taken, or when this
/// value is dropped.
#[derive(Debug)]
pub(super) struct Collection {
    driver: Arc<dyn Driver>,
    tags_given: AtomicU64,
    /// The index in the ledger and the tag of each tagged operation, in that order.
    tags: Mutex<Vec<(usize, u64)>>,
    first: OnceLock<Sample>,
    taken: AtomicBool,
}

/// Returns the profiler of a driver, or an error if the driver has no profiler.
fn profiler(driver: &dyn Driver) -> Result<&dyn Profiler> {
    driver.profiler().ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "activity records", "the driver has no profiler")
    })
}

impl Collection {
    /// # Errors
    /// The errors of [`Profiler::activity_begin`].
    pub(super) fn begin(driver: &Arc<dyn Driver>) -> Result<Self> {
        profiler(&**driver)?.activity_begin()?;
        Ok(Self {
            driver: Arc::clone(driver),
            tags_given: AtomicU64::new(0),
            tags: Mutex::default(),
            first: OnceLock::new(),
            taken: AtomicBool::new(false),
        })
    }

    fn sample(&self, host: impl Fn() -> Nanos) -> Result<Sample> {
        let profiler = profiler(&*self.driver)?;
        Sample::read(host, || profiler.activity_time())
    }

    /// Reads both clocks at the start of the trace.
    pub(super) fn synchronize(&self, host: impl Fn() -> Nanos) -> Result<()> {
        let first = self.sample(host)?;
        self.first.get_or_init(|| first);
        Ok(())
    }

    /// A tag that no other operation has.
    pub(super) fn tag(&self) -> u64 {
        self.tags_given.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Stores the tag of an operation. `op` is the index of the operation in the ledger.
    pub(super) fn bears(&self, op: usize, tag: u64) {
        self.tags.lock().expect("no thread panicked while it held this lock").push((op, tag));
    }

    /// Ends the collection, and sets the times of the operations. Returns the maximum error of
    /// these times, and the number of activities that were lost or cannot be true.
    pub(super) fn take(&self, ops: &mut [Op], host: impl Fn() -> Nanos) -> Result<(Nanos, u64)> {
        self.taken.store(true, Ordering::Relaxed);
        let Activities { work, lost } = profiler(&*self.driver)?.activity_take()?;
        let last = self.sample(host)?;
        let map = ClockMap::between(self.first.get().copied().unwrap_or(last), last);
        let tags = self.tags.lock().expect("no thread panicked while it held this lock");
        assign(ops, &tags, &work, &map);
        Ok((map.error, lost + take_back_impossible(ops, &tags)))
    }
}

impl Drop for Collection {
    fn drop(&mut self) {
        if !self.taken.load(Ordering::Relaxed) && !calling::inside() {
            // The trace was dropped, so the program does not need its activities or their errors.
            drop(profiler(&*self.driver).and_then(Profiler::activity_take));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id::{DeviceId, Position};
    use crate::base::ledger::{Engine, StreamWork};
    use std::cell::Cell;

    fn sample(host: u64, engines: u64, error: u64) -> Sample {
        Sample { host: Nanos(host), engines: Nanos(engines), error }
    }

    #[test]
    fn the_narrowest_reading_counts_and_half_its_width_is_its_error() {
        let (calls, now) = (Cell::new(0_u64), Cell::new(1000_u64));
        let host = || {
            // The second reading takes 11 ns, and each other reading takes 500 ns.
            now.set(now.get() + if calls.get() == 2 { 11 } else { 500 });
            calls.set(calls.get() + 1);
            Nanos(now.get())
        };
        let found = Sample::read(host, || Ok(Nanos(now.get() + 70_000))).expect("a reading");
        assert_eq!(found.error, 250);
        calls.set(1);
        let found = Sample::read(host, || Ok(Nanos(now.get() + 70_000))).expect("a reading");
        assert_eq!((found.error, found.engines.0 - found.host.0), (6, 70_000 - 5));
    }

    #[test]
    fn a_time_of_the_engines_becomes_the_hosts() {
        let map = ClockMap::between(sample(100, 5_100, 3), sample(1_100, 6_100, 4));
        assert_eq!(map.host(Nanos(5_600)), Nanos(600));
        assert_eq!(map.error, Nanos(4));
        assert_eq!(map.host(Nanos(4_000)), Nanos(0), "nothing is before time zero");
    }

    #[test]
    fn clocks_that_go_apart_make_times_less_certain() {
        let map = ClockMap::between(sample(0, 1_000, 2), sample(10_000, 11_101, 1));
        assert_eq!((map.ahead, map.error), (1_050, Nanos(2 + 51)));
    }

    /// Removes impossible times from operations. `ends` has the stream and the end of each
    /// operation. Returns the end of each operation, and the number of removed ends. A removed end
    /// is `None`.
    fn kept(ends: &[(u32, u64)]) -> (Vec<Option<u64>>, u64) {
        let op = |(seq, (lane, end)): (u64, &(u32, u64))| {
            let position = Position { lane: LaneId(*lane), seq };
            let times = Times { begin: Nanos(end - 1_000), end: Nanos(*end) };
            let new = Op::new(StreamWork::Fill, Engine::Compute, DeviceId(0), position);
            Op { times: Some(times), ..new }
        };
        let mut ops: Vec<Op> = (0..).zip(ends).map(op).collect();
        let tags: Vec<(usize, u64)> = (0..ops.len()).zip(7..).collect();
        let taken_back = take_back_impossible(&mut ops, &tags);
        (ops.iter().map(|op| op.times.map(|times| times.end.0)).collect(), taken_back)
    }

    #[test]
    fn an_operation_that_outlasts_a_later_one_of_its_stream_has_no_time() {
        let right = [(1, 1_000), (2, 900_000), (1, 40_000), (1, 32_000), (2, 950_000)];
        let all = right.iter().map(|(_, end)| Some(*end)).collect();
        assert_eq!(kept(&right), (all, 0), "other streams and errors of the clock are allowed");
        let wrong = [(1, 1_000), (1, 900_000), (1, 40_000), (2, 2_000), (1, 50_000)];
        let all = vec![Some(1_000), None, Some(40_000), Some(2_000), Some(50_000)];
        assert_eq!(kept(&wrong), (all, 1));
    }

    #[test]
    fn an_engines_clock_behind_the_hosts_is_mapped_as_well() {
        let map = ClockMap::between(sample(9_000, 100, 0), sample(9_500, 600, 0));
        assert_eq!(map.host(Nanos(400)), Nanos(9_300));
    }
}
