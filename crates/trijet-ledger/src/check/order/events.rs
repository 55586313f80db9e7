//! Events: the work that each record stands for, the waits for this work, and unordered calls of
//! two threads about one event (law A45).
//!
//! Two threads use one event. One thread records the event, and the other thread records it, waits
//! for it, queries it or synchronises with it. Such a pair of calls is *in doubt*, unless the later
//! call follows the earlier one in every run. The order that results from a pair in doubt is true
//! of this run only.
#![forbid(unsafe_code)]

use super::clock::{Stamp, StampClock};
use super::known::Known;
use super::remembered_wait::{RememberedWait, remember};
use crate::base::edges::{Past, Role};
use crate::base::hash::NumberMap;
use crate::base::ledger::{Asked, Op, WaitOutcome, Waited};
use crate::base::vector_clock::VectorClock;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// The calls of a thread about an event, each with its stamp and its entry.
#[derive(Debug, Clone)]
struct Calls {
    thread: usize,
    /// The last record by the thread: its stamp and its entry.
    record: Option<(Stamp, u64)>,
    /// The last wait by the thread. In a search for doubtful waits, the list has all earlier waits
    /// too.
    waits: Vec<(Stamp, u64)>,
}

impl Calls {
    /// The waits that `known` does not cover.
    fn unknown(&self, known: &VectorClock) -> &[(Stamp, u64)] {
        let first = self.waits.partition_point(|(at, _)| known.covers(*at));
        &self.waits[first..]
    }

    /// Forgets the calls that `known` covers; returns whether any call is left.
    fn forget(&mut self, known: &VectorClock) -> bool {
        let first = self.waits.len() - self.unknown(known).len();
        self.waits.drain(..first);
        self.record = self.record.filter(|(at, _)| !known.covers(*at));
        self.record.is_some() || !self.waits.is_empty()
    }
}

/// The state of an event.
#[derive(Debug, Clone, Default)]
struct EventState {
    /// The stamps that are complete when the event is complete.
    stands_for: StampClock,
    /// The last record: its entry, and the stamp that its stream had reached.
    recorded: Option<(u64, Stamp)>,
    /// The record that the last record replaced: its entry, and the stamp that its stream had
    /// reached.
    replaced: Option<(u64, Stamp)>,
    /// Whether the library made the last record. Then the library orders the calls about the event.
    is_internal: bool,
    /// Whether the last record is in doubt with another record: in another run, the other record
    /// may be the last.
    in_doubt: bool,
    calls: SmallVec<[Calls; 2]>,
    /// The pairs of threads whose unordered calls were reported.
    reported: Vec<(usize, usize)>,
}

/// A pair of calls in doubt: the event, and the entry of the first call. The second call is the
/// current entry.
#[derive(Debug, Clone, Copy)]
pub(in crate::check) struct Doubt {
    pub(in crate::check) event: u64,
    pub(in crate::check) first: u64,
}

impl EventState {
    /// A wait in the entry `op` for this event, whose handle is `event`.
    fn wait_by(&self, op: u64, event: u64) -> RememberedWait {
        RememberedWait { op, event, recorded: self.recorded, replaced: self.replaced }
    }

    fn retire(&mut self, known: &VectorClock) {
        if self.stands_for.is_within(known) {
            self.stands_for = StampClock::new();
        }
        // Every thread follows the calls that are forgotten here, so no later call is in doubt with
        // such a call.
        self.calls.retain(|calls| calls.forget(known));
    }

    fn named(&self, named: &mut Vec<u64>) {
        named.extend(self.recorded.iter().chain(&self.replaced).map(|(op, _)| *op));
        let calls = self.calls.iter().flat_map(|calls| calls.record.iter().chain(&calls.waits));
        named.extend(calls.map(|(_, op)| *op));
    }
}

/// All events, and the unordered calls about them.
#[derive(Debug, Clone, Default)]
pub(super) struct Events {
    by_id: NumberMap<u64, EventState>,
    doubts: Vec<Doubt>,
    /// The entries of the waits that an earlier pass found to be in doubt with a later record.
    known_doubtful: BTreeSet<u64>,
    /// The entries in `known_doubtful`, and the entries of the doubtful waits that this pass finds.
    /// `None` if the pass does not search for doubtful waits.
    found_doubtful: Option<BTreeSet<u64>>,
}

