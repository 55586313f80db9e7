//! Host threads, and what each of them knows to be complete.
//!
//! Neither the start nor the join of a thread orders anything, except with [`Mode::OneStartsAll`].
#![forbid(unsafe_code)]

use super::begun::Begun;
use super::clock::{Components, Stamp, StampClock};
use super::remembered_wait::RememberedWait;
use super::snapshot::Use;
use crate::base::hash::NumberMap;
use crate::base::id::LaneId;
use crate::base::ledger::{HostStep, Op, OpKind, WaitOutcome};
use crate::base::vector_clock::VectorClock;
use crate::check::options::Threads as Mode;

/// A host thread, with everything that it knows to be complete.
#[derive(Debug, Clone)]
pub(in crate::check) struct Thread {
    /// The number of the thread in the trace.
    pub(in crate::check) id: u64,
    pub(super) component: LaneId,
    /// For each component of the clocks, the last position that the thread knows to be complete.
    pub(super) known: StampClock,
    /// The number of the last counted call of the thread.
    pub(super) seq: u64,
    /// The version of `known`. The version changes whenever `known` changes.
    pub(super) version: u64,
    /// Whether the thread has made a call other than a wait that is pending or has failed.
    has_called: bool,
    pub(in crate::check) waits: Vec<RememberedWait>,
    /// The entry of the last wait or query that is pending or has failed.
    pub(in crate::check) pending: Option<u64>,
    /// If the last call of the thread waits and has not ended: the entry of that call, and the
    /// stamps that the thread will know to be complete when the call has waited.
    pub(super) blocked: Option<(u64, StampClock)>,
    /// The call that the thread is in, if the call may wait.
    pub(super) begun: Option<Box<Begun>>,
    /// The value of `version` at the last counted call.
    pub(super) call_version: u64,
    /// Whether the thread has ended.
    pub(super) is_gone: bool,
    /// The value of `version` at the last use of a block that the library orders, and that use.
    pub(super) used: Option<(u64, Use)>,
}

impl Thread {
    /// Forgets what the thread knew. The thread must have ended, so that no later entry follows it.
    fn forget(&mut self) {
        self.known = StampClock::new();
        self.waits = Vec::new();
        self.used = None;
    }
}

/// All host threads.
#[derive(Debug, Clone)]
pub(in crate::check) struct HostThreads {
    mode: Mode,
    pub(in crate::check) list: Vec<Thread>,
    by_id: NumberMap<u64, usize>,
    /// The index of the thread of the last entry.
    pub(super) last: usize,
    /// The number of versions that were assigned so far.
    versions: u64,
    /// The forgotten stamps, which every thread knew to be complete. A thread whose first call
    /// comes later is assumed to know these stamps to be complete.
    retired: VectorClock,
    /// The stamps that ended threads knew to be complete. The stamps are kept when the threads are
    /// forgotten.
    of_ended: VectorClock,
}

