//! A lane: the numbers, the vector clock and the checkpoints of a stream.
//!
//! A lane is a lock over {number of the last operation, vector clock, checkpoints}. Its own lock
//! covers its waits, its operation, its number and its record, so that the order of numbers is
//! the order of the driver's calls. Under it: no lock of a buffer, no second lane, no user code.
//!
//! *Calls that wait* (laws A17, A18, A41) are made without the lock, so that nobody else is held up by
//! them. Their operation gets its number when the call has returned; what it follows was noted before
//! the call. What other threads enqueue meanwhile, in this lane or in another one, may come before it
//! or after it, and nothing is claimed of that: see `blocking_call`.
//!
//! *Tenancies.* A lane serves one stream after the other, and its numbers go on. Numbers up to
//! `State::base` belong to earlier streams. One mark, recorded at the end of the last of them, answers
//! for all of these; an event on the stream that has the lane now would not stand for them.
//!
//! *Exact waits without an event per operation.* When an operation is enqueued on a lane whose
//! previous operation touched memory that two lanes use, that previous one is recorded first; a
//! consumer that comes earlier records by itself. A program on one lane records nothing.
//!
//! Imports: `base`, `device`, `log`.
#![forbid(unsafe_code)]

use super::gate::{Gate, GateStream};
use super::mark::Mark;
use crate::base::atomic::Watermark;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Asked, Op, OpKind, StreamClass};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Driver, Timing};
use crate::log::entry::plain;
use crate::log::instant::Instant;
use crate::log::reading::Reading;
use crate::log::thread;
use crate::log::tracer::{AtLane, Tracer};
use crate::log::tracers::{Attached, Tracers};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::Location;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// Streams that may be in use at once.
pub(crate) const LANES_MAX: u32 = 1024;
/// Checkpoints a lane remembers. An older one is answered by the next later.
const CHECKPOINTS_MAX: usize = 64;

/// Operations that may be pending in a stream before the next call may wait for room. About 1024 fit
/// (law A41), and one of ours may be up to three of the driver's: its wait, its record and itself.
pub(super) const PENDING_MAX: u64 = 512;

/// One entry of the table.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    state: Mutex<State>,
    /// The last operation that anybody has observed to be complete. For reuse only, never for
    /// leaving out a wait: that would depend on timing.
    pub(crate) done: Watermark,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) stream: Option<GateStream>,
    /// Why the end of a stream that is gone could not be recorded.
    pub(super) gone: Option<Error>,
    device: Option<DeviceId>,
    /// The only thread that may enqueue or record, for a per-thread stream: to the driver its handle
    /// means the stream of whichever thread calls.
    owner: Option<u64>,
    /// Counts the streams that opened the lane.
    tenancy: u64,
    /// The last number of the streams before.
    pub(super) base: u64,
    /// Stands for everything that those did.
    pub(super) earlier: Option<Arc<Mark>>,
    /// The stream was given an operation or a wait.
    pub(super) used: bool,
    pub(super) seq: u64,
    pub(super) vector: VectorClock,
    pub(super) checkpoints: VecDeque<Arc<Mark>>,
    /// Marks to be recorded again once nobody waits for them.
    spare: Vec<Arc<Mark>>,
    /// The last operation touched memory that two lanes use.
    pub(super) last_shared: bool,
    /// The end of the last timed operation, when nothing was enqueued since.
    pub(super) last_end: Option<Arc<Instant>>,
    /// Timed events to be recorded next.
    pub(super) instants: Vec<Arc<Instant>>,
    pub(super) records: Records,
    pub(super) class: StreamClass,
    /// What its thread knew when the last operation was enqueued, by number.
    taught: u64,
    /// The barrier of the legacy stream that the vector includes.
    pub(super) barrier_seen: u64,
    /// Who records this lane; mostly nobody.
    pub(super) tracers: SmallVec<[AtLane; 1]>,
}

/// When events are recorded for other lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Records {
    /// When one of them needs it.
    #[default]
    OnDemand,
    /// After each operation: nobody else can record this stream.
    AtOnce,
}

