//! Signals, the host functions that may set them, and the waits that may never end.
//!
//! A [`Set`] is an act that sets a signal. A set *answers* a wait if the set ends the wait. A
//! *need* ([`UnansweredWait`]) is a wait that no set answers in every run. A set that comes only
//! after the wait has ended can never answer the wait. The driver may run host functions one after
//! the other (law A28). So a host function that waits for a signal of another host function may run
//! first, and keep the other host function from running.
#![forbid(unsafe_code)]

use super::clock::{Stamp, StampClock};
use super::handles::Handles;
use super::known::Known;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::Signalled;
use crate::base::vector_clock::VectorClock;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Maximum number of host functions that are kept per stream. The latest host functions are kept,
/// because at most about this many can be pending (law A41).
pub(super) const HOST_FNS_MAX: usize = 1024;
/// Maximum number of [`EarlyAct`]s that are kept.
const EARLY_MAX: usize = 1024;

/// A host thread or a host function that sets a signal or waits for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check) enum Actor {
    /// A host thread, by its index in `HostThreads::list`.
    Thread(usize),
    /// A host function, by the index of its stream in `Lanes::list`, and its number in that stream.
    HostFn(usize, u64),
}

/// The state of a host function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// The host function has not returned, as far as is known.
    Enqueued,
    /// The host function has returned, so it sets no signal any more.
    Ran,
}

/// A host function that was enqueued.
#[derive(Debug, Clone)]
pub(super) struct HostFn {
    pub(super) op: u64,
    /// The number of the host function in its lane, as the trace counts.
    pub(super) number: u64,
    /// The number of the host function in its stream, as the checker counts.
    pub(super) seq: u64,
    pub(super) state: State,
    /// The stamps that are complete when the host function begins.
    pub(super) before: StampClock,
    /// The stamps that are complete at the last known point inside the host function. `None` if the
    /// host function has neither set a signal nor waited.
    pub(super) inside: Option<StampClock>,
    /// The threads that know the host function to be complete, each with the entry at which the
    /// thread learned that.
    pub(super) known_by: Vec<(usize, u64)>,
}

/// The host functions of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct HostFns {
    pub(super) list: VecDeque<HostFn>,
    /// Two components of the clocks. `None` if none of the host functions has set a signal or
    /// waited. A host function that has begun raises the first component to its number in the
    /// stream. The second component counts the acts inside the host functions that set a signal or
    /// wait.
    pub(super) inner: Option<(LaneId, LaneId)>,
    /// The number of the last act in the second component.
    pub(super) waits: u64,
}

/// An act that sets a signal.
#[derive(Debug, Clone)]
pub(super) struct Set {
    pub(super) op: u64,
    pub(super) by: Actor,
    /// The stamps that are complete when the signal is set.
    pub(super) clock: StampClock,
}

/// Whether a wait ends even if no [`Set`] answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check) enum Patience {
    /// The wait lasts for ever.
    Endless,
    /// The wait ends when its time limit is over.
    Limited,
}

/// The key of the waits of one thread or host function for one signal: the signal, the thread or
/// host function, and whether the waits have a limit.
pub(super) type Waiter = (u64, Actor, Patience);

/// A wait that no [`Set`] answers in every run.
#[derive(Debug, Clone)]
pub(in crate::check) struct UnansweredWait {
    pub(in crate::check) op: u64,
    pub(in crate::check) signal: u64,
    pub(in crate::check) by: Actor,
    pub(in crate::check) patience: Patience,
    /// The stamp of the wait. A point follows the wait if the clock of the point covers this stamp.
    pub(super) at: Stamp,
    /// The entry of the last wait of the same thread or host function for the signal.
    pub(super) last: u64,
    /// Whether a finding about the wait was made.
    pub(super) reported: bool,
}

/// The state of a signal.
#[derive(Debug, Clone, Default)]
pub(super) struct SignalState {
    pub(super) sets: Vec<Set>,
    /// The indices of the threads that found that the signal was set before `sets` had the [`Set`].
    pub(super) found_early: Vec<usize>,
    /// Whether the last handle of the signal was dropped.
    pub(super) is_gone: bool,
}

/// An act of a host function whose entry came before the entry of the call that enqueues the host
/// function.
#[derive(Debug, Clone)]
pub(super) struct EarlyAct {
    /// The position of the host function.
    pub(super) at: Position,
    pub(super) op: u64,
    pub(super) act: Act,
}

/// An act of a host function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// The host function used a signal.
    Signal(u64, Signalled),
    /// The host function returned.
    Return,
}

