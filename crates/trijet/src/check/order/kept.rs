//! What is kept of the order, and what can be forgotten.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::{Order, Stamp, Thread};
use crate::base::id::LaneId;
use crate::base::vector_clock::VectorClock;
use crate::check::Threads;
use std::collections::BTreeSet;

impl Order {
    /// What every thread knows: everything that is recorded from now on comes after it, except by
    /// threads that have not been heard of.
    pub(in crate::check) fn known_to_all(&self) -> VectorClock {
        let mut all = VectorClock::new();
        // Threads that the first one started and joined have nothing more to say.
        let joined = self.mode == Threads::OneStartsAll && self.last_thread == 0;
        let count = if joined { 1 } else { self.threads.len() };
        let live = self.threads[..count.min(self.threads.len())].iter();
        // One that has ended makes no more calls.
        let mut live = live.filter(|thread| !thread.is_gone).map(|thread| &thread.known.sure);
        let Some(first) = live.next() else { return all };
        let others: Vec<&VectorClock> = live.collect();
        for position in first.positions() {
            let least = others.iter().map(|other| other.get(position.lane)).min();
            let seq = least.map_or(position.seq, |least| least.min(position.seq));
            all.raise(Stamp { lane: position.lane, seq });
        }
        all
    }

    /// Forgets what all know, and the numbers of former streams that nothing names. `named` has the
    /// components of the accesses that are kept.
    pub(in crate::check) fn retire(&mut self, known: &VectorClock, named: &BTreeSet<LaneId>) {
        self.retired.join(known);
        self.retire_host_fns(known);
        self.events.values_mut().for_each(|event| event.retire(known));
        self.owned.retire(known);
        if self.mode == Threads::Apart {
            let gone = self.threads.iter_mut().filter(|thread| thread.is_gone);
            gone.for_each(Thread::forget);
        }
        self.retire_lanes(known, named);
    }

    /// Adds the records that explanations may still name.
    pub(in crate::check) fn named(&self, named: &mut Vec<u64>) {
        let of_lanes = self.lanes.iter().flat_map(|lane| &lane.waits);
        let of_threads = self.threads.iter().flat_map(|thread| &thread.waits);
        for seen in of_lanes.chain(of_threads) {
            named.push(seen.op);
            named.extend(seen.recorded.iter().chain(&seen.replaced).map(|(op, _)| *op));
        }
        self.events.values().for_each(|event| event.named(named));
        named.extend(self.threads.iter().filter_map(|thread| thread.pending));
        named.extend(self.threads.iter().filter_map(|thread| thread.blocked.as_ref()).map(|b| b.0));
        self.signals.named(named);
    }

    /// Clocks and events that are kept.
    pub(in crate::check) fn held_state(&self) -> usize {
        let streams = self.lanes.len() + self.threads.len() + self.components as usize;
        let memory = self.homes.len() + self.owned.held_state();
        let known = self.threads.iter().map(|thread| thread.known.sure.positions().count());
        streams + known.sum::<usize>() + self.events.len() + memory + self.signals.held_state()
    }
}
