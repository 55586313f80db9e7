//! Hand-overs between host threads and host functions, by signals that one sets and another waits for.
//!
//! Who found a signal set follows who set it first. What becomes of waits that nothing answers is in
//! [`stuck`](super::stuck).
//!
//! A host function may do something before the record of its enqueue call is there: that is kept, and
//! done when the record comes.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::{Clock, Stamp};
use super::known::Known;
use super::signals::{Act, Actor, EarlyAct, HOST_FNS_MAX, HostFn, Need, Set, Signals, State};
use super::stuck::{OpenWaits, Stuck};
use crate::base::id::Position;
use crate::base::ledger::Signalled;

/// Sets of one signal that are kept. The first one is what answers waits.
const SETS_MAX: usize = 8;
/// Needs that are kept. Waits that give up, of signals that are gone, would be without end.
const NEEDS_MAX: usize = 256;

/// The signals, and what was found of waits for them.
#[derive(Debug, Clone, Default)]
pub(super) struct HandOvers {
    pub(super) signals: Signals,
    /// What was found since it was last asked for.
    found: Vec<Stuck>,
}

impl HandOvers {
    /// A host function is about to be enqueued, which comes after `before`.
    pub(super) fn host_fn(
        &mut self,
        known: &mut Known,
        (lane, op): (usize, u64),
        at: Position,
        before: Clock,
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
                Act::Signal(signal, what) => self.apply(known, (by, early.op), (signal, what)),
                Act::Return => self.signals.returned_from(by),
            }
        }
    }

    /// A hand-over.
    pub(super) fn signal(
        &mut self,
        known: &mut Known,
        (thread, inside): (usize, Option<Position>),
        op: u64,
        act: (u64, Signalled),
    ) {
        let by = match inside {
            _ if act.1 == Signalled::Gone => return self.signal_gone(act.0),
            None => Some(Actor::Thread(thread)),
            Some(at) => self.signals.host_fn_at(known, at),
        };
        match (by, inside) {
            (Some(by), _) => self.apply(known, (by, op), act),
            (None, Some(at)) => self.signals.note_early(at, op, Act::Signal(act.0, act.1)),
            (None, None) => {}
        }
    }

    /// The host function at the position has returned.
    pub(super) fn ran(&mut self, known: &Known, at: Position, op: u64) {
        match self.signals.host_fn_at(known, at) {
            Some(by) => self.signals.returned_from(by),
            None => self.signals.note_early(at, op, Act::Return),
        }
    }

    fn apply(
        &mut self,
        known: &mut Known,
        (by, op): (Actor, u64),
        (signal, what): (u64, Signalled),
    ) {
        match what {
            Signalled::Set => self.set(known, (by, op), signal),
            Signalled::Wait => self.need(known, (by, op), signal),
            Signalled::Found => self.found(known, (by, op), signal),
            Signalled::Gone => self.signal_gone(signal),
        }
    }

    /// Has what is complete where `by` is looked at and changed.
    fn with_inside<R>(
        &mut self,
        known: &mut Known,
        by: Actor,
        look: impl FnOnce(&mut Clock, Stamp) -> R,
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

    fn set(&mut self, known: &mut Known, (by, op): (Actor, u64), signal: u64) {
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

    fn need(&mut self, known: &mut Known, (by, op): (Actor, u64), signal: u64) {
        let raised = self.with_inside(known, by, |inside, at| {
            inside.raise(at);
            at
        });
        let Some(at) = raised else { return };
        self.make_room(known);
        let need = Need { op, signal, by, at, last: op, reported: false };
        let held = self.signals.needs.entry((signal, by)).or_insert(need);
        held.last = op;
        self.signals.by_id.entry(signal).or_default();
        self.settle(known, signal);
    }

    fn found(&mut self, known: &mut Known, (by, op): (Actor, u64), signal: u64) {
        let held = self.signals.by_id.entry(signal).or_default();
        let Some(first) = held.sets.first().map(|set| set.clock.clone()) else {
            // What a host function did early is known later, and then to its stream only.
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
        // It was answered, and so it can be. Whether it always is, is another question. One that gave
        // up before was not.
        let is_it = |need: &&Need| need.last == need.op;
        if let Some(need) = self.signals.needs.get(&(signal, by)).filter(is_it) {
            let risk = self.open(known).risk_of_first(need);
            self.found.extend(risk);
            self.signals.needs.remove(&(signal, by));
        }
        self.signals.forget(signal);
    }

    /// Nobody can set the signal any more, and nobody waits for it.
    fn signal_gone(&mut self, signal: u64) {
        let Some(held) = self.signals.by_id.get_mut(&signal) else {
            return self.signals.handles.forget(signal);
        };
        held.is_gone = true;
        if held.sets.is_empty() {
            // All gave up, and nothing was to answer them.
            self.signals.needs.retain(|(of, _), _| *of != signal);
        }
        self.signals.forget(signal);
    }

    /// Drops the needs of a signal that some set answers without doubt.
    fn settle(&mut self, known: &Known, signal: u64) {
        let of_signal = self.signals.needs.range((signal, Actor::Thread(0))..);
        let of_signal = of_signal.take_while(|((other, _), _)| *other == signal);
        let open = self.open(known);
        let answered: Vec<_> =
            of_signal.filter(|(_, need)| open.is_answered(need)).map(|(key, _)| *key).collect();
        for key in answered {
            self.signals.needs.remove(&key);
        }
    }

    /// Keeps the number of needs bounded: says what can be said, and forgets those of signals that
    /// are gone, and if that is not enough the older half.
    fn make_room(&mut self, known: &Known) {
        if self.signals.needs.len() < NEEDS_MAX {
            return;
        }
        let found = self.open(known).stuck();
        let Signals { by_id, needs, handles, .. } = &mut self.signals;
        for stuck in &found {
            for hop in &stuck.hops {
                let need = needs.get_mut(&(hop.need.signal, hop.need.by));
                need.into_iter().for_each(|need| need.reported = true);
            }
        }
        let is_gone = |signal: &u64| by_id.get(signal).is_none_or(|held| held.is_gone);
        needs.retain(|(signal, _), _| !is_gone(signal));
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

    /// The waits that are open.
    pub(super) fn open<'a>(&'a self, known: &'a Known) -> OpenWaits<'a> {
        OpenWaits { known, signals: &self.signals }
    }

    /// What was found since the last time.
    pub(super) fn take_found(&mut self) -> Vec<Stuck> {
        std::mem::take(&mut self.found)
    }
}
