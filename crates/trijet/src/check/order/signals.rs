//! Hand-overs between host threads and host functions, by signals that one sets and another waits for.
//!
//! Who found a signal set follows who set it first. A wait that is not answered without doubt is a
//! *need*: whatever is set only after the waiter has gone on can never answer it, and a host function
//! that waits for what another one sets may be the first to run, since host functions may be
//! serialised (law A28). What becomes of the needs in the end is in [`stuck`](super::stuck).
//!
//! A host function may do something before the record of its enqueue call is there: that is kept, and
//! done when the record comes.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::Clock;
use super::handles::Handles;
use super::{Order, Stamp};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::Signalled;
use crate::base::vector_clock::VectorClock;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Host functions of a stream that may still set or wait. About as many can be pending (law A41).
const HOST_FNS_MAX: usize = 1024;
/// Sets of one signal that are kept. The first one is what answers waits.
const SETS_MAX: usize = 8;
/// Needs that are kept. Waits that give up, of signals that are gone, would be without end.
const NEEDS_MAX: usize = 256;
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
    pub(super) seen: Vec<(usize, u64)>,
}

/// The host functions of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct HostFns {
    pub(super) list: VecDeque<HostFn>,
    /// Two components of the clock, if any of them set or waited: the host functions that have begun,
    /// by number, and the waits that they have behind them.
    pub(super) inner: Option<(LaneId, LaneId)>,
    waits: u64,
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
    last: u64,
    pub(super) reported: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Signal {
    pub(super) sets: Vec<Set>,
    /// Threads that found it set before the record of who set it came.
    owed: Vec<usize>,
    is_gone: bool,
}

/// What a host function did before its record came.
#[derive(Debug, Clone)]
struct Early {
    at: Position,
    op: u64,
    did: Did,
}

/// What a host function may do before its record comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Signal(u64, Signalled),
    Return,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Signals {
    pub(super) of: HashMap<u64, Signal>,
    /// By signal and waiter: the first wait of each, since an answer to a later one comes later.
    pub(super) needs: BTreeMap<(u64, Actor), Need>,
    /// By the place of their stream in the order.
    pub(super) host_fns: BTreeMap<usize, HostFns>,
    early: VecDeque<Early>,
    pub(super) handles: Handles,
    /// Devices whose context is lost.
    lost: BTreeSet<DeviceId>,
    /// What was found since it was last asked for.
    found: Vec<super::Stuck>,
}

impl Signals {
    pub(super) fn host_fn(&self, lane: usize, seq: u64) -> Option<&HostFn> {
        self.host_fns.get(&lane)?.list.iter().rev().find(|host_fn| host_fn.seq == seq)
    }

    fn host_fn_mut(&mut self, lane: usize, seq: u64) -> Option<&mut HostFn> {
        self.host_fns.get_mut(&lane)?.list.iter_mut().rev().find(|host_fn| host_fn.seq == seq)
    }

    /// Whether somebody set the signal of whom nothing else is known.
    pub(super) fn is_set_early(&self, signal: u64) -> bool {
        self.early.iter().any(|early| early.did == Did::Signal(signal, Signalled::Set))
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
            named.extend(host_fn.seen.iter().map(|(_, op)| *op));
        }
        named.extend(self.needs.values().map(|need| need.op));
        named.extend(self.of.values().flat_map(|signal| &signal.sets).map(|set| set.op));
        named.extend(self.early.iter().map(|early| early.op));
    }

    fn did_early(&mut self, at: Position, op: u64, did: Did) {
        if self.early.len() == EARLY_MAX {
            self.early.pop_front();
        }
        self.early.push_back(Early { at, op, did });
    }

    pub(super) fn held_state(&self) -> usize {
        let host_fns = self.host_fns.values().map(|host_fns| host_fns.list.len()).sum::<usize>();
        self.of.len() + self.needs.len() + self.early.len() + host_fns + self.handles.held_state()
    }
}

impl Order {
    /// A host function is about to be enqueued, which comes after `before`.
    pub(super) fn host_fn(&mut self, lane: usize, at: Position, op: u64, before: Clock) {
        let Self { lanes, signals, .. } = self;
        let host_fns = signals.host_fns.entry(lane).or_default();
        if host_fns.list.len() == HOST_FNS_MAX {
            host_fns.list.pop_front();
        }
        host_fns.list.push_back(HostFn {
            op,
            number: at.seq,
            seq: lanes[lane].seq + 1,
            state: State::Enqueued,
            before,
            inside: None,
            seen: Vec::new(),
        });
        let is_its = |early: &Early| early.at == at;
        while let Some(index) = self.signals.early.iter().position(is_its) {
            let Some(early) = self.signals.early.remove(index) else { break };
            let by = Actor::HostFn(lane, self.lanes[lane].seq + 1);
            match early.did {
                Did::Signal(signal, what) => self.did(by, early.op, (signal, what)),
                Did::Return => self.returned_from(by),
            }
        }
    }