/// What a lane becomes.
pub(crate) struct Opening<'a> {
    pub(crate) id: LaneId,
    pub(crate) stream: GateStream,
    pub(crate) class: StreamClass,
    pub(crate) records: Records,
    /// For a per-thread stream.
    pub(crate) owner: Option<u64>,
    /// The mark of the end of the stream before, which is complete.
    pub(crate) end: Option<&'a Arc<Mark>>,
    /// What the calling thread knows: everything enqueued in the stream comes after its creation.
    pub(crate) known: &'a VectorClock,
}

impl Lane {
    /// Becomes the lane of a new stream; returns which one that is. `begin` tells those who record it
    /// at which number, and none of them joins or leaves meanwhile.
    pub(crate) fn open(
        &self,
        opening: &Opening<'_>,
        tracers: &Tracers,
        begin: impl FnOnce(&Attached, u64),
    ) -> u64 {
        let mut state = self.lock();
        let (seq, tenancy) = (state.seq, state.tenancy + 1);
        let earlier = opening.end.cloned().or_else(|| state.earlier.take());
        let mut vector = opening.known.clone();
        // What the stream before did is complete, and its numbers go on.
        vector.raise(Position { lane: opening.id, seq });
        let all = tracers.all();
        begin(&all, seq);
        // Checkpoints go: `earlier` answers for the streams before.
        *state = State {
            stream: Some(opening.stream),
            device: Some(opening.stream.device),
            owner: opening.owner,
            tenancy,
            base: seq,
            earlier,
            seq,
            vector,
            records: opening.records,
            class: opening.class,
            tracers: all.into_iter().map(AtLane::new).collect(),
            ..State::default()
        };
        tenancy
    }

    /// Adds what the lane knows, while the stream that opened it as its `tenancy`-th has it; whether
    /// it has.
    pub(crate) fn add_vector(&self, tenancy: u64, clock: &mut VectorClock) -> bool {
        let state = self.lock();
        if state.tenancy == tenancy {
            clock.join(&state.vector);
        }
        state.tenancy == tenancy
    }

    /// What the lane knows, if its stream is of this device. The end of a stream that is gone is
    /// work of the device like any other (law A12).
    pub(crate) fn add_known(&self, device: DeviceId, clock: &mut VectorClock) {
        let state = self.lock();
        if state.device == Some(device) {
            clock.join(&state.vector);
        }
    }

    /// The device of its stream, or of the last one that it had.
    pub(crate) fn device(&self) -> Option<DeviceId> {
        self.lock().device
    }

    /// Records the lane from now on, if it was not recorded already: a stream that has just been
    /// opened may have found the tracer by itself.
    pub(crate) fn attach(&self, tracer: &Arc<Tracer>) {
        let mut state = self.lock();
        if !state.tracers.iter().any(|other| other.is(tracer)) {
            state.tracers.push(AtLane::new(Arc::clone(tracer)));
        }
    }

    pub(crate) fn detach(&self, tracer: &Arc<Tracer>) {
        self.lock().tracers.retain(|other| !other.is(tracer));
    }

    /// Everything enqueued from now on comes after `clock`.
    pub(crate) fn learn(&self, clock: &VectorClock) {
        self.lock().vector.join(clock);
    }

    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no user code runs under a lane's lock")
    }
}

impl State {
    /// Records an event that stands for everything enqueued so far.
    pub(super) fn record(&mut self, gate: &Gate, lane: LaneId) -> Result<Arc<Mark>> {
        let Some(stream) = self.stream else { return Err(self.gone()) };
        if self.owner.is_some_and(|owner| owner != thread::number()) {
            return self.unrecorded();
        }
        let (log, device) = (&gate.log, stream.device);
        if self.checkpoints.len() == CHECKPOINTS_MAX {
            self.spare.extend(self.checkpoints.pop_front());
        }
        let free = self.spare.iter_mut().position(|mark| Arc::get_mut(mark).is_some());
        let mut mark = match free {
            Some(index) => self.spare.swap_remove(index),
            None => Arc::new(Mark {
                driver: Arc::clone(&log.driver),
                tracers: Arc::clone(&log.tracers),
                event: log.driver.event_create(device, Timing::Off)?,
                device,
                snapshot: VectorClock::new(),
                position: Position { lane, seq: 0 },
            }),
        };
        let position = Position { lane, seq: self.seq };
        gate.record(stream, mark.event)?;
        self.learn_of_thread(log.domain);
        if let Some(mark) = Arc::get_mut(&mut mark) {
            mark.snapshot.copy_from(&self.vector);
            mark.position = position;
        }
        gate.records.fetch_add(1, Ordering::Relaxed);
        let (kind, class) =
            (OpKind::Record { event: mark.event.0, by: Asked::Ordering }, self.class);
        let at = (log.domain, position);
        self.note(|| plain(kind.clone(), device, class, at));
        self.checkpoints.push_back(Arc::clone(&mark));
        Ok(mark)
    }

