//! What comes before what, recomputed from the driver's calls alone.
//!
//! Every stream and every host thread is a component of one vector clock. The clock of a stream is
//! what is complete when its last call is; that of a thread is what the thread knows to be complete.
//! Only edges that a law guarantees are joined (laws A1 to A19); [`Assume::DriverObserved`] adds what
//! one driver was seen to do besides. What the library believed (`thread_known`, and the position
//! that a wait names) is not looked at.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

mod kept;
mod signals;
mod stuck;

use super::{Assume, Threads};
use crate::base::clock::VectorClock;
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Asked, HostCall, Op, OpKind, Outcome, Place, Signalled, SourceOrder, StreamClass,
    Waited,
};
use signals::Signals;
use std::collections::HashMap;

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

#[derive(Debug, Clone, Default)]
struct Event {
    stands_for: VectorClock,
    recorded: Option<(u64, Stamp)>,
    replaced: Option<(u64, Stamp)>,
}

/// A stream.
#[derive(Debug, Clone)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    component: LaneId,
    pub(super) class: StreamClass,
    device: DeviceId,
    /// What is complete when its last call is.
    tail: VectorClock,
    seq: u64,
    /// What to add to a number here for the one in the record.
    pub(super) offset: u64,
    /// The thread that enqueued last, and the version of what it knew.
    taught: (usize, u64),
    /// The version of the legacy barrier that the tail includes.
    barrier_seen: u64,
    pub(super) waits: Vec<Seen>,
}

/// A host thread.
#[derive(Debug, Clone)]
pub(super) struct Thread {
    pub(super) id: u64,
    component: LaneId,
    known: VectorClock,
    seq: u64,
    /// Changes with what is known.
    version: u64,
    /// It made a call that counts.
    spoke: bool,
    pub(super) waits: Vec<Seen>,
    /// The last query that found work pending.
    pub(super) pending: Option<u64>,
    /// Its last call, if that is a wait that has not ended, and what it will know then.
    blocked: Option<(u64, VectorClock)>,
}

/// The streams of a device.
#[derive(Debug, Clone, Default)]
struct Around {
    members: Vec<usize>,
    /// What streams held whose lanes passed to others, and those of them that were blocking.
    gone: VectorClock,
    gone_blocking: VectorClock,
    /// What the legacy stream holds back the blocking ones for.
    barrier: VectorClock,
    barrier_version: u64,
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

/// What is true when a call returns that enqueues work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    AtOnce,
    /// What the stream held before is complete and the source was read.
    Staged,
    /// The work is complete.
    Done,
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
}

/// No stamp: number 0 is known to every clock.
const NONE: Stamp = Stamp { lane: LaneId(0), seq: 0 };

#[derive(Debug, Clone)]
pub(super) struct Order {
    assume: Assume,
    mode: Threads,
    components: u32,
    /// Numbers versions of what threads know.
    versions: u64,
    pub(super) lanes: Vec<Lane>,
    lane_of: HashMap<LaneId, usize>,
    pub(super) threads: Vec<Thread>,
    thread_of: HashMap<u64, usize>,
    last_thread: usize,
    events: HashMap<u64, Event>,
    devices: HashMap<DeviceId, Around>,
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

fn is_of_host(place: Place) -> bool {
    place != Place::Device
}

/// Laws A16 to A18.
fn return_of(op: &Op, assume: Assume) -> Return {
    let place = |writes: bool| {
        let access = op.accesses.iter().find(|access| access.mode.writes() == writes);
        access.map_or(Place::Device, |access| access.place)
    };
    let (from, to) = (place(false), place(true));
    match op.kind {
        OpKind::Copy if is_of_host(from) && is_of_host(to) => Return::Done,
        OpKind::Copy if assume == Assume::DriverObserved => match (from, to) {
            (Place::Pageable, _) => Return::Staged,
            (_, Place::Pageable) => Return::Done,
            _ => Return::AtOnce,
        },
        OpKind::CopyNow if from == Place::Pageable && to == Place::Device => Return::Staged,
        OpKind::CopyNow if is_of_host(from) || is_of_host(to) => Return::Done,
        OpKind::FillNow if to == Place::Pinned => Return::Done,
        _ => Return::AtOnce,
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
            lane_of: HashMap::new(),
            threads: Vec::new(),
            thread_of: HashMap::new(),
            last_thread: 0,
            events: HashMap::new(),
            devices: HashMap::new(),
            signals: Signals::default(),
        }
    }

