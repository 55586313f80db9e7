//! Streams. Each stream has a component of the clocks, and its last waits, which explanations use.
//!
//! A stream has its own component, or continues the numbers in the component of a former stream.
//! Within a component, an operation follows every operation with a smaller number. But a stream
//! does not follow the work of a former stream. So a stream continues the numbers of a former
//! stream in two cases only:
//! - The thread that creates the stream knows all work of the former stream to be complete.
//! - Nothing that is kept names the work of the former stream.
#![forbid(unsafe_code)]

use super::clock::{Components, Stamp, StampClock};
use super::remembered_wait::RememberedWait;
use crate::base::edges::{Laws, Streams};
use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::Op;
use crate::base::vector_clock::VectorClock;
use std::collections::BTreeSet;

/// The number of latest former streams whose numbers a new stream tries to continue.
const TRIED_MAX: usize = 8;

/// The calls of one thread that waited while other work came to the stream. These calls and the
/// other work have no order, so the calls have a component of their own.
#[derive(Debug, Clone)]
struct ConcurrentCalls {
    thread: usize,
    last: Stamp,
}

/// A stream, with its component of the clocks and its last waits.
#[derive(Debug, Clone)]
pub(in crate::check) struct Lane {
    pub(in crate::check) id: LaneId,
    component: LaneId,
    pub(super) seq: u64,
    /// The number of an operation in the trace is its number in `component` plus this offset.
    pub(in crate::check) offset: u64,
    pub(in crate::check) waits: Vec<RememberedWait>,
    concurrent: Vec<ConcurrentCalls>,
}

impl Lane {
    fn new(op: &Op, component: LaneId) -> Self {
        Self {
            id: op.position.lane,
            component,
            seq: 0,
            offset: 0,
            waits: Vec::new(),
            concurrent: Vec::new(),
        }
    }

    /// The stamp of the operation with the number `seq` in `component`.
    pub(super) fn stamp(&self, seq: u64) -> Stamp {
        Stamp { lane: self.component, seq }
    }

    fn components(&self) -> impl Iterator<Item = LaneId> + '_ {
        self.concurrent.iter().map(|calls| calls.last.lane).chain([self.component])
    }

    /// Whether the component belongs to the stream.
    pub(super) fn has(&self, component: LaneId) -> bool {
        self.component == component
            || self.concurrent.iter().any(|calls| calls.last.lane == component)
    }

    /// Whether `known` covers all work that was ever counted in the components of the stream.
    fn is_known(&self, known: &VectorClock) -> bool {
        known.covers(self.stamp(self.seq))
            && self.concurrent.iter().all(|calls| known.covers(calls.last))
    }

    fn count(&mut self, op: &Op) -> Stamp {
        self.seq += 1;
        self.offset = op.position.seq.saturating_sub(self.seq);
        self.stamp(self.seq)
    }
}

/// All streams, and the set that the next entry of each stream follows.
#[derive(Debug, Clone)]
pub(in crate::check) struct Lanes {
    /// The legal edges of the streams, by their indices in `list`.
    pub(super) edges: Streams<StampClock>,
    pub(in crate::check) list: Vec<Lane>,
    /// The indices of the streams whose lanes passed to other streams.
    former: Vec<usize>,
    /// The indices of former streams whose numbers any new stream may continue.
    vacant: Vec<usize>,
}

impl Lanes {
    pub(super) fn new(laws: Laws) -> Self {
        Self { edges: Streams::new(laws), list: Vec::new(), former: Vec::new(), vacant: Vec::new() }
    }

    /// The index of the stream that has the lane of the entry. Adds the stream if there is none.
    pub(super) fn number_of(&mut self, op: &Op, components: &mut Components) -> usize {
        self.edges.find(op.position.lane).unwrap_or_else(|| {
            self.list.push(Lane::new(op, components.next()));
            self.edges.enter(self.list.len() - 1, op);
            self.list.len() - 1
        })
    }

    /// Closes the stream that has the lane, because the lane passes to another stream. Everything
    /// in the closed stream is complete, and threads may still wait for the stream. Returns the
    /// index of the closed stream.
    pub(super) fn close(&mut self, id: LaneId) -> Option<usize> {
        let before = self.edges.close(id)?;
        self.list[before].waits.clear();
        self.former.push(before);
        Some(before)
    }