    /// A hand-over.
    pub(super) fn signal(
        &mut self,
        (thread, inside): (usize, Option<Position>),
        op: u64,
        did: (u64, Signalled),
    ) {
        let by = match inside {
            _ if did.1 == Signalled::Gone => return self.signal_gone(did.0),
            None => Some(Actor::Thread(thread)),
            Some(at) => self.host_fn_at(at),
        };
        match (by, inside) {
            (Some(by), _) => self.did(by, op, did),
            (None, Some(at)) => self.signals.did_early(at, op, Did::Signal(did.0, did.1)),
            (None, None) => {}
        }
    }

    /// The host function at the position has returned.
    pub(super) fn ran(&mut self, at: Position, op: u64) {
        match self.host_fn_at(at) {
            Some(by) => self.returned_from(by),
            None => self.signals.did_early(at, op, Did::Return),
        }
    }

    fn returned_from(&mut self, by: Actor) {
        let Actor::HostFn(lane, seq) = by else { return };
        let host_fn = self.signals.host_fn_mut(lane, seq);
        host_fn.into_iter().for_each(|host_fn| host_fn.state = State::Ran);
    }

    /// The host functions of lost devices that will never run, by their records.
    pub(in crate::check) fn never_run(&self) -> Vec<u64> {
        let of_lost = self.signals.host_fns.iter();
        let of_lost = of_lost.filter(|(lane, _)| self.is_lost(**lane));
        let pending = of_lost.flat_map(|(_, fns)| &fns.list);
        let pending = pending.filter(|one| one.state == State::Enqueued && one.inside.is_none());
        let mut ops: Vec<u64> =
            pending.filter(|one| one.seen.is_empty()).map(|one| one.op).collect();
        ops.sort_unstable();
        ops
    }

    /// Whether the context of the stream's device is lost.
    pub(super) fn is_lost(&self, lane: usize) -> bool {
        self.signals.lost.contains(&self.lanes[lane].device)
    }

    /// Only what is still pending in its stream runs: the last one of the number, if the record makes
    /// no sense.
    pub(super) fn host_fn_at(&self, at: Position) -> Option<Actor> {
        let lane = *self.lane_of.get(&at.lane)?;
        let list = &self.signals.host_fns.get(&lane)?.list;
        let host_fn = list.iter().rev().find(|host_fn| host_fn.number == at.seq)?;
        Some(Actor::HostFn(lane, host_fn.seq))
    }

    fn did(&mut self, by: Actor, op: u64, (signal, what): (u64, Signalled)) {
        match what {
            Signalled::Set => self.set(by, op, signal),
            Signalled::Wait => self.need(by, op, signal),
            Signalled::Found => self.found(by, op, signal),
            Signalled::Gone => self.signal_gone(signal),
        }
    }

    /// Has what is complete where `by` is looked at and changed.
    fn with_inside<R>(
        &mut self,
        by: Actor,
        look: impl FnOnce(&mut Clock, Stamp) -> R,
    ) -> Option<R> {
        match by {
            Actor::Thread(thread) => {
                let at = self.call(thread);
                Some(look(&mut self.threads[thread].known, at))
            }
            Actor::HostFn(lane, seq) => {
                let inner = self.signals.host_fns.get(&lane)?.inner;
                let inner = inner.unwrap_or_else(|| (self.component(), self.component()));
                let host_fns = self.signals.host_fns.get_mut(&lane)?;
                host_fns.inner = Some(inner);
                host_fns.waits += 1;
                let at = Stamp { lane: inner.1, seq: host_fns.waits };
                let host_fn = self.signals.host_fn_mut(lane, seq)?;
                let HostFn { inside, before, .. } = host_fn;
                let inside = inside.get_or_insert_with(|| before.clone());
                inside.raise(Stamp { lane: inner.0, seq });
                Some(look(inside, at))
            }
        }
    }

    fn set(&mut self, by: Actor, op: u64, signal: u64) {
        let Some(clock) = self.with_inside(by, |known, _| known.clone()) else { return };
        let owed = std::mem::take(&mut self.signals.of.entry(signal).or_default().owed);
        for thread in owed {
            self.learn(thread, &clock);
        }
        let held = self.signals.of.entry(signal).or_default();
        held.sets.push(Set { op, by, clock });
        self.settle(signal);
        let sets = self.signals.of.get_mut(&signal).map(|held| &mut held.sets);
        if let Some(sets) = sets.filter(|sets| sets.len() > SETS_MAX) {
            sets.remove(1);
        }
    }

    fn need(&mut self, by: Actor, op: u64, signal: u64) {
        let raised = self.with_inside(by, |known, at| {
            known.raise(at);
            at
        });
        let Some(at) = raised else { return };
        self.make_room();
        let need = Need { op, signal, by, at, last: op, reported: false };
        let held = self.signals.needs.entry((signal, by)).or_insert(need);
        held.last = op;
        self.signals.of.entry(signal).or_default();
        self.settle(signal);
    }

