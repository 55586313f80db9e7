//! The order of operations and calls, recomputed from the driver's calls alone.
//!
//! Every stream and every host thread is a component of a vector clock, and has its own clock. The
//! clock of a stream contains everything that is complete when the stream's last operation is
//! complete. The clock of a thread contains everything that the thread knows to be complete. Only
//! edges that a law guarantees add to a clock (laws A1 to A19, A31, A38, A44). With
//! [`Assume::DriverObserved`], the edges that one driver was observed to keep also add to a clock.
//! The library states its own view of the order in `thread_known` and in the position that a wait
//! names. The checker does not use this view.
#![forbid(unsafe_code)]

mod begun;
mod clock;
mod events;
mod handles;
mod handover;
mod known;
mod lanes;
mod own;
mod remembered_wait;
mod signals;
mod snapshot;
mod step;
mod stuck;
mod threads;
mod work;

pub(super) use clock::Stamp;
pub(super) use events::Doubt;
pub(super) use lanes::Lane;
pub(super) use remembered_wait::RememberedWait;
pub(super) use signals::Actor;
pub(super) use step::{AccessPast, Moment, Step};
pub(super) use stuck::{Hop, Stuck};
pub(super) use threads::Thread;

use super::options::{Assume, Threads as Mode};
use crate::base::id::{DeviceId, LaneId};
use crate::base::ledger::{
    Asked, HostStep, LedgerNote, Op, OpKind, SignalStep, Signalled, StreamMark,
};
use crate::base::vector_clock::VectorClock;
use clock::StampClock;
use events::Events;
use handover::HandOvers;
use known::Known;
use own::Owned;
use std::collections::BTreeSet;

