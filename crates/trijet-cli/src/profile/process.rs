//! The profile of one process.
#![forbid(unsafe_code)]

use super::activities::{is_timed, overhead, times};
use super::calls::Calls;
use super::device::Device;
use super::operations::Operations;
use std::collections::BTreeSet;
use trijet::Nanos;
use trijet::trace::activity::{Activity, End, OverheadKind, Recording};

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

/// Reads what is to be said out of a recording.
#[must_use]
pub fn analyse(recording: &Recording) -> Process {
    let calls = Calls::of(recording);
    let is_operation = |one: &&Activity| one.engine().is_some();
    let operations: Vec<&Activity> = recording.activities.iter().filter(is_operation).collect();
    let devices: BTreeSet<u32> = operations.iter().map(|one| one.device).collect();
    let own = |kind: OverheadKind| kind.is_of_the_recording();
    let everything = recording.activities.iter().filter(|one| is_timed(one));
    let span = times(everything).hull();
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
            .filter_map(|device| Operations::of(&operations, device))
            .map(|operations| Device::of(&operations, recording, &calls))
            .collect(),
    }
}