    /// Opens a stream in the lane of `op`. The stream follows only the call that creates the
    /// stream. The thread of that call knows `known` to be complete.
    pub(super) fn open(&mut self, op: &Op, known: &StampClock, components: &mut Components) {
        let number = self.vacant(known).unwrap_or(self.list.len());
        if number == self.list.len() {
            self.list.push(Lane::new(op, components.next()));
        }
        let lane = &mut self.list[number];
        *lane = Lane {
            seq: lane.seq,
            concurrent: std::mem::take(&mut lane.concurrent),
            ..Lane::new(op, lane.component)
        };
        lane.offset = op.position.seq.saturating_sub(lane.seq);
        self.edges.open(number, op, known);
    }

    /// The index of a former stream whose numbers a new stream may continue. The thread that
    /// creates the new stream knows `known` to be complete.
    fn vacant(&mut self, known: &StampClock) -> Option<usize> {
        if let Some(number) = self.vacant.pop() {
            return Some(number);
        }
        let first = self.former.len().saturating_sub(TRIED_MAX);
        let is_known = |number: &usize| self.list[*number].is_known(&known.sure);
        let found = self.former[first..].iter().rposition(is_known)?;
        Some(self.former.remove(first + found))
    }

    /// Frees the components of the former streams whose work every thread knows to be complete, or
    /// whose work nothing names. Returns these components. Every thread knows `known` to be
    /// complete. `named` has the components of the stamps that are kept elsewhere. `forget` drops
    /// the other state of a stream, or returns false if that state is still needed.
    pub(super) fn retire(
        &mut self,
        known: &VectorClock,
        named: &BTreeSet<LaneId>,
        mut forget: impl FnMut(usize) -> bool,
    ) -> BTreeSet<LaneId> {
        let Self { list, former, vacant, .. } = self;
        let mut freed = BTreeSet::new();
        former.retain(|number| {
            let lane = &list[*number];
            let is_named = || lane.components().any(|component| named.contains(&component));
            let is_free = lane.is_known(known) || !is_named();
            if is_free && forget(*number) {
                freed.extend(lane.components());
                vacant.push(*number);
                return false;
            }
            true
        });
        self.list.iter_mut().for_each(|lane| lane.waits.retain(|wait| !wait.names(&freed)));
        freed
    }

    /// Gives the next number of the stream to an operation, and adds the operation to the tail.
    /// Returns the stamp of the operation.
    pub(super) fn count(&mut self, lane: usize, op: &Op) -> Stamp {
        let stamp = self.list[lane].count(op);
        self.edges.tail_mut(lane).raise(stamp);
        stamp
    }

    /// Gives a number to the work of a call that waited while other work came to the stream of the
    /// call. The number is in a component of its own. Returns the stamp of the work.
    pub(super) fn count_concurrent(
        &mut self,
        lane: usize,
        thread: usize,
        components: &mut Components,
    ) -> Stamp {
        let concurrent = &mut self.list[lane].concurrent;
        let at = match concurrent.iter().position(|calls| calls.thread == thread) {
            Some(at) => at,
            None => {
                concurrent.push(ConcurrentCalls {
                    thread,
                    last: Stamp { lane: components.next(), seq: 0 },
                });
                concurrent.len() - 1
            }
        };
        concurrent[at].last.seq += 1;
        let stamp = concurrent[at].last;
        self.edges.tail_mut(lane).raise(stamp);
        stamp
    }

    /// For each stream of the device with work that `known` does not cover: the lane of the stream,
    /// and the number of the last operation that `known` covers, as the trace counts operations.
    pub(super) fn in_flight(&self, device: DeviceId, known: &VectorClock) -> Vec<(LaneId, u64)> {
        let done = |lane: &Lane| known.get(lane.component);
        let members = self.edges.members(device).iter().map(|lane| &self.list[*lane]);
        let open = members.filter(|lane| done(lane) < lane.seq);
        open.map(|lane| (lane.id, done(lane).saturating_add(lane.offset))).collect()
    }
}
