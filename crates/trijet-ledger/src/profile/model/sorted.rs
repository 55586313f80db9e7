//! The records of a trace, sorted in the ways in which the graph of a run needs them.
#![forbid(unsafe_code)]

use super::super::activities::{is_pageable, is_timed};
use super::super::calls::{ProgramCall, ProgramCalls};
use crate::trace::activity::{
    Activity, ActivityKind, CopyDirection, EventUse, EventUseKind, ProcessTrace, SyncKind,
};
use std::collections::{BTreeMap, HashMap};

/// An operation and the index of the call that enqueued it.
pub(in crate::profile) struct RunOperation<'a> {
    pub(in crate::profile) activity: &'a Activity,
    pub(in crate::profile) call: Option<usize>,
}

impl RunOperation<'_> {
    pub(super) fn begin(&self) -> u64 {
        self.activity.begin.0
    }

    pub(super) fn end(&self) -> u64 {
        self.activity.end.0
    }

    pub(super) fn stream(&self) -> (u32, u32) {
        (self.activity.context, self.activity.stream)
    }

    /// The direction of a copy between host and device. `None` for another operation.
    fn over_the_link(&self) -> Option<CopyDirection> {
        match self.activity.kind {
            ActivityKind::Copy { direction, .. } => Some(direction),
            _ => None,
        }
        .filter(|direction| matches!(direction, CopyDirection::Upload | CopyDirection::Download))
    }

    /// Whether the operation copies between host and device.
    pub(super) fn is_copy(&self) -> bool {
        self.over_the_link().is_some()
    }

    /// The direction of a copy between pageable memory and the device.
    pub(super) fn staged(&self) -> Option<CopyDirection> {
        self.over_the_link().filter(|_| is_pageable(self.activity))
    }
}

/// The records of a trace, sorted in several ways.
pub(in crate::profile) struct SortedTrace<'a> {
    pub(super) of: &'a ProcessTrace,
    pub(in crate::profile) calls: &'a [ProgramCall],
    /// The operations with known times, sorted by start.
    pub(in crate::profile) operations: Vec<RunOperation<'a>>,
    /// The operations of each stream, sorted by start: the context, the stream, and indices.
    pub(super) streams: BTreeMap<(u32, u32), Vec<usize>>,
    /// The operations, sorted by end.
    pub(super) by_end: Vec<usize>,
    /// The operations of each call: pairs of a call and an operation, sorted.
    by_call: Vec<(usize, usize)>,
    /// The kind of a wait, its context and its stream, by correlation number.
    pub(super) syncs: HashMap<u32, (SyncKind, u32, u32)>,
    /// The uses of events, each with the start of its call.
    pub(super) events: Vec<(u64, &'a EventUse)>,
    /// The start of the trace in nanoseconds.
    pub(in crate::profile) start: u64,
}

impl<'a> SortedTrace<'a> {
    /// `None` without operations, or if there are more moments than numbers.
    pub(in crate::profile) fn of(trace: &'a ProcessTrace, calls: &'a ProgramCalls) -> Option<Self> {
        let timed = trace.activities.iter().filter(|one| is_timed(one));
        let mut operations: Vec<RunOperation<'a>> = { timed.clone() }
            .filter(|one| one.engine().is_some())
            .map(|activity| RunOperation { activity, call: calls.enqueuing_index(activity) })
            .collect();
        operations.sort_by_key(|one| (one.begin(), one.end()));
        let first = operations.first()?.begin();
        u32::try_from(2 * (operations.len() + calls.count()) + 1).ok()?;
        let mut streams: BTreeMap<(u32, u32), Vec<usize>> = BTreeMap::new();
        let mut by_call = Vec::new();
        for (at, one) in operations.iter().enumerate() {
            streams.entry(one.stream()).or_default().push(at);
            by_call.extend(one.call.map(|call| (call, at)));
        }
        by_call.sort_unstable();
        let mut by_end: Vec<usize> = (0..operations.len()).collect();
        by_end.sort_by_key(|&at| operations[at].end());
        let syncs = timed.filter_map(|one| match one.kind {
            ActivityKind::Sync(kind) => Some((one.correlation, (kind, one.context, one.stream))),
            _ => None,
        });
        let list = calls.list();
        let called = |one: &EventUse| match calls.index_of(one.correlation) {
            Some(call) => Some(list[call].time.start),
            None => (one.what == EventUseKind::Wait && one.at.0 > 0).then_some(one.at.0),
        };
        let events = trace.events.iter().filter_map(|one| Some((called(one)?, one))).collect();
        let start = list.iter().map(|call| call.time.start).min().map_or(first, |at| at.min(first));
        let syncs = syncs.collect();
        let of = trace;
        Some(Self { of, calls: list, operations, streams, by_end, by_call, syncs, events, start })
    }

    /// The moment of the start of a call. The moment of its end has the next number.
    pub(in crate::profile) fn of_call(&self, at: usize) -> u32 {
        number(2 * at + 1)
    }

    /// The moment of the start of an operation. The moment of its end has the next number.
    pub(in crate::profile) fn of_operation(&self, at: usize) -> u32 {
        number(2 * (self.calls.len() + at) + 1)
    }

    /// The moment of a node of a graph that left no operation. They have numbers of their own after
    /// all operations.
    pub(super) fn of_silent(&self, at: usize) -> u32 {
        number(2 * (self.calls.len() + self.operations.len()) + 1 + at)
    }

    /// The operations that a call enqueued.
    pub(super) fn enqueued_by(&self, call: usize) -> Vec<usize> {
        let from = self.by_call.partition_point(|(one, _)| *one < call);
        let own = self.by_call[from..].iter().take_while(|(one, _)| *one == call);
        own.map(|(_, operation)| *operation).collect()
    }
}

/// The number of a moment. `SortedTrace::of` refuses more moments than fit.
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