/// The stream or thread that a component of the clocks belongs to.
#[derive(Debug)]
pub(super) enum Owner<'a> {
    Stream(&'a Lane),
    Thread(&'a Thread),
    /// The owner is no longer known.
    Unknown,
}

static NOTHING: StampClock = StampClock::new();

/// The order of the entries that were read.
#[derive(Debug, Clone)]
pub(super) struct EntryOrder {
    known: Known,
    events: Events,
    owned: Owned,
    handovers: HandOvers,
}

impl EntryOrder {
    pub(super) fn new(assume: Assume, mode: Mode) -> Self {
        Self {
            known: Known::new(assume, mode),
            events: Events::default(),
            owned: Owned::default(),
            handovers: HandOvers::default(),
        }
    }

    /// Reads the next entry, and returns its position in the order.
    pub(super) fn step(&mut self, op: &Op, index: u64) -> Step {
        let mut step = Step::new(self.known.threads.last);
        if self.step_outside_threads(op, index) {
            return step;
        }
        let Self { known, events, owned, handovers } = self;
        let thread = known.thread(op);
        step.thread = thread;
        owned.follow_earlier_uses(&mut known.threads, thread, op);
        match op.kind {
            OpKind::Host(HostStep::Sync { what, outcome }) => {
                if events.sync(known, thread, index, op, what, outcome) {
                    handovers.signals.note_known(known, thread, index);
                }
            }
            OpKind::Host(HostStep::Open) => {
                if let Some(before) = known.lanes.close(op.position.lane) {
                    handovers.signals.lane_gone(before);
                }
                known.open(thread, op);
            }
            OpKind::Signal(SignalStep::Use { signal, what, .. }) => {
                handovers.signal(known, thread, None, index, signal, what);
            }
            OpKind::Host(HostStep::Failed) => known.threads.list[thread].begun = None,
            OpKind::Host(HostStep::Begin) => work::begin(known, op, index, thread),
            OpKind::Note(LedgerNote::Settled { event }) => events.settled(known, event),
            OpKind::Host(HostStep::Fault { .. }) => handovers.signals.lose(op.device),
            OpKind::Host(
                HostStep::Lent | HostStep::Load | HostStep::Release | HostStep::Refused,
            )
            | OpKind::Signal(_)
            | OpKind::Note(_) => {}
            OpKind::Host(HostStep::Access) | OpKind::Memory(_) => {
                known.lanes.edges.note_block(op);
                step.call = known.threads.call(thread);
            }
            OpKind::Mark(StreamMark::Record { event, by }) => {
                let lane = known.lane(op);
                step.lane = Some(lane);
                events.record(known, (thread, lane), op, index, event, by);
            }
            OpKind::Mark(StreamMark::Wait { event, by, .. }) => {
                let lane = known.lane(op);
                step.lane = Some(lane);
                let found = events.wait(known, (thread, lane), op, index, event, by);
                step.waits_for_nothing = !found && by == Asked::User;
            }
            OpKind::Work(_) => work::enqueue(known, handovers, op, index, &mut step),
        }
        // A call that waits has used its memory when it has returned, not when it begins.
        if op.kind != OpKind::Host(HostStep::Begin) {
            owned.note_uses(&mut known.threads, thread, op);
        }
        step
    }

    /// Reads an entry that is outside of the order of threads: a thread of the driver may have made
    /// the entry, or the thread of the entry does not matter. Returns whether the entry is outside
    /// of that order.
    fn step_outside_threads(&mut self, op: &Op, index: u64) -> bool {
        let Self { known, events, handovers, .. } = self;
        let last = known.threads.last;
        match op.kind {
            OpKind::Note(LedgerNote::Gone { event }) => events.gone(event),
            OpKind::Signal(SignalStep::Use { signal, what, inside: inside @ Some(_) }) => {
                handovers.signal(known, last, inside, index, signal, what);
            }
            OpKind::Signal(SignalStep::Use { signal, what: what @ Signalled::Gone, .. }) => {
                handovers.signal(known, last, None, index, signal, what);
            }
            OpKind::Signal(SignalStep::Handle { signal, handle, what, inside }) => {
                handovers.signals.handles.note(op.thread, (signal, handle), what, inside);
            }
            OpKind::Note(LedgerNote::Ran) => handovers.ran(known, op.position, index),
            OpKind::Note(LedgerNote::ThreadGone) => known.threads.end(op.thread),
            OpKind::Host(HostStep::Refused) | OpKind::Note(LedgerNote::Name { .. }) => {}
            OpKind::Work(_)
            | OpKind::Mark(_)
            | OpKind::Memory(_)
            | OpKind::Host(HostStep::Sync { .. } | HostStep::Access | HostStep::Lent)
            | OpKind::Host(HostStep::Begin | HostStep::Failed | HostStep::Open)
            | OpKind::Host(HostStep::Load | HostStep::Release | HostStep::Fault { .. })
            | OpKind::Signal(SignalStep::Use { .. })
            | OpKind::Note(LedgerNote::Settled { .. }) => return false,
        }
        true
    }

    /// Everything that comes before an access of the last entry. `moment` is the time of the
    /// access.
    pub(super) fn before(&self, step: &Step, moment: Moment) -> AccessPast<'_> {
        let Known { lanes, threads, settled, own_past, .. } = &self.known;
        let clock = match (moment, step.lane) {
            (Moment::Work, Some(_)) if step.has_own_past => own_past,
            (Moment::Work, Some(lane)) => lanes.edges.tail(lane),
            _ => threads.list.get(step.thread).map_or(&NOTHING, |thread| &thread.known),
        };
        AccessPast { sure: &clock.sure, seen: [&clock.seen, settled] }
    }

    /// Everything that would come before an access of the entry of `step` if that entry were the
    /// next one.
    pub(super) fn before_now(&self, step: &Step, moment: Moment) -> &VectorClock {
        let step = Step { has_own_past: false, ..*step };
        self.before(&step, moment).sure
    }

    /// The stream or the thread that the stamp belongs to.
    pub(super) fn owner(&self, stamp: Stamp) -> Owner<'_> {
        if let Some(lane) = self.known.lanes.list.iter().find(|lane| lane.has(stamp.lane)) {
            return Owner::Stream(lane);
        }
        let mut threads = self.known.threads.list.iter();
        let thread = threads.find(|thread| thread.component == stamp.lane);
        thread.map_or(Owner::Unknown, Owner::Thread)
    }

    /// A thread that knows that `stamp` is complete.
    pub(super) fn thread_that_knows(&self, stamp: Stamp) -> Option<&Thread> {
        self.known.threads.thread_that_knows(stamp)
    }

    /// Whether any thread knows that `stamp` is complete, or the library found it complete.
    pub(super) fn is_complete(&self, stamp: Stamp) -> bool {
        self.known.settled.covers(stamp) || self.known.threads.any_knows(stamp)
    }

    /// The stream with the index `number`: the value of `Step::lane`.
    pub(super) fn lane(&self, number: usize) -> Option<&Lane> {
        self.known.lanes.list.get(number)
    }

    /// The thread with the index `number`: the value of `Step::thread`.
    pub(super) fn thread(&self, number: usize) -> Option<&Thread> {
        self.known.threads.list.get(number)
    }

    /// For each stream of the device with work that `thread` does not know to be complete: the lane
    /// of the stream, and the number of the last operation that the thread knows to be complete, as
    /// the trace counts operations.
    pub(super) fn in_flight(&self, device: DeviceId, thread: usize) -> Vec<(LaneId, u64)> {
        let Some(thread) = self.thread(thread) else { return Vec::new() };
        self.known.lanes.in_flight(device, &thread.known.sure)
    }

    /// From now on, collects the entries of the doubtful waits ([`EntryOrder::doubtful_waits`]).
    /// The waits in `known_doubtful` count as doubtful from the start.
    pub(super) fn search_doubtful_waits(&mut self, known_doubtful: BTreeSet<u64>) {
        self.events.search_doubtful_waits(known_doubtful);
    }

    /// The entries of the doubtful waits. A wait is doubtful if another thread records the event of
    /// the wait later, with no order between the two calls (law A45).
    pub(super) fn doubtful_waits(&self) -> &BTreeSet<u64> {
        self.events.doubtful_waits()
    }

    /// The unordered pairs of calls that were found since the last call of this function.
    pub(super) fn take_doubts(&mut self) -> Vec<Doubt> {
        self.events.take_doubts()
    }

    /// The waits for signals that were found to be at risk since the last call of this function.
    pub(super) fn take_stuck(&mut self) -> Vec<Stuck> {
        self.handovers.take_found()
    }

    /// The waits for signals that may never end, by what is known now.
    pub(super) fn stuck(&self) -> Vec<Stuck> {
        self.handovers.open(&self.known).stuck()
    }

    /// The entries of the host functions of lost devices that will never run.
    pub(super) fn never_run(&self) -> Vec<u64> {
        self.handovers.signals.never_run(&self.known)
    }

    /// The entry of a host function.
    pub(super) fn host_fn_op(&self, by: Actor) -> Option<u64> {
        let Actor::HostFn(lane, seq) = by else { return None };
        self.handovers.signals.host_fn(lane, seq).map(|one| one.op)
    }

    /// The stamps that every thread knows to be complete. All later entries follow these stamps,
    /// except the entries of threads that have made no call yet.
    pub(super) fn known_to_all(&self) -> VectorClock {
        self.known.threads.known_to_all()
    }

    /// Forgets the stamps in `complete`, which every thread knows to be complete. Frees the
    /// components of the former streams that no kept item names. `named` has the components of the
    /// accesses that are kept.
    pub(super) fn retire(&mut self, complete: &VectorClock, named: &BTreeSet<LaneId>) {
        let Self { known, events, owned, handovers } = self;
        let signals = &mut handovers.signals;
        signals.retire(known, complete);
        events.retire(complete);
        owned.retire(complete);
        known.threads.retire(complete);
        known.lanes.edges.forget_launches(|launch| launch.is_within(complete));
        let freed = known.lanes.retire(complete, named, |lane| signals.forget_lane(lane));
        let threads = known.threads.list.iter_mut();
        threads.for_each(|thread| thread.waits.retain(|wait| !wait.names(&freed)));
    }

    /// Adds the entries that explanations may still name.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        let of_lanes = self.known.lanes.list.iter().flat_map(|lane| &lane.waits);
        of_lanes.for_each(|wait| wait.named(named));
        self.known.threads.named(named);
        self.events.named(named);
        self.handovers.signals.named(named);
    }

    /// The size of the state: the number of clocks, events and other items that are kept.
    pub(super) fn held_state(&self) -> usize {
        let Self { known, events, owned, handovers } = self;
        let streams = known.lanes.list.len() + known.components.count();
        let memory = known.lanes.edges.held_state() + owned.held_state();
        streams
            + known.threads.held_state()
            + events.held_state()
            + memory
            + handovers.signals.held_state()
    }
}