    /// Takes the next record in.
    pub(super) fn step(&mut self, op: &Op, index: u64) -> Step {
        if let OpKind::Gone { event } = op.kind {
            self.events.remove(&event);
        }
        // These come from threads of the driver too, and say nothing of any thread's order.
        let aside = matches!(
            op.kind,
            OpKind::Gone { .. }
                | OpKind::Call(HostCall::InHostFn)
                | OpKind::Signal { inside: Some(_), .. }
                | OpKind::Signal { what: Signalled::Gone, .. }
        );
        let aside = aside && !self.threads.is_empty();
        let thread = if aside { self.last_thread } else { self.thread(op) };
        let mut step = Step {
            thread,
            lane: None,
            call: NONE,
            work: NONE,
            waits_for_nothing: false,
            staged: false,
        };
        match &op.kind {
            OpKind::Sync { what, outcome } => self.sync(thread, op, index, (*what, *outcome)),
            OpKind::Open => self.open(op),
            OpKind::Signal { signal, what, inside } => {
                self.signal((thread, *inside), index, (*signal, *what));
            }
            OpKind::Fault { .. }
            | OpKind::Call(_)
            | OpKind::Gone { .. }
            | OpKind::Begin
            | OpKind::Ran
            | OpKind::Settled { .. }
            | OpKind::Name { .. }
            | OpKind::ThreadGone
            | OpKind::Lent => {}
            OpKind::Host | OpKind::AllocNow | OpKind::FreeNow => step.call = self.call(thread),
            OpKind::Record { event, .. } => {
                let lane = self.lane(op);
                step.lane = Some(lane);
                self.record(thread, lane, *event, index);
            }
            OpKind::Wait { event, by, .. } => {
                let lane = self.lane(op);
                step.lane = Some(lane);
                let found = self.wait(thread, lane, *event, index);
                step.waits_for_nothing = !found && *by == Asked::User;
            }
            _ => self.enqueue(op, index, &mut step),
        }
        step
    }

    /// What comes before an access of this moment.
    pub(super) fn before(&self, step: &Step, moment: Moment) -> &VectorClock {
        match (moment, step.lane) {
            (Moment::Work, Some(lane)) => &self.lanes[lane].tail,
            _ => &self.threads[step.thread].known,
        }
    }

    /// The stream whose number the stamp is, or the thread.
    pub(super) fn owner(&self, stamp: Stamp) -> Result<&Lane, Option<&Thread>> {
        let lane = self.lanes.iter().find(|lane| lane.component == stamp.lane);
        let thread = || self.threads.iter().find(|thread| thread.component == stamp.lane);
        lane.ok_or_else(thread)
    }

    /// A thread that knows `stamp`.
    pub(super) fn knower(&self, stamp: Stamp) -> Option<&Thread> {
        self.threads.iter().find(|thread| thread.known.covers(stamp))
    }

    /// Per stream of the device, the number in the record up to which `thread` knows it complete.
    pub(super) fn in_flight(&self, device: DeviceId, thread: usize) -> Vec<(LaneId, u64)> {
        let known = |lane: &Lane| self.threads[thread].known.get(lane.component);
        let open = self.lanes.iter().filter(|lane| lane.device == device && known(lane) < lane.seq);
        open.map(|lane| (lane.id, known(lane).saturating_add(lane.offset))).collect()
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
            None => {
                let component = self.component();
                self.thread_of.insert(op.thread, self.threads.len());
                self.threads.push(Thread {
                    id: op.thread,
                    component,
                    known: VectorClock::new(),
                    seq: 0,
                    version: 0,
                    spoke: false,
                    waits: Vec::new(),
                    pending: None,
                    blocked: None,
                });
                self.threads.len() - 1
            }
        };
        if self.mode == Threads::OneStartsAll {
            self.starts_and_joins(thread);
        }
        self.last_thread = thread;
        self.threads[thread].blocked = None;
        let is_pending = matches!(op.kind, OpKind::Sync { outcome: Outcome::Pending, .. });
        self.threads[thread].spoke |= !is_pending;
        thread
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