impl HostThreads {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            list: Vec::new(),
            by_id: NumberMap::default(),
            last: 0,
            versions: 0,
            retired: VectorClock::new(),
            of_ended: VectorClock::new(),
        }
    }

    /// Whether any thread, even an ended one, knows that `stamp` is complete.
    pub(super) fn any_knows(&self, stamp: Stamp) -> bool {
        let knows =
            |thread: &Thread| thread.known.sure.covers(stamp) || thread.known.seen.covers(stamp);
        self.retired.covers(stamp) || self.of_ended.covers(stamp) || self.list.iter().any(knows)
    }

    /// Returns a version that no thread has had.
    pub(super) fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// The index of the thread of an entry. Adds the thread if it is new.
    pub(super) fn number_of(&mut self, op: &Op, components: &mut Components) -> usize {
        let thread = match self.by_id.get(&op.thread) {
            Some(thread) => *thread,
            None => self.add(op.thread, components),
        };
        if self.mode == Mode::OneStartsAll {
            self.starts_and_joins(thread);
        }
        self.last = thread;
        self.list[thread].blocked = None;
        let waits = matches!(
            op.kind,
            OpKind::Host(HostStep::Sync {
                outcome: WaitOutcome::Pending | WaitOutcome::Failed,
                ..
            })
        );
        self.list[thread].has_called |= !waits;
        thread
    }

    fn add(&mut self, id: u64, components: &mut Components) -> usize {
        self.by_id.insert(id, self.list.len());
        self.list.push(Thread {
            id,
            component: components.next(),
            known: StampClock { sure: self.retired.clone(), seen: VectorClock::new() },
            seq: 0,
            version: 0,
            has_called: false,
            waits: Vec::new(),
            pending: None,
            blocked: None,
            begun: None,
            call_version: 0,
            is_gone: false,
            used: None,
        });
        self.list.len() - 1
    }

    /// With [`Mode::OneStartsAll`]: if the first thread makes a call after a call of another
    /// thread, the first thread learns what all others know. At its first call, another thread
    /// learns what the first thread knows.
    fn starts_and_joins(&mut self, thread: usize) {
        let others = match thread {
            0 if self.last != 0 => 1..self.list.len(),
            0 => return,
            _ if self.list[thread].has_called => return,
            _ => 0..1,
        };
        let mut known = std::mem::take(&mut self.list[thread].known);
        self.list[others].iter().for_each(|other| known.join(&other.known));
        self.list[thread].known = known;
        self.list[thread].version = self.version();
    }

    /// Notes that the thread with this number in the trace has ended.
    pub(super) fn end(&mut self, id: u64) {
        if let Some(thread) = self.by_id.get(&id) {
            let this = &mut self.list[*thread];
            (this.is_gone, this.blocked, this.begun) = (true, None, None);
        }
    }

    /// Whether the thread with this number in the trace has ended.
    pub(super) fn has_ended(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|thread| self.list[*thread].is_gone)
    }

    /// Counts a call of the thread. Later calls of the thread follow this call (law A2).
    pub(super) fn call(&mut self, thread: usize) -> Stamp {
        let version = self.version();
        let thread = &mut self.list[thread];
        thread.seq += 1;
        (thread.version, thread.call_version) = (version, version);
        let stamp = Stamp { lane: thread.component, seq: thread.seq };
        thread.known.raise(stamp);
        stamp
    }

    /// Adds `clock` to the stamps that the thread knows to be complete.
    pub(super) fn learn(&mut self, thread: usize, clock: &StampClock) {
        self.list[thread].version = self.version();
        self.list[thread].known.join(clock);
    }

    /// Adds `clock` to the stamps that the thread knows to be complete in this run.
    pub(super) fn learn_as_seen(&mut self, thread: usize, clock: &StampClock) {
        self.list[thread].version = self.version();
        self.list[thread].known.join_as_seen(clock);
    }

    /// A thread that knows `stamp` to be complete in every run.
    pub(super) fn thread_that_knows(&self, stamp: Stamp) -> Option<&Thread> {
        self.list.iter().find(|thread| thread.known.sure.covers(stamp))
    }

    /// The stamps that every thread knows to be complete. All later entries follow these stamps,
    /// except the entries of threads that have made no call yet.
    pub(super) fn known_to_all(&self) -> VectorClock {
        let mut all = VectorClock::new();
        // The first thread has joined the other threads, so they make no more calls.
        let joined = self.mode == Mode::OneStartsAll && self.last == 0;
        let count = if joined { 1 } else { self.list.len() };
        let live = self.list[..count.min(self.list.len())].iter();
        // A thread that has ended makes no more calls.
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

    /// Notes that `known`, which every thread knows to be complete, is forgotten.
    pub(super) fn retire(&mut self, known: &VectorClock) {
        self.retired.join(known);
        if self.mode == Mode::Apart {
            for thread in self.list.iter_mut().filter(|thread| thread.is_gone) {
                self.of_ended.join(&thread.known.sure);
                self.of_ended.join(&thread.known.seen);
                thread.forget();
            }
        }
    }

    /// Adds the entries that explanations may still name.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        self.list.iter().flat_map(|thread| &thread.waits).for_each(|wait| wait.named(named));
        named.extend(self.list.iter().filter_map(|thread| thread.pending));
        named.extend(self.list.iter().filter_map(|thread| thread.blocked.as_ref()).map(|b| b.0));
    }

    pub(super) fn held_state(&self) -> usize {
        let known = self.list.iter().map(|thread| thread.known.sure.positions().count());
        self.list.len() + known.sum::<usize>()
    }
}
