//! Signals, the host functions that may set them, and the waits that may never be answered.
//!
//! A wait that is not answered without doubt is a *need*: whatever is set only after the waiter has
//! gone on can never answer it, and a host function that waits for what another one sets may be the
//! first to run, since host functions may be serialised (law A28).
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::{Clock, Stamp};
use super::handles::Handles;
use super::known::Known;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::Signalled;
use crate::base::vector_clock::VectorClock;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Host functions of a stream that may still set or wait. About as many can be pending (law A41).
pub(super) const HOST_FNS_MAX: usize = 1024;
/// What host functions did before their records came.
const EARLY_MAX: usize = 1024;

/// Who sets, or waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check) enum Actor {
    /// A host thread, by its place in the order.
    Thread(usize),
    /// A host function, by its stream and its number there.
    HostFn(usize, u64),
}

/// How far a host function has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Enqueued,
    /// It has returned: it sets nothing any more.
    Ran,
}

/// A host function that was enqueued.
#[derive(Debug, Clone)]
pub(super) struct HostFn {
    pub(super) op: u64,
    /// Its number in the record, and here.
    pub(super) number: u64,
    pub(super) seq: u64,
    pub(super) state: State,
    /// What is complete when it begins.
    pub(super) before: Clock,
    /// What is complete where it is, if it has set or waited.
    pub(super) inside: Option<Clock>,
    /// Where threads learned that it is complete.
    pub(super) known_by: Vec<(usize, u64)>,
}

/// The host functions of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct HostFns {
    pub(super) list: VecDeque<HostFn>,
    /// Two components of the clock, if any of them set or waited: the host functions that have begun,
    /// by number, and the waits that they have behind them.
    pub(super) inner: Option<(LaneId, LaneId)>,
    pub(super) waits: u64,
}

/// A set.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) op: u64,
    pub(super) by: Actor,
    /// What is complete before it.
    pub(super) clock: Clock,
}

/// A wait of which nothing says that it will always be answered.
#[derive(Debug, Clone)]
pub(in crate::check) struct Need {
    pub(in crate::check) op: u64,
    pub(in crate::check) signal: u64,
    pub(in crate::check) by: Actor,
    /// Who has this behind itself follows the wait.
    pub(super) at: Stamp,
    /// The last wait of the same one for the signal.
    pub(super) last: u64,
    pub(super) reported: bool,
}

/// A signal.
#[derive(Debug, Clone, Default)]
pub(super) struct Signal {
    pub(super) sets: Vec<Set>,
    /// Threads that found it set before the record of who set it came.
    pub(super) found_early: Vec<usize>,
    pub(super) is_gone: bool,
}

/// What a host function did before its record came.
#[derive(Debug, Clone)]
pub(super) struct EarlyAct {
    pub(super) at: Position,
    pub(super) op: u64,
    pub(super) act: Act,
}

/// What a host function may do before its record comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Signal(u64, Signalled),
    Return,
}

/// All signals, and what may set them.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    pub(super) by_id: HashMap<u64, Signal>,
    /// By signal and waiter: the first wait of each, since an answer to a later one comes later.
    pub(super) needs: BTreeMap<(u64, Actor), Need>,
    /// By the place of their stream in the order.
    pub(super) host_fns: BTreeMap<usize, HostFns>,
    pub(super) early: VecDeque<EarlyAct>,
    pub(super) handles: Handles,
    /// Devices whose context is lost.
    lost: BTreeSet<DeviceId>,
}

impl Signals {
    pub(super) fn host_fn(&self, lane: usize, seq: u64) -> Option<&HostFn> {
        self.host_fns.get(&lane)?.list.iter().rev().find(|host_fn| host_fn.seq == seq)
    }

    pub(super) fn host_fn_mut(&mut self, lane: usize, seq: u64) -> Option<&mut HostFn> {
        self.host_fns.get_mut(&lane)?.list.iter_mut().rev().find(|host_fn| host_fn.seq == seq)
    }

    /// Whether somebody set the signal of whom nothing else is known.
    pub(super) fn is_set_early(&self, signal: u64) -> bool {
        self.early.iter().any(|early| early.act == Act::Signal(signal, Signalled::Set))
    }

    /// Whether the record of the host function at the position has not come.
    pub(super) fn is_early(&self, at: Position) -> bool {
        self.early.iter().any(|early| early.at == at)
    }

    /// Law A29: from now on no host function of the device is called.
    pub(super) fn lose(&mut self, device: DeviceId) {
        self.lost.insert(device);
    }