/// All signals, the host functions, and the unanswered waits.
#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    pub(super) by_id: HashMap<u64, SignalState>,
    /// The first wait of each waiter for each signal. Later waits of the waiter for the signal
    /// follow the first wait, so the later waits are not kept.
    pub(super) needs: BTreeMap<Waiter, UnansweredWait>,
    /// The host functions of each stream, by the index of the stream in `Lanes::list`.
    pub(super) host_fns: BTreeMap<usize, HostFns>,
    pub(super) early: VecDeque<EarlyAct>,
    pub(super) handles: Handles,
    /// Devices whose context is lost.
    lost: BTreeSet<DeviceId>,
}

impl UnansweredWait {
    pub(in crate::check) fn is_limited(&self) -> bool {
        self.patience == Patience::Limited
    }

    pub(super) fn key(&self) -> Waiter {
        (self.signal, self.by, self.patience)
    }
}

impl Signals {
    pub(super) fn host_fn(&self, lane: usize, seq: u64) -> Option<&HostFn> {
        self.host_fns.get(&lane)?.list.iter().rev().find(|host_fn| host_fn.seq == seq)
    }

    pub(super) fn host_fn_mut(&mut self, lane: usize, seq: u64) -> Option<&mut HostFn> {
        self.host_fns.get_mut(&lane)?.list.iter_mut().rev().find(|host_fn| host_fn.seq == seq)
    }

    /// Whether an early act of a host function has set the signal.
    pub(super) fn is_set_early(&self, signal: u64) -> bool {
        self.early.iter().any(|early| early.act == Act::Signal(signal, Signalled::Set))
    }

    /// Whether an early act of the host function at the position is still to be applied.
    pub(super) fn is_early(&self, at: Position) -> bool {
        self.early.iter().any(|early| early.at == at)
    }

    /// Notes that the context of the device is lost. From now on, no host function of the device is
    /// called (law A29).
    pub(super) fn lose(&mut self, device: DeviceId) {
        self.lost.insert(device);
    }

    /// Notes that the lane of a stream passes to another stream. So all host functions of the
    /// stream that had the lane have run.
    pub(super) fn lane_gone(&mut self, lane: usize) {
        let list = self.host_fns.get_mut(&lane).into_iter().flat_map(|fns| &mut fns.list);
        list.for_each(|host_fn| host_fn.state = State::Ran);
    }

    /// Forgets the host functions of a former stream, unless one of these host functions has an
    /// unanswered wait. Returns whether the host functions were forgotten.
    pub(super) fn forget_lane(&mut self, lane: usize) -> bool {
        let waits = |key: &Waiter| matches!(key.1, Actor::HostFn(of, _) if of == lane);
        if self.needs.keys().any(waits) {
            return false;
        }
        self.host_fns.get_mut(&lane).into_iter().for_each(|fns| fns.list.clear());
        true
    }

    /// Adds the entries that findings may still name.
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

    /// Notes that the host function has returned.
    pub(super) fn returned_from(&mut self, by: Actor) {
        let Actor::HostFn(lane, seq) = by else { return };
        let host_fn = self.host_fn_mut(lane, seq);
        host_fn.into_iter().for_each(|host_fn| host_fn.state = State::Ran);
    }

    /// The entries of the host functions of lost devices that will never run.
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

    /// The host function with this position. A damaged trace may have several host functions with
    /// this position. Then the last of them is returned, because only a pending host function can
    /// run.
    pub(super) fn host_fn_at(&self, known: &Known, at: Position) -> Option<Actor> {
        let lane = known.lanes.edges.find(at.lane)?;
        let list = &self.host_fns.get(&lane)?.list;
        let host_fn = list.iter().rev().find(|host_fn| host_fn.number == at.seq)?;
        Some(Actor::HostFn(lane, host_fn.seq))
    }

    /// Forgets the signal if its last handle was dropped and there is no unanswered wait for it.
    pub(super) fn forget(&mut self, signal: u64) {
        let Self { by_id, needs, .. } = self;
        let is_open = || needs.keys().any(|(other, ..)| *other == signal);
        if by_id.get(&signal).is_some_and(|held| held.is_gone) && !is_open() {
            by_id.remove(&signal);
            self.handles.forget(signal);
        }
    }

    /// Notes that the thread knows some host functions to be complete since the entry `op`.
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

    /// Forgets the host functions in `complete`, which every thread knows to be complete. Host
    /// functions with an unanswered wait are not forgotten.
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