impl Events {
    /// Adds a call of the program about the event. Returns whether the record that the event stands
    /// for is in doubt.
    fn call(
        &mut self,
        known: &mut Known,
        thread: usize,
        op: u64,
        event: u64,
        records: bool,
    ) -> bool {
        let at = known.threads.call(thread);
        let known = &known.threads.list[thread].known.sure;
        let held = self.by_id.entry(event).or_default();
        let mut in_doubt = held.in_doubt && !records || self.known_doubtful.contains(&op);
        for other in held.calls.iter().filter(|other| other.thread != thread) {
            let record = other.record.filter(|(at, _)| !known.covers(*at));
            let waits = if records { other.unknown(known) } else { &[] };
            in_doubt |= record.is_some();
            if let Some(found) = &mut self.found_doubtful {
                // In another run this record may come first. Then these waits would wait for this
                // record.
                found.extend(waits.iter().map(|(_, op)| *op));
            }
            let Some((_, first)) = record.or(waits.first().copied()) else { continue };
            let pair = (other.thread.min(thread), other.thread.max(thread));
            if !held.reported.contains(&pair) {
                held.reported.push(pair);
                self.doubts.push(Doubt { event, first });
            }
        }
        // This record follows all calls that are forgotten here. A later call that does not follow
        // such a call does not follow this record either. So the record is enough to show the
        // doubt.
        if records {
            held.calls.retain(|calls| calls.forget(known));
        }
        let own = held.calls.iter().position(|calls| calls.thread == thread);
        let own = own.unwrap_or_else(|| {
            held.calls.push(Calls { thread, record: None, waits: Vec::new() });
            held.calls.len() - 1
        });
        let Calls { record, waits, .. } = &mut held.calls[own];
        if records {
            *record = Some((at, op));
        } else {
            if self.found_doubtful.is_none() {
                waits.clear();
            }
            waits.push((at, op));
        }
        in_doubt
    }

    /// Reads a record of an event (law A4).
    pub(super) fn record(
        &mut self,
        known: &mut Known,
        (thread, lane): (usize, usize),
        op: &Op,
        index: u64,
        event: u64,
        by: Asked,
    ) {
        let is_internal = by == Asked::Ordering;
        let in_doubt = !is_internal && self.call(known, thread, index, event, true);
        known.begin_entry((thread, lane), op, Role::Record, None);
        let held = self.by_id.entry(event).or_default();
        if is_internal {
            held.calls.clear();
        }
        (held.is_internal, held.in_doubt) = (is_internal, in_doubt);
        let this = &known.lanes.list[lane];
        held.stands_for.copy_from(known.lanes.edges.tail(lane));
        held.replaced = held.recorded.replace((index, this.stamp(this.seq)));
        known.lanes.edges.end_entry(lane, op, Role::Record);
    }

    /// Reads a wait of a stream (laws A5 and A7). Returns whether the event had been recorded; if
    /// not, the wait orders nothing.
    pub(super) fn wait(
        &mut self,
        known: &mut Known,
        (thread, lane): (usize, usize),
        op: &Op,
        index: u64,
        event: u64,
        by: Asked,
    ) -> bool {
        let in_doubt = by == Asked::User && self.call(known, thread, index, event, false);
        let Some(found) = self.by_id.get(&event).filter(|found| found.recorded.is_some()) else {
            let seen = RememberedWait { op: index, event, recorded: None, replaced: None };
            remember(&mut known.lanes.list[lane].waits, seen);
            return false;
        };
        let on = (!in_doubt).then_some(&found.stands_for);
        known.begin_entry((thread, lane), op, Role::Wait, on);
        let edges = &mut known.lanes.edges;
        if in_doubt {
            edges.tail_mut(lane).join_as_seen(&found.stands_for);
        }
        edges.end_entry(lane, op, Role::Wait);
        remember(&mut known.lanes.list[lane].waits, found.wait_by(index, event));
        true
    }