    /// All host functions of a stream have run: its lane passes to another one.
    pub(super) fn lane_gone(&mut self, lane: usize) {
        let list = self.host_fns.get_mut(&lane).into_iter().flat_map(|fns| &mut fns.list);
        list.for_each(|host_fn| host_fn.state = State::Ran);
    }

    /// Forgets the host functions of a former stream, if no wait is one of them.
    pub(super) fn forget_lane(&mut self, lane: usize) -> bool {
        let waits = |key: &(u64, Actor)| matches!(key.1, Actor::HostFn(of, _) if of == lane);
        if self.needs.keys().any(waits) {
            return false;
        }
        self.host_fns.get_mut(&lane).into_iter().for_each(|fns| fns.list.clear());
        true
    }

    /// Adds the records that findings may still name.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        for host_fn in self.host_fns.values().flat_map(|host_fns| &host_fns.list) {
            named.push(host_fn.op);
            named.extend(host_fn.known_by.iter().map(|(_, op)| *op));
        }
        named.extend(self.needs.values().map(|need| need.op));
        named.extend(self.by_id.values().flat_map(|signal| &signal.sets).map(|set| set.op));
        named.extend(self.early.iter().map(|early| early.op));
    }

    pub(super) fn note_early(&mut self, at: Position, op: u64, act: Act) {
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(EarlyAct { at, op, act });
    }

    pub(super) fn held_state(&self) -> usize {
        let host_fns = self.host_fns.values().map(|host_fns| host_fns.list.len()).sum::<usize>();
        self.by_id.len()
            + self.needs.len()
            + self.early.len()
            + host_fns
            + self.handles.held_state()
    }

    /// The host function has returned.
    pub(super) fn returned_from(&mut self, by: Actor) {
        let Actor::HostFn(lane, seq) = by else { return };
        let host_fn = self.host_fn_mut(lane, seq);
        host_fn.into_iter().for_each(|host_fn| host_fn.state = State::Ran);
    }

    /// The host functions of lost devices that will never run, by their records.
    pub(super) fn never_run(&self, known: &Known) -> Vec<u64> {
        let of_lost = self.host_fns.iter();
        let of_lost = of_lost.filter(|(lane, _)| self.is_lost(known, **lane));
        let pending = of_lost.flat_map(|(_, fns)| &fns.list);
        let pending = pending.filter(|one| one.state == State::Enqueued && one.inside.is_none());
        let mut ops: Vec<u64> =
            pending.filter(|one| one.known_by.is_empty()).map(|one| one.op).collect();
        ops.sort_unstable();
        ops
    }

    /// Whether the context of the stream's device is lost.
    pub(super) fn is_lost(&self, known: &Known, lane: usize) -> bool {
        self.lost.contains(&known.lanes.edges.device(lane))
    }

    /// Only what is still pending in its stream runs: the last one of the number, if the record makes
    /// no sense.
    pub(super) fn host_fn_at(&self, known: &Known, at: Position) -> Option<Actor> {
        let lane = known.lanes.edges.find(at.lane)?;
        let list = &self.host_fns.get(&lane)?.list;
        let host_fn = list.iter().rev().find(|host_fn| host_fn.number == at.seq)?;
        Some(Actor::HostFn(lane, host_fn.seq))
    }

    /// Forgets a signal that is gone and has no open question.
    pub(super) fn forget(&mut self, signal: u64) {
        let Self { by_id, needs, .. } = self;
        let is_open = || needs.keys().any(|(other, _)| *other == signal);
        if by_id.get(&signal).is_some_and(|held| held.is_gone) && !is_open() {
            by_id.remove(&signal);
            self.handles.forget(signal);
        }
    }

    /// `thread` has just learned that host functions are complete.
    pub(super) fn note_known(&mut self, known: &Known, thread: usize, op: u64) {
        let complete = &known.threads.list[thread].known.sure;
        for (lane, host_fns) in &mut self.host_fns {
            let component = known.lanes.list[*lane].stamp(0).lane;
            for host_fn in host_fns.list.iter_mut().rev() {
                if complete.get(component) < host_fn.seq {
                    continue;
                }
                if host_fn.known_by.iter().any(|(other, _)| *other == thread) {
                    break;
                }
                host_fn.known_by.push((thread, op));
            }
        }
    }

    /// Forgets host functions that all know to be complete.
    pub(super) fn retire(&mut self, known: &Known, complete: &VectorClock) {
        let Self { host_fns, needs, .. } = self;
        for (lane, of_lane) in host_fns {
            let component = known.lanes.list[*lane].stamp(0).lane;
            let waits = |seq| needs.values().any(|need| need.by == Actor::HostFn(*lane, seq));
            of_lane
                .list
                .retain(|host_fn| complete.get(component) < host_fn.seq || waits(host_fn.seq));
        }
    }
}
