//! The profile of one process.
#![forbid(unsafe_code)]

use super::activities::{Cover, is_timed, loads, overhead};
use super::calls::ProgramCalls;
use super::chosen::graphs::{self, GraphTime};
use super::device::DeviceProfile;
use super::engine::Communicating;
use super::findings::{Facts, ProcessStreams};
use super::laws::{self, Contradiction};
use super::model::RunModel;
use super::names::clean;
use super::operations::Operations;
use super::ranges::{NamedRanges, RangeTime};
use super::steps::{FiguresOf, ProgramSteps};
use crate::base::units::Nanos;
use crate::trace::activity::{Activity, ActivityKind, End, OverheadKind, ProcessTrace};
use std::collections::BTreeMap;

/// The profile of one process.
#[derive(Debug)]
pub struct ProcessProfile {
    /// The number of the process.
    pub process: u32,
    /// The command line of the process; empty if it is unknown.
    pub command: String,
    /// The rank of the process, from its environment; several processes may have the same rank.
    pub rank: Option<u32>,
    /// The version of CUPTI; 0 if CUPTI was not available.
    pub interface: u32,
    /// The tool that wrote the trace; `None` for the recorder of `trijet trace`.
    pub tool: Option<&'static str>,
    /// The reasons why the trace has no activities, or lacks some activities.
    pub troubles: Vec<String>,
    /// Facts about the tracing that a reader should know.
    pub notes: Vec<String>,
    /// The number of activities in the trace.
    pub activities: u64,
    /// The number of activities in the file that were left out because of the limit of the file's
    /// reader.
    pub left_out: u64,
    /// The end of the trace; `None` if the process ended without its exit handlers.
    pub end: Option<End>,
    /// The number of calls of the runtime and the driver, except calls made inside other calls.
    pub calls: usize,
    /// The records that violate the laws of CUDA. No figure includes them.
    pub contradictions: Vec<Contradiction>,
    /// The number of operations that have no times, because the operations were unfinished when the
    /// process ended.
    pub untimed: usize,
    /// The time that CUPTI reports as its own overhead.
    pub overhead: Nanos,
    /// The start of the first activity, on the clock of the trace.
    pub began: Nanos,
    /// The time from `began` to the end of the last activity.
    pub span: Nanos,
    /// The named ranges with the most time on the host, by descending time, over the whole run.
    pub ranges: Vec<RangeTime>,
    /// The graphs with the most time on a GPU, by descending time, over the whole run.
    pub graphs: Vec<GraphTime>,
    /// The devices that executed anything.
    pub devices: Vec<DeviceProfile>,
    /// The graph of the run, until the gains are computed.
    pub(super) model: Option<RunModel>,
}

/// The profile of the process of `trace`. The figures of each device are about `extent`. The
/// records that violate the laws of CUDA are removed from the trace, and counted in the profile.
#[must_use]
pub fn analyse(trace: &mut ProcessTrace, extent: FiguresOf) -> ProcessProfile {
    let activities = trace.activities.len() as u64 + trace.left_out;
    let contradictions = laws::set_apart(trace);
    let calls = ProgramCalls::of(trace);
    let mut devices: BTreeMap<u32, Vec<&Activity>> = BTreeMap::new();
    let (mut untimed, mut first, mut last) = (0, u64::MAX, 0);
    for one in &trace.activities {
        let is_operation = one.engine().is_some();
        if matches!(one.kind, ActivityKind::Mark(_)) {
            continue;
        }
        if !is_timed(one) {
            untimed += usize::from(is_operation);
            continue;
        }
        (first, last) = (first.min(one.begin.0), last.max(one.end.0));
        if is_operation {
            devices.entry(one.device).or_default().push(one);
        }
    }
    let trace = &*trace;
    let communicating = Communicating::of(trace);
    let facts = Facts {
        calls: &calls,
        streams: ProcessStreams::of(trace),
        loading: Cover::of(overhead(trace, loads)),
    };
    let life = first.min(last)..last;
    let ranges = NamedRanges::of(trace);
    let of_device = |(device, all): (u32, Vec<&Activity>)| {
        let steps = ProgramSteps::of(&all, trace, &ranges, &life);
        let window =
            steps.as_ref().filter(|_| extent == FiguresOf::Steps).map(ProgramSteps::window);
        let extent = if window.is_some() { FiguresOf::Steps } else { FiguresOf::Whole };
        let operations = Operations::of(device, all, window, &communicating)?;
        Some(DeviceProfile::of(&operations, steps, extent, trace, &facts))
    };
    ProcessProfile {
        process: trace.process,
        command: clean(&trace.command),
        rank: trace.rank,
        interface: trace.interface,
        tool: trace.tool,
        troubles: trace.troubles.iter().map(|text| clean(text)).collect(),
        notes: trace.notes.iter().map(|text| clean(text)).collect(),
        activities,
        left_out: trace.left_out,
        end: trace.end,
        calls: calls.count(),
        contradictions,
        untimed,
        overhead: overhead(trace, OverheadKind::is_caused_by_tracing).length(),
        began: Nanos(life.start),
        span: Nanos(life.end - life.start),
        ranges: ranges.times(trace),
        graphs: graphs::times(trace),
        devices: devices.into_iter().filter_map(of_device).collect(),
        model: RunModel::of(trace, &calls),
    }
}
