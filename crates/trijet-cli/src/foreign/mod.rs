//! What a recording of a program that is not ours says: who was busy when, and what it cost that
//! nobody was.
//!
//! Lengths are those of unions of intervals, never sums of durations. A finding's cost is time in
//! which no kernel ran while the thing went on, or the GPU stood still because of it: an estimate
//! of what mending it gains. Several findings may claim the same moment, so they do not add up.
//!
//! What kernels read and write is not in a recording. So nothing here speaks of races.
#![forbid(unsafe_code)]

mod calls;
mod device;
mod findings;
mod idle;
mod json;
mod names;
mod text;

pub use device::{EngineTime, KernelTime};
pub use findings::Finding;
pub use idle::Idle;
pub use json::json;
pub use text::text;

use calls::Calls;
use device::View;
use std::collections::BTreeSet;
use trijet::Nanos;
use trijet::base::span::Union;
use trijet::trace::activity::{Activity, ActivityKind, End, OverheadKind, Recording};

/// What is to be said about one process.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub process: u32,
    /// The version of the recording interface; 0 without one.
    pub interface: u32,
    /// What kept the recorder from recording.
    pub troubles: Vec<String>,
    /// How the recording ended; `None` when the process did not end by its exit handlers.
    pub end: Option<End>,
    /// Calls of the runtime and of the driver, those inside of others left out.
    pub calls: usize,
    /// Operations without times: unfinished when the process ended.
    pub untimed: usize,
    /// Time that the recording interface says it took.
    pub overhead: Nanos,
    /// From the first to the last moment of anything recorded.
    pub span: Nanos,
    /// One for each device that did something.
    pub devices: Vec<Device>,
}

/// What is to be said about one device.
#[derive(Debug)]
pub struct Device {
    /// Its number in the process.
    pub device: u32,
    /// From its first operation to the end of the last one.
    pub elapsed: Nanos,
    /// When each engine was busy, and when any was.
    pub engines: Vec<EngineTime>,
    /// When anything ran.
    pub busy: Nanos,
    /// When nothing ran, and what the host did then.
    pub idle: Idle,
    /// Streams with operations.
    pub streams: usize,
    /// What costs time, the dearest first.
    pub findings: Vec<Finding>,
    /// The kernels that took longest.
    pub kernels: Vec<KernelTime>,
}

impl Device {
    /// The engine that was busy longest: nothing can be faster than it, with the same work.
    #[must_use]
    pub fn limiting(&self) -> Option<&EngineTime> {
        self.engines.iter().max_by_key(|engine| engine.busy)
    }
}

/// Reads what is to be said out of a recording.
#[must_use]
pub fn analyse(recording: &Recording) -> Process {
    let calls = Calls::of(recording);
    let is_operation = |one: &&Activity| one.engine().is_some();
    let operations: Vec<&Activity> = recording.activities.iter().filter(is_operation).collect();
    let devices: BTreeSet<u32> = operations.iter().map(|one| one.device).collect();
    let own = |kind: OverheadKind| kind.is_of_the_recording();
    let everything = recording.activities.iter().filter(|one| is_timed(one));
    let span = Union::of(everything.map(|one| one.begin.0..one.end.0)).hull();
    Process {
        process: recording.process,
        interface: recording.interface,
        troubles: recording.troubles.clone(),
        end: recording.end,
        calls: calls.count(),
        untimed: operations.iter().filter(|one| !is_timed(one)).count(),
        overhead: overhead(recording, own).length(),
        span: Nanos(span.map_or(0, |span| span.end - span.start)),
        devices: devices
            .into_iter()
            .filter_map(|device| View::of(&operations, device))
            .map(|view| view.summary(recording, &calls))
            .collect(),
    }
}

/// Whether it has both times.
fn is_timed(one: &Activity) -> bool {
    one.begin.0 != 0 && one.end >= one.begin
}

/// When time went to overhead of these kinds.
fn overhead(recording: &Recording, of: impl Fn(OverheadKind) -> bool) -> Union {
    let matching = recording.activities.iter().filter(|one| is_timed(one));
    Union::of(matching.filter_map(|one| match one.kind {
        ActivityKind::Overhead(kind) if of(kind) => Some(one.begin.0..one.end.0),
        _ => None,
    }))
}

#[cfg(test)]
mod tests;
