//! The profile of one process.
#![forbid(unsafe_code)]

use super::activities::{is_timed, overhead, times};
use super::calls::Calls;
use super::device::Device;
use super::operations::Operations;
use std::collections::BTreeSet;
use trijet::Nanos;
use trijet::trace::activity::{Activity, End, OverheadKind, ProcessTrace};

/// The profile of one process.
#[derive(Debug)]
pub struct Process {
    /// The number of the process.
    pub process: u32,
    /// The version of CUPTI; 0 if CUPTI was not available.
    pub interface: u32,
    /// The reasons for which nothing, or not everything, was traced.
    pub troubles: Vec<String>,
    /// The end of the trace; `None` if the process ended without its exit handlers.
    pub end: Option<End>,
    /// The number of calls of the runtime and the driver, except calls made inside other calls.
    pub calls: usize,
    /// The number of operations without times, because they were unfinished when the process ended.
    pub untimed: usize,
    /// The time that CUPTI reports as its own overhead.
    pub overhead: Nanos,
    /// The time from the begin of the first activity to the end of the last one.
    pub span: Nanos,
    /// The devices that executed anything.
    pub devices: Vec<Device>,
}

/// The profile of the process that `trace` is of.
#[must_use]
pub fn analyse(trace: &ProcessTrace) -> Process {
    let calls = Calls::of(trace);
    let is_operation = |one: &&Activity| one.engine().is_some();
    let operations: Vec<&Activity> = trace.activities.iter().filter(is_operation).collect();
    let devices: BTreeSet<u32> = operations.iter().map(|one| one.device).collect();
    let own = |kind: OverheadKind| kind.is_caused_by_tracing();
    let everything = trace.activities.iter().filter(|one| is_timed(one));
    let span = times(everything).hull();
    Process {
        process: trace.process,
        interface: trace.interface,
        troubles: trace.troubles.clone(),
        end: trace.end,
        calls: calls.count(),
        untimed: operations.iter().filter(|one| !is_timed(one)).count(),
        overhead: overhead(trace, own).length(),
        span: Nanos(span.map_or(0, |span| span.end - span.start)),
        devices: devices
            .into_iter()
            .filter_map(|device| Operations::of(&operations, device))
            .map(|operations| Device::of(&operations, trace, &calls))
            .collect(),
    }
}
