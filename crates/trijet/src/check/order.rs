//! What comes before what, recomputed from the driver's calls alone.
//!
//! Every stream and every host thread is a component of one vector clock. The clock of a stream is
//! what is complete when its last call is; that of a thread is what the thread knows to be complete.
//! Only edges that a law guarantees are joined (laws A1 to A19, A38, A44); [`Assume::DriverObserved`]
//! adds what one driver was seen to do besides. What the library believed (`thread_known`, and the
//! position that a wait names) is not looked at.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

mod clock;
mod event;
mod handles;
mod kept;
mod lane;
mod own;
mod signals;
mod stuck;
mod work;

use super::hash::NumberMap;
use super::{Assume, Threads};
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{Access, Asked, HostCall, Op, OpKind, Outcome, Signalled, SourceOrder};
use crate::base::vector_clock::VectorClock;
use clock::Clock;
use event::Event;
use lane::Around;
use own::{Owned, Use};
use signals::Signals;
use std::collections::BTreeSet;
use work::Begun;

pub(super) use event::Doubt;
pub(super) use lane::Lane;
pub(super) use signals::Actor;
pub(super) use stuck::{Hop, Stuck};

/// Waits that a stream or a thread remembers for explanations, one per stream that was recorded.
const WAITS_MAX: usize = 16;

/// A number in a component: the lane of such a position is the component's number here, and not
/// that of a lane in the record.
pub(super) type Stamp = Position;

/// A wait, for explanations.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// The record of the wait.
    pub(super) op: u64,
    pub(super) event: u64,
    /// The record of the event that it stood for, and how far its stream had come then.
    pub(super) recorded: Option<(u64, Stamp)>,
    /// The one before, which the last one replaced.
    pub(super) replaced: Option<(u64, Stamp)>,
}

/// A host thread.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) id: u64,
    component: LaneId,
    known: Clock,
    seq: u64,
    /// Changes with what is known.
    version: u64,
    /// It made a call that counts.
    spoke: bool,
    pub(super) waits: Vec<Seen>,
    /// The last query that found work pending.
    pub(super) pending: Option<u64>,
    /// Its last call, if that is a wait that has not ended, and what it will know then.
    blocked: Option<(u64, Clock)>,
    /// The call that it is in.
    begun: Option<Box<Begun>>,
    /// The version when it made its last call that counts.
    called: u64,
    /// It has ended.
    is_gone: bool,
    /// Its last use of a block that the library orders, and the version of what it knew.
    used: Option<(u64, Use)>,
}

/// From when to when an access uses bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// During the call of the host thread.
    Call,
    /// When the stream gets there.
    Work,
    /// From the call until the stream has got there.
    CallToWork,
}

/// The place of one record in the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) thread: usize,
    pub(super) lane: Option<usize>,
    /// The number of the call in its thread.
    call: Stamp,
    /// The number of the work in its stream.
    work: Stamp,
    /// A wait of the program for an event that stood for nothing.
    pub(super) waits_for_nothing: bool,
    staged: bool,
    /// Its call took long: not all that its stream holds by now comes before it.
    apart: bool,
}

/// What comes before an access, by what may be counted for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before<'a> {
    /// In every run.
    pub(super) sure: &'a VectorClock,
    /// In this one; and what the library found complete.
    seen: [&'a VectorClock; 2],
}

/// The one whose numbers a component has.
#[derive(Debug)]
pub(super) enum Owner<'a> {
    Stream(&'a Lane),
    Thread(&'a Thread),
    /// It is not remembered.
    Unknown,
}

/// No stamp: number 0 is known to every clock.
const NONE: Stamp = Stamp { lane: LaneId(0), seq: 0 };
static NOTHING: Clock = Clock::new();

#[derive(Debug, Clone)]
pub(super) struct Order {
    assume: Assume,
    mode: Threads,
    components: u32,
    /// Numbers versions of what threads know.
    versions: u64,
    pub(super) lanes: Vec<Lane>,
    lane_of: NumberMap<LaneId, usize>,
    /// Streams whose lanes passed to others, and those whose numbers any other may continue.
    former: Vec<usize>,
    vacant: Vec<usize>,
    pub(super) threads: Vec<Thread>,
    thread_of: NumberMap<u64, usize>,
    last_thread: usize,
    events: NumberMap<u64, Event>,
    doubts: Vec<Doubt>,
    /// Waits that are in doubt because of a record that comes later; and those that turn out to be, if
    /// that is of use.
    doubted: BTreeSet<u64>,
    doubtful: Option<BTreeSet<u64>>,
    devices: NumberMap<DeviceId, Around>,
    /// Where blocks of devices lie.
    homes: NumberMap<BlockId, DeviceId>,
    owned: Owned,
    /// What the library found complete.
    settled: VectorClock,
    /// What comes before the last record, if its call took long.
    apart: Clock,
    /// What was forgotten because all threads knew it: those that come later do as well.
    retired: VectorClock,
    signals: Signals,
}

fn remember(waits: &mut Vec<Seen>, seen: Seen) {
    let stream = |seen: &Seen| seen.recorded.map(|(_, at)| at.lane);
    waits.retain(|other| stream(other) != stream(&seen));
    if waits.len() == WAITS_MAX {
        waits.remove(0);
    }
    waits.push(seen);
}

impl Thread {
    /// Forgets what a thread knew that has ended: nothing follows it any more.
    fn forget(&mut self) {
        self.known = Clock::new();
        self.waits = Vec::new();
        self.used = None;
    }
}

impl Before<'_> {
    #[inline]
    pub(super) fn covers(&self, stamp: Stamp) -> bool {
        self.sure.covers(stamp) || self.seen.iter().any(|seen| seen.covers(stamp))
    }
}