    /// The error of an access to memory that a stream which is gone used last.
    #[cold]
    fn gone(&self) -> Error {
        let cause = match &self.gone {
            Some(culprit) if culprit.is_loss() => return culprit.again(),
            Some(refused) => format!("the stream is gone without a record of its end: {refused}"),
            None => "the stream is gone without a record of its end".to_owned(),
        };
        let error = Error::new(ErrorKind::Closed, "event record", cause);
        match self.device {
            Some(device) => error.on(device),
            None => error,
        }
    }

    /// The operations of a per-thread stream are recorded as they are enqueued, by its thread alone.
    #[cold]
    pub(super) fn unrecorded<R>(&self) -> Result<R> {
        let cause = "the record of an operation in a per-thread default stream was refused, and no \
                     other thread can record that stream";
        let error = Error::new(ErrorKind::Closed, "event record", cause);
        Err(match self.device {
            Some(device) => error.on(device),
            None => error,
        })
    }

    /// Law A2: what the calling thread knows comes before what it enqueues, and so before all that
    /// follows that in the lane, whoever enqueues it.
    #[inline]
    pub(super) fn learn_of_thread(&mut self, domain: u64) {
        if self.taught != thread::version() {
            self.learn_more(domain);
        }
    }

    #[inline(never)]
    fn learn_more(&mut self, domain: u64) {
        self.taught = thread::version();
        thread::with_known(domain, |known| self.vector.join(known));
    }

    /// Nothing has to be done around the next operation, but for its own waits.
    #[inline]
    pub(super) fn is_plain(&self, done: &Watermark) -> bool {
        !self.last_shared
            && !self.may_be_full(done)
            && self.tracers.is_empty()
            && self.last_end.is_none()
            && self.records == Records::OnDemand
    }

    /// Whether the stream may have no room, so that the next call waits (law A41).
    #[inline]
    pub(super) fn may_be_full(&self, done: &Watermark) -> bool {
        self.seq - self.base > PENDING_MAX && !done.covers(self.seq - PENDING_MAX)
    }

    /// The stream, as far as the calling thread can ask the driver about it.
    pub(super) fn open_stream(&self) -> Option<GateStream> {
        self.stream.filter(|_| self.owner.is_none_or(|owner| owner == thread::number()))
    }

    /// The mark that answers for `seq`, if there is one.
    pub(super) fn mark_of(&self, seq: u64) -> Option<&Arc<Mark>> {
        if seq <= self.base {
            return self.earlier.as_ref();
        }
        let index = self.checkpoints.partition_point(|mark| mark.position.seq < seq);
        self.checkpoints.get(index)
    }

    pub(super) fn recorded(&self) -> u64 {
        self.checkpoints.back().map_or(0, |mark| mark.position.seq)
    }

    /// Whether any record of this lane has times.
    fn is_timed(&self) -> bool {
        self.tracers.iter().any(|tracer| tracer.is_timed())
    }

    /// The host's clock, if any record of this lane has times.
    pub(super) fn called(&self, driver: &dyn Driver) -> Option<Reading> {
        self.is_timed().then(|| Reading::now(driver))
    }

    /// Appends a user's call about an event to the records of this lane, if there are any.
    pub(super) fn note_called(
        &self,
        driver: &dyn Driver,
        (begin, site): (Option<Reading>, &'static Location<'static>),
        op: impl Fn() -> Op,
    ) {
        let span = begin.map(|begin| (begin, Reading::now(driver)));
        for tracer in &self.tracers {
            let call = span.and_then(|span| tracer.call(span));
            tracer.ledger.append(Op { call, site: Some(site.into()), ..op() });
        }
    }

    /// Appends to the records of this lane, if there are any.
    pub(super) fn note(&self, op: impl Fn() -> Op) {
        for tracer in &self.tracers {
            tracer.ledger.append(op());
        }
    }
}