    fn lane(&mut self, op: &Op) -> usize {
        if let Some(lane) = self.lane_of.get(&op.position.lane) {
            return *lane;
        }
        let component = self.component();
        let number = self.lanes.len();
        self.lane_of.insert(op.position.lane, number);
        self.lanes.push(Lane {
            id: op.position.lane,
            component,
            class: op.stream,
            device: op.device,
            tail: VectorClock::new(),
            seq: 0,
            offset: 0,
            taught: (usize::MAX, 0),
            barrier_seen: 0,
            waits: Vec::new(),
        });
        self.devices.entry(op.device).or_default().members.push(number);
        number
    }

    /// A stream takes a lane. The one before has nothing left to do, but may be waited for.
    fn open(&mut self, op: &Op) {
        let number = self.lane(op);
        let lane = &mut self.lanes[number];
        let around = self.devices.entry(lane.device).or_default();
        around.members.retain(|member| *member != number);
        around.gone.join(&lane.tail);
        if lane.class != StreamClass::NonBlocking {
            around.gone_blocking.join(&lane.tail);
        }
        lane.class = op.stream;
        lane.device = op.device;
        lane.barrier_seen = 0;
        lane.waits.clear();
        self.devices.entry(op.device).or_default().members.push(number);
    }

    /// A call of which later calls of the thread know (law A2).
    fn call(&mut self, thread: usize) -> Stamp {
        let version = self.version();
        let thread = &mut self.threads[thread];
        thread.seq += 1;
        thread.version = version;
        let stamp = Stamp { lane: thread.component, seq: thread.seq };
        thread.known.raise(stamp);
        stamp
    }

    fn learn(&mut self, thread: usize, clock: &VectorClock) {
        self.threads[thread].version = self.version();
        self.threads[thread].known.join(clock);
    }

    /// What the stream holds, as a record in it or a wait for it finds it: laws A1, A13 and A14.
    fn held(&mut self, lane: usize) {
        if self.lanes[lane].class != StreamClass::Legacy {
            return;
        }
        let Some(around) = self.devices.get(&self.lanes[lane].device) else { return };
        let mut tail = std::mem::take(&mut self.lanes[lane].tail);
        tail.join(&around.gone_blocking);
        for member in &around.members {
            let other = &self.lanes[*member];
            if other.class != StreamClass::NonBlocking {
                tail.join(&other.tail);
            }
        }
        self.lanes[lane].tail = tail;
    }

    /// What the next work or wait of the stream comes after, beside an event.
    fn reach(&mut self, thread: usize, lane: usize) {
        self.held(lane);
        let Lane { class, device, tail, barrier_seen, .. } = &mut self.lanes[lane];
        if matches!(class, StreamClass::Blocking | StreamClass::PerThread)
            && let Some(around) = self.devices.get(device)
            && around.barrier_version != *barrier_seen
        {
            *barrier_seen = around.barrier_version;
            tail.join(&around.barrier);
        }
        self.teach(thread, lane);
    }

    /// Law A2.
    fn teach(&mut self, thread: usize, lane: usize) {
        let version = self.threads[thread].version;
        let lane = &mut self.lanes[lane];
        if lane.taught != (thread, version) {
            lane.taught = (thread, version);
            lane.tail.join(&self.threads[thread].known);
        }
    }

    /// Law A13: blocking streams wait for the legacy one from now on.
    fn hold_back(&mut self, lane: usize) {
        let lane = &self.lanes[lane];
        if lane.class == StreamClass::Legacy
            && let Some(around) = self.devices.get_mut(&lane.device)
        {
            around.barrier.copy_from(&lane.tail);
            around.barrier_version += 1;
        }
    }