impl Step {
    /// When an access of the record happens.
    pub(super) fn moment(&self, op: &Op, access: &Access) -> Moment {
        match op.kind {
            OpKind::Host | OpKind::AllocNow | OpKind::FreeNow => Moment::Call,
            _ if access.mode.writes() => Moment::Work,
            OpKind::Batch(SourceOrder::DuringCall) => Moment::Call,
            OpKind::Batch(SourceOrder::Any) => Moment::CallToWork,
            _ if self.staged => Moment::Call,
            _ => Moment::Work,
        }
    }

    /// What has to be known to follow an access of this moment.
    pub(super) fn end(&self, moment: Moment) -> Stamp {
        match moment {
            Moment::Call => self.call,
            Moment::Work | Moment::CallToWork => self.work,
        }
    }
}

impl Order {
    pub(super) fn new(assume: Assume, mode: Threads) -> Self {
        Self {
            assume,
            mode,
            components: 0,
            versions: 0,
            lanes: Vec::new(),
            lane_of: NumberMap::default(),
            former: Vec::new(),
            vacant: Vec::new(),
            threads: Vec::new(),
            thread_of: NumberMap::default(),
            last_thread: 0,
            events: NumberMap::default(),
            doubts: Vec::new(),
            doubted: BTreeSet::new(),
            doubtful: None,
            devices: NumberMap::default(),
            homes: NumberMap::default(),
            owned: Owned::default(),
            settled: VectorClock::new(),
            apart: Clock::new(),
            retired: VectorClock::new(),
            signals: Signals::default(),
        }
    }

    /// Takes the next record in.
    pub(super) fn step(&mut self, op: &Op, index: u64) -> Step {
        let mut step = Step {
            thread: self.last_thread,
            lane: None,
            call: NONE,
            work: NONE,
            waits_for_nothing: false,
            staged: false,
            apart: false,
        };
        if self.aside(op, index) {
            return step;
        }
        let thread = self.thread(op);
        step.thread = thread;
        self.take_over(thread, op);
        match &op.kind {
            OpKind::Sync { what, outcome } => self.sync(thread, op, index, (*what, *outcome)),
            OpKind::Open => self.open(thread, op),
            OpKind::Signal { signal, what, .. } => {
                self.signal((thread, None), index, (*signal, *what));
            }
            OpKind::Call(HostCall::Failed) => self.threads[thread].begun = None,
            OpKind::Begin => self.begin(op, index, thread),
            OpKind::Settled { event } => self.settled(*event),
            OpKind::Fault { .. } => self.signals.lose(op.device),
            OpKind::Call(_)
            | OpKind::Gone { .. }
            | OpKind::Ran
            | OpKind::Name { .. }
            | OpKind::Handle { .. }
            | OpKind::Lent
            | OpKind::ThreadGone => {}
            OpKind::Host | OpKind::AllocNow | OpKind::FreeNow => {
                self.dwell(op);
                step.call = self.call(thread);
            }
            OpKind::Record { event, by } => {
                let lane = self.lane(op);
                step.lane = Some(lane);
                self.record((thread, lane), *event, *by, index);
            }
            OpKind::Wait { event, by, .. } => {
                let lane = self.lane(op);
                step.lane = Some(lane);
                let found = self.wait((thread, lane), *event, *by, index);
                step.waits_for_nothing = !found && *by == Asked::User;
            }
            _ => self.enqueue(op, index, &mut step),
        }
        // A call that waits has used its memory when it has returned.
        if op.kind != OpKind::Begin {
            self.hand_on(thread, op);
        }
        step
    }

