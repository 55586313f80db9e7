//! Hand-overs between host threads and host functions, by signals. One thread or host function sets
//! a signal, and another thread or host function waits for the signal.
//!
//! A thread or host function that finds a signal set follows the thread or host function that set
//! the signal first. The waits that may never end are found in [`stuck`](super::stuck).
//!
//! A host function may set a signal, wait or return before the entry of its enqueue call is in the
//! ledger. Such an act is kept, and applied when that entry comes.
#![forbid(unsafe_code)]

use super::clock::{Stamp, StampClock};
use super::known::Known;
use super::signals::{
    Act, Actor, EarlyAct, HOST_FNS_MAX, HostFn, Patience, Set, Signals, State, UnansweredWait,
};
use super::stuck::{OpenWaits, Stuck};
use crate::base::id::Position;
use crate::base::ledger::Signalled;

/// Maximum number of kept [`Set`]s of one signal: calls that set the signal. The first call is
/// always kept, because it ends the waits for the signal.
const SETS_MAX: usize = 8;
/// Maximum number of [`UnansweredWait`]s that are kept. Without a limit, waits that time out would
/// add up for ever.
const NEEDS_MAX: usize = 256;

/// All signals, and the findings about waits that may never end.
#[derive(Debug, Clone, Default)]
pub(super) struct HandOvers {
    pub(super) signals: Signals,
    /// The findings since [`HandOvers::take_found`] was last called.
    found: Vec<Stuck>,
}

impl HandOvers {
    /// Adds a host function that follows `before`, and applies the acts of the host function whose
    /// entries came earlier. The host function gets the next number of its stream. After this call,
    /// the caller counts this number.
    pub(super) fn host_fn(
        &mut self,
        known: &mut Known,
        lane: usize,
        op: u64,
        at: Position,
        before: StampClock,
    ) {
        let seq = known.lanes.list[lane].seq + 1;
        let host_fns = self.signals.host_fns.entry(lane).or_default();
        if host_fns.list.len() == HOST_FNS_MAX {
            host_fns.list.pop_front();
        }
        host_fns.list.push_back(HostFn {
            op,
            number: at.seq,
            seq,
            state: State::Enqueued,
            before,
            inside: None,
            known_by: Vec::new(),
        });
        let is_its = |early: &EarlyAct| early.at == at;
        while let Some(index) = self.signals.early.iter().position(is_its) {
            let Some(early) = self.signals.early.remove(index) else { break };
            let by = Actor::HostFn(lane, seq);
            match early.act {
                Act::Signal(signal, what) => self.apply(known, by, early.op, signal, what),
                Act::Return => self.signals.returned_from(by),
            }
        }
    }

    /// Reads a use of a signal, by a thread or inside a host function.
    pub(super) fn signal(
        &mut self,
        known: &mut Known,
        thread: usize,
        inside: Option<Position>,
        op: u64,
        signal: u64,
        what: Signalled,
    ) {
        let by = match inside {
            _ if what == Signalled::Gone => return self.signal_gone(signal),
            None => Some(Actor::Thread(thread)),
            Some(at) => self.signals.host_fn_at(known, at),
        };
        match (by, inside) {
            (Some(by), _) => self.apply(known, by, op, signal, what),
            (None, Some(at)) => self.signals.note_early(at, op, Act::Signal(signal, what)),
            (None, None) => {}
        }
    }

    /// Reads the return of the host function at the position `at`.
    pub(super) fn ran(&mut self, known: &Known, at: Position, op: u64) {
        match self.signals.host_fn_at(known, at) {
            Some(by) => self.signals.returned_from(by),
            None => self.signals.note_early(at, op, Act::Return),
        }
    }

    /// Applies a use of a signal to the order.
    fn apply(&mut self, known: &mut Known, by: Actor, op: u64, signal: u64, what: Signalled) {
        match what {
            Signalled::Set => self.set(known, by, op, signal),
            Signalled::Wait => self.need(known, by, op, signal, Patience::Endless),
            Signalled::LimitedWait => self.need(known, by, op, signal, Patience::Limited),
            Signalled::Found => self.found(known, by, op, signal),
            Signalled::Gone => self.signal_gone(signal),
        }
    }

