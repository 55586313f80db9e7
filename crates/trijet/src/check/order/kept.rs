//! What is kept of the order, and what can be forgotten.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::{Order, Stamp};
use crate::base::clock::VectorClock;
use crate::check::Threads;

impl Order {
    /// What every thread knows: everything that is recorded from now on comes after it, except by
    /// threads that have not been heard of.
    pub(in crate::check) fn known_to_all(&self) -> VectorClock {
        let mut all = VectorClock::new();
        // Threads that the first one started and joined have nothing more to say.
        let joined = self.mode == Threads::OneStartsAll && self.last_thread == 0;
        let count = if joined { 1 } else { self.threads.len() };
        let Some((first, others)) = self.threads[..count.min(self.threads.len())].split_first()
        else {
            return all;
        };
        for position in first.known.positions() {
            let least = others.iter().map(|other| other.known.get(position.lane)).min();
            let seq = least.map_or(position.seq, |least| least.min(position.seq));
            all.raise(Stamp { lane: position.lane, seq });
        }
        all
    }

    /// Forgets what events stand for that all know.
    pub(in crate::check) fn retire(&mut self, known: &VectorClock) {
        self.retire_host_fns(known);
        for event in self.events.values_mut() {
            if event.stands_for.positions().all(|position| known.covers(position)) {
                event.stands_for = VectorClock::new();
            }
        }
    }

    /// Adds the records that explanations may still name.
    pub(in crate::check) fn named(&self, named: &mut Vec<u64>) {
        let of_lanes = self.lanes.iter().flat_map(|lane| &lane.waits);
        let of_threads = self.threads.iter().flat_map(|thread| &thread.waits);
        for seen in of_lanes.chain(of_threads) {
            named.push(seen.op);
            named.extend(seen.recorded.iter().chain(&seen.replaced).map(|(op, _)| *op));
        }
        for event in self.events.values() {
            named.extend(event.recorded.iter().chain(&event.replaced).map(|(op, _)| *op));
        }
        named.extend(self.threads.iter().filter_map(|thread| thread.pending));
        named.extend(self.threads.iter().filter_map(|thread| thread.blocked.as_ref()).map(|b| b.0));
        self.signals.named(named);
    }

    /// Clocks and events that are kept.
    pub(in crate::check) fn held_state(&self) -> usize {
        self.lanes.len() + self.threads.len() + self.events.len() + self.signals.held_state()
    }
}