    fn found(&mut self, by: Actor, op: u64, signal: u64) {
        let held = self.signals.of.entry(signal).or_default();
        let Some(first) = held.sets.first().map(|set| set.clock.clone()) else {
            // What a host function did early is known later, and then to its stream only.
            if let Actor::Thread(thread) = by {
                held.owed.push(thread);
            }
            return;
        };
        self.with_inside(by, |known, _| known.join(&first));
        match by {
            Actor::Thread(thread) => self.note_seen(thread, op),
            Actor::HostFn(lane, _) => self.lanes[lane].tail.join(&first),
        }
        // It was answered, and so it can be. Whether it always is, is another question. One that gave
        // up before was not.
        let is_it = |need: &&Need| need.last == need.op;
        if let Some(need) = self.signals.needs.get(&(signal, by)).filter(is_it).cloned() {
            let risk = self.risk_of_first(&need);
            self.signals.found.extend(risk);
            self.signals.needs.remove(&(signal, by));
        }
        self.forget(signal);
    }

    /// Nobody can set the signal any more, and nobody waits for it.
    fn signal_gone(&mut self, signal: u64) {
        let Some(held) = self.signals.of.get_mut(&signal) else {
            return self.signals.handles.forget(signal);
        };
        held.is_gone = true;
        if held.sets.is_empty() {
            // All gave up, and nothing was to answer them.
            self.signals.needs.retain(|(of, _), _| *of != signal);
        }
        self.forget(signal);
    }

    /// Forgets a signal that is gone and has no open question.
    fn forget(&mut self, signal: u64) {
        let Signals { of, needs, .. } = &mut self.signals;
        let is_open = || needs.keys().any(|(other, _)| *other == signal);
        if of.get(&signal).is_some_and(|held| held.is_gone) && !is_open() {
            of.remove(&signal);
            self.signals.handles.forget(signal);
        }
    }

    /// Drops the needs of a signal that some set answers without doubt.
    fn settle(&mut self, signal: u64) {
        let of_signal = self.signals.needs.range((signal, Actor::Thread(0))..);
        let of_signal = of_signal.take_while(|((other, _), _)| *other == signal);
        let answered: Vec<_> =
            of_signal.filter(|(_, need)| self.is_answered(need)).map(|(key, _)| *key).collect();
        for key in answered {
            self.signals.needs.remove(&key);
        }
    }

    /// Keeps the number of needs bounded: says what can be said, and forgets those of signals that
    /// are gone, and if that is not enough the older half.
    fn make_room(&mut self) {
        if self.signals.needs.len() < NEEDS_MAX {
            return;
        }
        let found = self.stuck();
        let Signals { of, needs, handles, .. } = &mut self.signals;
        for stuck in &found {
            for hop in &stuck.hops {
                let need = needs.get_mut(&(hop.need.signal, hop.need.by));
                need.into_iter().for_each(|need| need.reported = true);
            }
        }
        let is_gone = |signal: &u64| of.get(signal).is_none_or(|held| held.is_gone);
        needs.retain(|(signal, _), _| !is_gone(signal));
        of.retain(|signal, held| {
            if held.is_gone {
                handles.forget(*signal);
            }
            !held.is_gone
        });
        if needs.len() >= NEEDS_MAX {
            let mut ops: Vec<u64> = needs.values().map(|need| need.op).collect();
            ops.sort_unstable();
            let middle = ops[ops.len() / 2];
            needs.retain(|_, need| need.op >= middle);
        }
        self.signals.found.extend(found);
    }

    /// `thread` has just learned that host functions are complete.
    pub(super) fn note_seen(&mut self, thread: usize, op: u64) {
        let known = &self.threads[thread].known.sure;
        for (lane, host_fns) in &mut self.signals.host_fns {
            let component = self.lanes[*lane].stamp(0).lane;
            for host_fn in host_fns.list.iter_mut().rev() {
                if known.get(component) < host_fn.seq {
                    continue;
                }
                if host_fn.seen.iter().any(|(other, _)| *other == thread) {
                    break;
                }
                host_fn.seen.push((thread, op));
            }
        }
    }

    /// Forgets host functions that all know to be complete.
    pub(super) fn retire_host_fns(&mut self, known: &VectorClock) {
        let Signals { host_fns, needs, .. } = &mut self.signals;
        for (lane, of_lane) in host_fns {
            let component = self.lanes[*lane].stamp(0).lane;
            let waits = |seq| needs.values().any(|need| need.by == Actor::HostFn(*lane, seq));
            of_lane.list.retain(|host_fn| known.get(component) < host_fn.seq || waits(host_fn.seq));
        }
    }

    /// What was found since the last time.
    pub(in crate::check) fn take_stuck(&mut self) -> Vec<super::Stuck> {
        std::mem::take(&mut self.signals.found)
    }
}