    fn enqueue(&mut self, op: &Op, index: u64, step: &mut Step) {
        let lane = self.lane(op);
        step.lane = Some(lane);
        let returns = return_of(op, self.assume);
        step.staged = returns == Return::Staged;
        if step.staged {
            self.held(lane);
            let tail = std::mem::take(&mut self.lanes[lane].tail);
            self.learn(step.thread, &tail);
            self.lanes[lane].tail = tail;
        }
        if step.staged || op.kind == OpKind::Batch(SourceOrder::DuringCall) {
            step.call = self.call(step.thread);
        }
        self.reach(step.thread, lane);
        if op.kind == OpKind::HostFn {
            self.host_fn(lane, op.position, index);
        }
        let this = &mut self.lanes[lane];
        this.seq += 1;
        this.offset = op.position.seq.saturating_sub(this.seq);
        let stamp = Stamp { lane: this.component, seq: this.seq };
        this.tail.raise(stamp);
        step.work = stamp;
        self.hold_back(lane);
        if returns == Return::Done {
            let tail = std::mem::take(&mut self.lanes[lane].tail);
            self.learn(step.thread, &tail);
            self.lanes[lane].tail = tail;
        }
    }

    /// Law A4.
    fn record(&mut self, thread: usize, lane: usize, event: u64, op: u64) {
        self.held(lane);
        self.teach(thread, lane);
        let Lane { tail, component, seq, .. } = &self.lanes[lane];
        let event = self.events.entry(event).or_default();
        event.stands_for.copy_from(tail);
        event.replaced = event.recorded.replace((op, Stamp { lane: *component, seq: *seq }));
        if self.assume == Assume::DriverObserved {
            self.hold_back(lane);
        }
    }

    /// Laws A5 and A7; whether the event was ever recorded. If not, it is no edge to anything.
    fn wait(&mut self, thread: usize, lane: usize, event: u64, op: u64) -> bool {
        if !self.events.contains_key(&event) {
            let seen = Seen { op, event, recorded: None, replaced: None };
            remember(&mut self.lanes[lane].waits, seen);
            return false;
        }
        self.reach(thread, lane);
        let found = self.events.get(&event);
        let this = &mut self.lanes[lane];
        if let Some(found) = found {
            this.tail.join(&found.stands_for);
        }
        let (recorded, replaced) = found.map_or((None, None), |e| (e.recorded, e.replaced));
        remember(&mut this.waits, Seen { op, event, recorded, replaced });
        self.hold_back(lane);
        recorded.is_some()
    }

    /// Laws A8 to A10, for the calling thread only (law A11).
    fn sync(&mut self, thread: usize, op: &Op, index: u64, (what, outcome): (Waited, Outcome)) {
        let mut known = std::mem::take(&mut self.threads[thread].known);
        if outcome == Outcome::Pending {
            let mut then = known.clone();
            self.waited(op, what, &mut then);
            self.threads[thread].known = known;
            self.threads[thread].pending = Some(index);
            self.threads[thread].blocked = Some((index, then));
            return;
        }
        self.waited(op, what, &mut known);
        self.threads[thread].known = known;
        self.threads[thread].version = self.version();
        if let Waited::Event(event) = what {
            let found = self.events.get(&event);
            let (recorded, replaced) = found.map_or((None, None), |e| (e.recorded, e.replaced));
            let seen = Seen { op: index, event, recorded, replaced };
            remember(&mut self.threads[thread].waits, seen);
        }
        self.note_seen(thread, index);
    }

    /// Adds what is complete when the wait is.
    fn waited(&mut self, op: &Op, what: Waited, known: &mut VectorClock) {
        match what {
            Waited::Event(event) => {
                if let Some(found) = self.events.get(&event) {
                    known.join(&found.stands_for);
                }
            }
            Waited::Stream => {
                let lane = self.lane(op);
                let legacy = self.lanes[lane].class == StreamClass::Legacy;
                known.join(&self.lanes[lane].tail);
                if legacy && let Some(around) = self.devices.get(&self.lanes[lane].device) {
                    known.join(&around.gone_blocking);
                    let blocking = around.members.iter().map(|member| &self.lanes[*member]);
                    let blocking = blocking.filter(|other| other.class != StreamClass::NonBlocking);
                    blocking.for_each(|other| known.join(&other.tail));
                }
            }
            Waited::Device => {
                if let Some(around) = self.devices.get(&op.device) {
                    known.join(&around.gone);
                    around.members.iter().for_each(|lane| known.join(&self.lanes[*lane].tail));
                }
            }
        }
    }
}
