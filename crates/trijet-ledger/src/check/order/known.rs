//! The streams and the host threads, each with what it follows or knows to be complete.
#![forbid(unsafe_code)]

use super::begun::Begun;
use super::clock::{Components, Stamp, StampClock};
use super::lanes::Lanes;
use super::threads::HostThreads;
use crate::base::edges::{Caller, Laws, Role};
use crate::base::ledger::Op;
use crate::base::vector_clock::VectorClock;
use crate::check::options::{Assume, Threads as Mode};

/// The streams and the host threads after the last entry.
#[derive(Debug, Clone)]
pub(in crate::check) struct Known {
    pub(super) components: Components,
    pub(in crate::check) lanes: Lanes,
    pub(in crate::check) threads: HostThreads,
    /// The stamps that the library found complete in this run.
    pub(super) settled: VectorClock,
    /// The past of the last entry, if its call had begun earlier (`HostStep::Begin`). Other entries
    /// may have come to the stream while the call waited.
    pub(super) own_past: StampClock,
}

impl Known {
    pub(super) fn new(assume: Assume, mode: Mode) -> Self {
        let laws = match assume {
            Assume::Documented => Laws::Documented,
            Assume::DriverObserved => Laws::Observed,
        };
        Self {
            components: Components::default(),
            lanes: Lanes::new(laws),
            threads: HostThreads::new(mode),
            settled: VectorClock::new(),
            own_past: StampClock::new(),
        }
    }

    /// The index of the stream that has the lane of the entry. Adds the stream if there is none.
    pub(super) fn lane(&mut self, op: &Op) -> usize {
        self.lanes.number_of(op, &mut self.components)
    }

    /// The index of the thread of the entry. Adds the thread if it is new.
    pub(super) fn thread(&mut self, op: &Op) -> usize {
        self.threads.number_of(op, &mut self.components)
    }

    /// The thread of a call, and what it knows to be complete.
    fn caller(threads: &HostThreads, thread: usize) -> Caller<'_, StampClock> {
        let this = &threads.list[thread];
        Caller { thread, version: this.version, known: &this.known }
    }

    /// Begins an entry that the thread enqueues in the stream. After this call, the tail of the
    /// stream is the set that the entry follows.
    pub(super) fn begin_entry(
        &mut self,
        (thread, lane): (usize, usize),
        op: &Op,
        role: Role,
        on: Option<&StampClock>,
    ) {
        self.lanes.edges.begin_entry(lane, op, role, on);
        self.lanes.edges.follow_caller(lane, &Self::caller(&self.threads, thread));
    }

    /// Begins a call of the thread that may wait.
    pub(super) fn begin_call(&mut self, (thread, lane): (usize, usize), op: &Op) -> Begun {
        let caller = Self::caller(&self.threads, thread);
        let call = self.lanes.edges.begin_call(lane, op, &caller);
        Begun { call, seq: self.lanes.list[lane].seq }
    }

    /// Opens a stream that the thread creates. The stream takes the lane of the entry.
    pub(super) fn open(&mut self, thread: usize, op: &Op) {
        let known = &self.threads.list[thread].known;
        self.lanes.open(op, known, &mut self.components);
    }

    /// Gives a number to the work of a call that waited while other work came to the stream of the
    /// call. Returns the stamp of the work.
    pub(super) fn count_concurrent(&mut self, lane: usize, thread: usize) -> Stamp {
        self.lanes.count_concurrent(lane, thread, &mut self.components)
    }

    /// Adds everything in the stream to the stamps that the thread knows to be complete.
    pub(super) fn learn_tail(&mut self, thread: usize, lane: usize) {
        self.threads.learn(thread, self.lanes.edges.tail(lane));
    }
}