    /// Reads a wait of the host (laws A8 to A10), which orders the calling thread only (law A11).
    /// Returns whether the wait ended with success.
    pub(super) fn sync(
        &mut self,
        known: &mut Known,
        thread: usize,
        index: u64,
        op: &Op,
        what: Waited,
        outcome: WaitOutcome,
    ) -> bool {
        let in_doubt = match what {
            Waited::Event(event) if !self.is_internal(event) => {
                self.call(known, thread, index, event, false)
            }
            Waited::Recorded(event) => self.by_id.get(&event).is_some_and(|held| held.in_doubt),
            Waited::Event(_) | Waited::Stream | Waited::Device => false,
        };
        let mut clock = std::mem::take(&mut known.threads.list[thread].known);
        if outcome != WaitOutcome::Complete {
            let then = (outcome == WaitOutcome::Pending).then(|| {
                let mut then = clock.clone();
                self.waited(known, op, what, in_doubt, &mut then);
                (index, then)
            });
            let this = &mut known.threads.list[thread];
            this.known = clock;
            (this.pending, this.blocked) = (Some(index), then);
            return false;
        }
        self.waited(known, op, what, in_doubt, &mut clock);
        let version = known.threads.version();
        let this = &mut known.threads.list[thread];
        (this.known, this.version) = (clock, version);
        if let Waited::Event(event) | Waited::Recorded(event) = what {
            let found = self.by_id.get(&event).map(|found| found.wait_by(index, event));
            let none = RememberedWait { op: index, event, recorded: None, replaced: None };
            remember(&mut this.waits, found.unwrap_or(none));
        }
        true
    }

    fn is_internal(&self, event: u64) -> bool {
        self.by_id.get(&event).is_some_and(|held| held.is_internal)
    }

    /// Adds to `clock` what is complete when a wait of the host ends.
    fn waited(
        &self,
        known: &mut Known,
        op: &Op,
        what: Waited,
        in_doubt: bool,
        clock: &mut StampClock,
    ) {
        match what {
            Waited::Event(event) | Waited::Recorded(event) => {
                if let Some(found) = self.by_id.get(&event) {
                    if in_doubt {
                        clock.join_as_seen(&found.stands_for);
                    } else {
                        clock.join(&found.stands_for);
                    }
                }
            }
            Waited::Stream => {
                let lane = known.lane(op);
                known.lanes.edges.wait_for_stream(lane, clock);
            }
            Waited::Device => known.lanes.edges.wait_for_device(op.device, clock),
        }
    }

    /// Notes that the library found the event complete. Everything that the event stands for is
    /// complete in this run.
    pub(super) fn settled(&self, known: &mut Known, event: u64) {
        if let Some(found) = self.by_id.get(&event) {
            known.settled.join(&found.stands_for.sure);
            known.settled.join(&found.stands_for.seen);
        }
    }

    /// Forgets an event that was destroyed.
    pub(super) fn gone(&mut self, event: u64) {
        self.by_id.remove(&event);
    }

    /// Forgets the stamps and calls that `known` covers. Every thread knows them to be complete.
    pub(super) fn retire(&mut self, known: &VectorClock) {
        self.by_id.values_mut().for_each(|event| event.retire(known));
    }

    /// Adds the entries that explanations may still name.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        self.by_id.values().for_each(|event| event.named(named));
    }

    pub(super) fn held_state(&self) -> usize {
        self.by_id.len()
    }

    /// From now on, collects the entries of the doubtful waits ([`Events::doubtful_waits`]). The
    /// waits in `known_doubtful` count as doubtful from the start.
    pub(super) fn search_doubtful_waits(&mut self, known_doubtful: BTreeSet<u64>) {
        self.found_doubtful = Some(known_doubtful.clone());
        self.known_doubtful = known_doubtful;
    }

    /// The entries of the doubtful waits. A wait is doubtful if another thread records the event of
    /// the wait later, with no order between the two calls (law A45).
    pub(super) fn doubtful_waits(&self) -> &BTreeSet<u64> {
        static NO_WAITS: BTreeSet<u64> = BTreeSet::new();
        self.found_doubtful.as_ref().unwrap_or(&NO_WAITS)
    }

    /// The pairs in doubt that were found since the last call of this function.
    pub(super) fn take_doubts(&mut self) -> Vec<Doubt> {
        std::mem::take(&mut self.doubts)
    }
}
