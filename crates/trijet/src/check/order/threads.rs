//! Host threads, and what each of them knows to be complete.
//!
//! Nothing is known of how a thread began and ended, unless the mode says it.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::begun::Begun;
use super::clock::{Clock, Components, Stamp};
use super::remembered_wait::RememberedWait;
use super::snapshot::Use;
use crate::base::hash::NumberMap;
use crate::base::id::LaneId;
use crate::base::ledger::{Op, OpKind, Outcome};
use crate::base::vector_clock::VectorClock;
use crate::check::options::Threads as Mode;

/// A host thread.
#[derive(Debug, Clone)]
pub(in crate::check) struct Thread {
    pub(in crate::check) id: u64,
    pub(super) component: LaneId,
    pub(super) known: Clock,
    pub(super) seq: u64,
    /// Changes with what is known.
    pub(super) version: u64,
    /// It made a call that counts.
    has_called: bool,
    pub(in crate::check) waits: Vec<RememberedWait>,
    /// The last query that found work pending.
    pub(in crate::check) pending: Option<u64>,
    /// Its last call, if that is a wait that has not ended, and what it will know then.
    pub(super) blocked: Option<(u64, Clock)>,
    /// The call that it is in.
    pub(super) begun: Option<Box<Begun>>,
    /// The version when it made its last call that counts.
    pub(super) call_version: u64,
    /// It has ended.
    pub(super) is_gone: bool,
    /// Its last use of a block that the library orders, and the version of what it knew.
    pub(super) used: Option<(u64, Use)>,
}

impl Thread {
    /// Forgets what a thread knew that has ended: nothing follows it any more.
    fn forget(&mut self) {
        self.known = Clock::new();
        self.waits = Vec::new();
        self.used = None;
    }
}

/// All host threads.
#[derive(Debug, Clone)]
pub(in crate::check) struct Threads {
    mode: Mode,
    pub(in crate::check) list: Vec<Thread>,
    by_id: NumberMap<u64, usize>,
    /// The one of the last record.
    pub(super) last: usize,
    /// Numbers versions of what threads know.
    versions: u64,
    /// What was forgotten because all threads knew it: those that come later do as well.
    retired: VectorClock,
}

impl Threads {
    pub(super) fn new(mode: Mode) -> Self {
        Self {
            mode,
            list: Vec::new(),
            by_id: NumberMap::default(),
            last: 0,
            versions: 0,
            retired: VectorClock::new(),
        }
    }

    pub(super) fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// The thread of a record.
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
        let waits =
            matches!(&op.kind, OpKind::Sync { outcome, .. } if *outcome != Outcome::Complete);
        self.list[thread].has_called |= !waits;
        thread
    }

    fn add(&mut self, id: u64, components: &mut Components) -> usize {
        self.by_id.insert(id, self.list.len());
        self.list.push(Thread {
            id,
            component: components.next(),
            known: Clock { sure: self.retired.clone(), seen: VectorClock::new() },
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

    /// The thread of that number in the record has ended.
    pub(super) fn end(&mut self, id: u64) {
        if let Some(thread) = self.by_id.get(&id) {
            let this = &mut self.list[*thread];
            (this.is_gone, this.blocked, this.begun) = (true, None, None);
        }
    }

    pub(super) fn has_ended(&self, id: u64) -> bool {
        self.by_id.get(&id).is_some_and(|thread| self.list[*thread].is_gone)
    }

    /// A call of which later calls of the thread know (law A2).
    pub(super) fn call(&mut self, thread: usize) -> Stamp {
        let version = self.version();
        let thread = &mut self.list[thread];
        thread.seq += 1;
        (thread.version, thread.call_version) = (version, version);
        let stamp = Stamp { lane: thread.component, seq: thread.seq };
        thread.known.raise(stamp);
        stamp
    }

    pub(super) fn learn(&mut self, thread: usize, clock: &Clock) {
        self.list[thread].version = self.version();
        self.list[thread].known.join(clock);
    }

    /// The same for what is true of this run only.
    pub(super) fn learn_as_seen(&mut self, thread: usize, clock: &Clock) {
        self.list[thread].version = self.version();
        self.list[thread].known.join_as_seen(clock);
    }

    /// A thread that knows `stamp`.
    pub(super) fn thread_that_knows(&self, stamp: Stamp) -> Option<&Thread> {
        self.list.iter().find(|thread| thread.known.sure.covers(stamp))
    }

    /// What every thread knows: everything that is recorded from now on comes after it, except by
    /// threads that have not been heard of.
    pub(super) fn known_to_all(&self) -> VectorClock {
        let mut all = VectorClock::new();
        // Threads that the first one started and joined have nothing more to say.
        let joined = self.mode == Mode::OneStartsAll && self.last == 0;
        let count = if joined { 1 } else { self.list.len() };
        let live = self.list[..count.min(self.list.len())].iter();
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

    /// Forgets what all know.
    pub(super) fn retire(&mut self, known: &VectorClock) {
        self.retired.join(known);
        if self.mode == Mode::Apart {
            let gone = self.list.iter_mut().filter(|thread| thread.is_gone);
            gone.for_each(Thread::forget);
        }
    }

    /// Adds the records that explanations may still name.
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