    /// What comes from threads of the driver too, or says nothing of the order of a thread.
    fn aside(&mut self, op: &Op, index: u64) -> bool {
        match op.kind {
            OpKind::Gone { event } => drop(self.events.remove(&event)),
            OpKind::Signal { signal, what, inside: inside @ Some(_) } => {
                self.signal((self.last_thread, inside), index, (signal, what));
            }
            OpKind::Signal { signal, what: what @ Signalled::Gone, .. } => {
                self.signal((self.last_thread, None), index, (signal, what));
            }
            OpKind::Handle { signal, handle, what, inside } => {
                self.handle(op.thread, (signal, handle), what, inside);
            }
            OpKind::Ran => self.ran(op.position, index),
            OpKind::ThreadGone => {
                if let Some(thread) = self.thread_of.get(&op.thread) {
                    let this = &mut self.threads[*thread];
                    (this.is_gone, this.blocked, this.begun) = (true, None, None);
                }
            }
            OpKind::Call(HostCall::InHostFn) | OpKind::Name { .. } => {}
            _ => return false,
        }
        true
    }

    /// What comes before an access of this moment.
    pub(super) fn before(&self, step: &Step, moment: Moment) -> Before<'_> {
        let clock = match (moment, step.lane) {
            (Moment::Work, Some(_)) if step.apart => &self.apart,
            (Moment::Work, Some(lane)) => &self.lanes[lane].tail,
            _ => self.threads.get(step.thread).map_or(&NOTHING, |thread| &thread.known),
        };
        Before { sure: &clock.sure, seen: [&clock.seen, &self.settled] }
    }

    /// The same for an earlier record of which the next one would be: what is known by now.
    pub(super) fn before_now(&self, step: &Step, moment: Moment) -> &VectorClock {
        let step = Step { apart: false, ..*step };
        self.before(&step, moment).sure
    }

    /// The stream whose number the stamp is, or the thread.
    pub(super) fn owner(&self, stamp: Stamp) -> Owner<'_> {
        if let Some(lane) = self.lanes.iter().find(|lane| lane.has(stamp.lane)) {
            return Owner::Stream(lane);
        }
        let thread = self.threads.iter().find(|thread| thread.component == stamp.lane);
        thread.map_or(Owner::Unknown, Owner::Thread)
    }

    /// A thread that knows `stamp`.
    pub(super) fn knower(&self, stamp: Stamp) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.known.sure.covers(stamp))
    }

    fn component(&mut self) -> LaneId {
        self.components += 1;
        LaneId(self.components)
    }

    fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// The thread of a record. Nothing is known of how it began and ended, unless the mode says it.
    fn thread(&mut self, op: &Op) -> usize {
        let thread = match self.thread_of.get(&op.thread) {
            Some(thread) => *thread,
            None => self.new_thread(op.thread),
        };
        if self.mode == Threads::OneStartsAll {
            self.starts_and_joins(thread);
        }
        self.last_thread = thread;
        self.threads[thread].blocked = None;
        let waits =
            matches!(&op.kind, OpKind::Sync { outcome, .. } if *outcome != Outcome::Complete);
        self.threads[thread].spoke |= !waits;
        thread
    }

    fn new_thread(&mut self, id: u64) -> usize {
        let component = self.component();
        self.thread_of.insert(id, self.threads.len());
        self.threads.push(Thread {
            id,
            component,
            known: Clock { sure: self.retired.clone(), seen: VectorClock::new() },
            seq: 0,
            version: 0,
            spoke: false,
            waits: Vec::new(),
            pending: None,
            blocked: None,
            begun: None,
            called: 0,
            is_gone: false,
            used: None,
        });
        self.threads.len() - 1
    }

    fn starts_and_joins(&mut self, thread: usize) {
        let others = match thread {
            0 if self.last_thread != 0 => 1..self.threads.len(),
            0 => return,
            _ if self.threads[thread].spoke => return,
            _ => 0..1,
        };
        let mut known = std::mem::take(&mut self.threads[thread].known);
        self.threads[others].iter().for_each(|other| known.join(&other.known));
        self.threads[thread].known = known;
        self.threads[thread].version = self.version();
    }

    /// A call of which later calls of the thread know (law A2).
    fn call(&mut self, thread: usize) -> Stamp {
        let version = self.version();
        let thread = &mut self.threads[thread];
        thread.seq += 1;
        (thread.version, thread.called) = (version, version);
        let stamp = Stamp { lane: thread.component, seq: thread.seq };
        thread.known.raise(stamp);
        stamp
    }

    fn learn(&mut self, thread: usize, clock: &Clock) {
        self.threads[thread].version = self.version();
        self.threads[thread].known.join(clock);
    }
}