    /// Calls `look` with the clock of the point that `by` has reached, and with the stamp of a new
    /// call at that point.
    fn with_inside<R>(
        &mut self,
        known: &mut Known,
        by: Actor,
        look: impl FnOnce(&mut StampClock, Stamp) -> R,
    ) -> Option<R> {
        match by {
            Actor::Thread(thread) => {
                let at = known.threads.call(thread);
                Some(look(&mut known.threads.list[thread].known, at))
            }
            Actor::HostFn(lane, seq) => {
                let host_fns = self.signals.host_fns.get_mut(&lane)?;
                let components = &mut known.components;
                let inner =
                    host_fns.inner.unwrap_or_else(|| (components.next(), components.next()));
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

    /// Reads an entry in which `by` sets the signal.
    fn set(&mut self, known: &mut Known, by: Actor, op: u64, signal: u64) {
        let clock = self.with_inside(known, by, |inside, _| inside.clone());
        let Some(clock) = clock else { return };
        let found_early =
            std::mem::take(&mut self.signals.by_id.entry(signal).or_default().found_early);
        for thread in found_early {
            known.threads.learn(thread, &clock);
        }
        let held = self.signals.by_id.entry(signal).or_default();
        held.sets.push(Set { op, by, clock });
        self.settle(known, signal);
        let sets = self.signals.by_id.get_mut(&signal).map(|held| &mut held.sets);
        if let Some(sets) = sets.filter(|sets| sets.len() > SETS_MAX) {
            sets.remove(1);
        }
    }

    /// Reads an entry in which `by` begins to wait for the signal.
    fn need(&mut self, known: &mut Known, by: Actor, op: u64, signal: u64, patience: Patience) {
        let raised = self.with_inside(known, by, |inside, at| {
            inside.raise(at);
            at
        });
        let Some(at) = raised else { return };
        self.make_room(known);
        let need = UnansweredWait { op, signal, by, patience, at, last: op, reported: false };
        let held = self.signals.needs.entry(need.key()).or_insert(need);
        held.last = op;
        self.signals.by_id.entry(signal).or_default();
        self.settle(known, signal);
    }

    /// Reads an entry in which `by` found the signal set.
    fn found(&mut self, known: &mut Known, by: Actor, op: u64, signal: u64) {
        let held = self.signals.by_id.entry(signal).or_default();
        let Some(first) = held.sets.first().map(|set| set.clock.clone()) else {
            // A host function set the signal before the entry of the host function came. The act is
            // applied when that entry comes, and the thread follows the act from then on.
            if let Actor::Thread(thread) = by {
                held.found_early.push(thread);
            }
            return;
        };
        self.with_inside(known, by, |inside, _| inside.join(&first));
        match by {
            Actor::Thread(thread) => self.signals.note_known(known, thread, op),
            Actor::HostFn(lane, _) => known.lanes.edges.tail_mut(lane).join(&first),
        }
        // In this run, the wait ended because the signal was set. In another order of host
        // functions, the wait might never end, which is checked here. If `by` waited for the signal
        // more than once, its unanswered wait is kept, because an earlier wait ended without the
        // signal.
        let keys = [Patience::Endless, Patience::Limited].map(|patience| (signal, by, patience));
        let needs = keys.iter().filter_map(|key| self.signals.needs.get(key));
        let last = needs.max_by_key(|need| need.last);
        if let Some(need) = last.filter(|need| need.last == need.op) {
            let (key, risk) = (need.key(), self.open(known).risk_of_first(need));
            self.found.extend(risk);
            self.signals.needs.remove(&key);
        }
        self.signals.forget(signal);
    }

    /// Notes that the last handle of the signal was dropped. No thread or host function can set the
    /// signal or wait for it any more.
    fn signal_gone(&mut self, signal: u64) {
        let Some(held) = self.signals.by_id.get_mut(&signal) else {
            return self.signals.handles.forget(signal);
        };
        held.is_gone = true;
        if held.sets.is_empty() {
            // Every wait for the signal ended without an answer, so none of these waits hangs.
            self.signals.needs.retain(|(of, ..), _| *of != signal);
        }
        self.signals.forget(signal);
    }

    /// Removes each unanswered wait for the signal that ends in every run, because some [`Set`]
    /// answers it.
    fn settle(&mut self, known: &Known, signal: u64) {
        let first = (signal, Actor::Thread(0), Patience::Endless);
        let of_signal = self.signals.needs.range(first..);
        let of_signal = of_signal.take_while(|((other, ..), _)| *other == signal);
        let open = self.open(known);
        let answered: Vec<_> =
            of_signal.filter(|(_, need)| open.is_answered(need)).map(|(key, _)| *key).collect();
        for key in answered {
            self.signals.needs.remove(&key);
        }
    }

    /// Limits the number of unanswered waits. Makes the findings about all unanswered waits first.
    /// Then removes the waits for signals without handles. If too many waits remain, removes the
    /// older half of them.
    fn make_room(&mut self, known: &Known) {
        if self.signals.needs.len() < NEEDS_MAX {
            return;
        }
        let found = self.open(known).stuck();
        let Signals { by_id, needs, handles, .. } = &mut self.signals;
        for stuck in &found {
            for hop in &stuck.hops {
                let need = needs.get_mut(&hop.need.key());
                need.into_iter().for_each(|need| need.reported = true);
            }
        }
        let is_gone = |signal: &u64| by_id.get(signal).is_none_or(|held| held.is_gone);
        needs.retain(|(signal, ..), _| !is_gone(signal));
        by_id.retain(|signal, held| {
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
        self.found.extend(found);
    }

    /// The unanswered waits, with the order of the entries. The order decides which [`Set`]s may
    /// answer the waits.
    pub(super) fn open<'a>(&'a self, known: &'a Known) -> OpenWaits<'a> {
        OpenWaits { known, signals: &self.signals }
    }

    /// The findings about waits at risk since the last call of this function.
    pub(super) fn take_found(&mut self) -> Vec<Stuck> {
        std::mem::take(&mut self.found)
    }
}
