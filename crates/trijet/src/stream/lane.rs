//! A lane: the numbers, the vector clock and the checkpoints of a stream.
//!
//! A lane is a lock over {number of the last operation, vector clock, checkpoints}. Its own lock
//! covers its waits, its operation, its number and its record, so that the order of numbers is
//! the order of the driver's calls. Under it: no lock of a buffer, no second lane, no user code.
//!
//! *Calls that wait* (laws A17, A18, A41) are made without the lock, so that nobody else is held up by
//! them. Their operation gets its number when the call has returned; what it follows was noted before
//! the call. What other threads enqueue meanwhile, in this lane or in another one, may come before it
//! or after it, and nothing is claimed of that: see `waiting`.
//!
//! *Tenancies.* A lane serves one stream after the other, and its numbers go on. Numbers up to
//! `State::base` belong to earlier streams. One mark, recorded at the end of the last of them, answers
//! for all of these; an event on the stream that has the lane now would not stand for them.
//!
//! *Exact waits without an event per operation.* When an operation is enqueued on a lane whose
//! previous operation touched memory that two lanes use, that previous one is recorded first; a
//! consumer that comes earlier records by itself. A program on one lane records nothing.
//!
//! Imports: `base`, `device`. Imported by everything that enqueues.
#![forbid(unsafe_code)]

use super::callback;
use super::default::LegacyOrder;
use super::noted::plain;
use super::recorders::{Attached, Recorders};
use super::thread;
use super::timing::{AtLane, Instant, Recorder};
use super::universe::Universe;
use crate::base::atomic::Watermark;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Asked, OpKind, StreamClass};
use crate::base::mutant;
use crate::device::driver::{Driver, EventHandle, StreamHandle, Timing};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

/// Streams that may be in use at once.
pub(crate) const LANES_MAX: u32 = 1024;
/// Checkpoints a lane remembers. An older one is answered by the next later.
const CHECKPOINTS_MAX: usize = 64;

/// An event recorded on a lane, with what it stands for.
#[derive(Debug)]
pub(crate) struct Mark {
    driver: Arc<dyn Driver>,
    recorders: Arc<Recorders>,
    pub(crate) event: EventHandle,
    pub(crate) device: DeviceId,
    /// Everything that is complete when the event is.
    pub(crate) snapshot: VectorClock,
    pub(crate) position: Position,
}

impl Drop for Mark {
    fn drop(&mut self) {
        // Destroying never blocks (law A12); after a context error there is nothing to destroy.
        // Inside a host function the driver must not be called (law A28): there the event leaks.
        if !callback::inside() {
            self.recorders.note_gone(self.event, self.device);
            drop(self.driver.event_destroy(self.event));
        }
    }
}

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
    stream: Option<StreamHandle>,
    /// Why the end of a stream that is gone could not be recorded.
    gone: Option<Error>,
    device: Option<DeviceId>,
    /// The only thread that may enqueue or record, for a per-thread stream: to the driver its handle
    /// means the stream of whichever thread calls.
    owner: Option<u64>,
    /// Counts the streams that opened the lane.
    tenancy: u64,
    /// The last number of the streams before.
    pub(super) base: u64,
    /// Stands for everything that those did.
    earlier: Option<Arc<Mark>>,
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
    pub(super) recorders: SmallVec<[AtLane; 1]>,
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

/// A stream's place in its universe.
#[derive(Debug, Clone)]
pub(crate) struct LaneRef {
    pub(crate) universe: Arc<Universe>,
    pub(crate) id: LaneId,
    /// The lane of that number.
    pub(super) lane: Arc<Lane>,
    pub(crate) device: DeviceId,
    pub(crate) stream: StreamHandle,
    /// Its part in the order around the legacy stream.
    pub(crate) legacy: Option<LegacyOrder>,
}

/// What a lane becomes.
pub(crate) struct Opening<'a> {
    pub(crate) id: LaneId,
    pub(crate) device: DeviceId,
    pub(crate) stream: StreamHandle,
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
        recorders: &Recorders,
        begin: impl FnOnce(&Attached, u64),
    ) -> u64 {
        let mut state = self.lock();
        let (seq, tenancy) = (state.seq, state.tenancy + 1);
        let earlier = opening.end.cloned().or_else(|| state.earlier.take());
        let mut vector = opening.known.clone();
        // What the stream before did is complete, and its numbers go on.
        vector.raise(Position { lane: opening.id, seq });
        let all = recorders.all();
        begin(&all, seq);
        // Checkpoints go: `earlier` answers for the streams before.
        *state = State {
            stream: Some(opening.stream),
            device: Some(opening.device),
            owner: opening.owner,
            tenancy,
            base: seq,
            earlier,
            seq,
            vector,
            records: opening.records,
            class: opening.class,
            recorders: all.into_iter().map(AtLane::new).collect(),
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
    /// opened may have found the recorder by itself.
    pub(crate) fn attach(&self, recorder: &Arc<Recorder>) {
        let mut state = self.lock();
        if !state.recorders.iter().any(|other| other.is(recorder)) {
            state.recorders.push(AtLane::new(Arc::clone(recorder)));
        }
    }

    pub(crate) fn detach(&self, recorder: &Arc<Recorder>) {
        self.lock().recorders.retain(|other| !other.is(recorder));
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
    pub(super) fn record(&mut self, universe: &Universe, lane: LaneId) -> Result<Arc<Mark>> {
        let (Some(stream), Some(device)) = (self.stream, self.device) else {
            return Err(self.gone());
        };
        if self.owner.is_some_and(|owner| owner != thread::number()) {
            return self.unrecorded();
        }
        let driver = &universe.driver;
        if self.checkpoints.len() == CHECKPOINTS_MAX {
            self.spare.extend(self.checkpoints.pop_front());
        }
        let free = self.spare.iter_mut().position(|mark| Arc::get_mut(mark).is_some());
        let mut mark = match free {
            Some(index) => self.spare.swap_remove(index),
            None => Arc::new(Mark {
                driver: Arc::clone(driver),
                recorders: Arc::clone(&universe.recorders),
                event: driver.event_create(device, Timing::Off)?,
                device,
                snapshot: VectorClock::new(),
                position: Position { lane, seq: 0 },
            }),
        };
        let ahead = u64::from(mutant::on(4, "a record stands for the next operation too"));
        let position = Position { lane, seq: self.seq + ahead };
        driver.event_record(mark.event, stream)?;
        self.learn_of_thread(universe.id);
        if let Some(mark) = Arc::get_mut(&mut mark) {
            mark.snapshot.copy_from(&self.vector);
            mark.position = position;
        }
        universe.records.fetch_add(1, Ordering::Relaxed);
        let (kind, class) =
            (OpKind::Record { event: mark.event.0, by: Asked::Ordering }, self.class);
        let at = (universe.id, position);
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
    fn unrecorded<R>(&self) -> Result<R> {
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
    pub(super) fn learn_of_thread(&mut self, universe: u64) {
        if self.taught != thread::version() {
            self.learn_more(universe);
        }
    }

    #[inline(never)]
    fn learn_more(&mut self, universe: u64) {
        self.taught = thread::version();
        thread::with_known(universe, |known| self.vector.join(known));
    }

    /// Nothing has to be done around the next operation, but for its own waits.
    #[inline]
    pub(super) fn is_plain(&self, done: &Watermark) -> bool {
        !self.last_shared
            && !self.may_be_full(done)
            && self.recorders.is_empty()
            && self.last_end.is_none()
            && self.records == Records::OnDemand
    }

    /// Whether the stream may have no room, so that the next call waits (law A41).
    #[inline]
    pub(super) fn may_be_full(&self, done: &Watermark) -> bool {
        self.seq - self.base > PENDING_MAX && !done.covers(self.seq - PENDING_MAX)
    }

    /// The stream, as far as the calling thread can ask the driver about it.
    pub(super) fn open_stream(&self) -> Option<StreamHandle> {
        self.stream.filter(|_| self.owner.is_none_or(|owner| owner == thread::number()))
    }

    /// The mark that answers for `seq`, if there is one.
    pub(super) fn mark_of(&self, seq: u64) -> Option<&Arc<Mark>> {
        if seq <= self.base && !mutant::on(39, "an event on the new stream stands for the old one")
        {
            return self.earlier.as_ref();
        }
        let index = self.checkpoints.partition_point(|mark| mark.position.seq < seq);
        let early = u64::from(mutant::on(11, "a checkpoint before the needed operation will do"));
        let index = if early == 1 { index.saturating_sub(1) } else { index };
        self.checkpoints.get(index)
    }

    pub(super) fn recorded(&self) -> u64 {
        self.checkpoints.back().map_or(0, |mark| mark.position.seq)
    }
}

/// Marks to wait for.
pub(super) type Marks = SmallVec<[Arc<Mark>; 10]>;

impl LaneRef {
    #[inline]
    pub(super) fn lane(&self) -> &Lane {
        &self.lane
    }

    pub(super) fn class(&self) -> StreamClass {
        self.legacy.as_ref().map_or(StreamClass::NonBlocking, LegacyOrder::class)
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.universe.driver
    }

    /// The mark that answers for all of the lane's work when its stream is gone.
    pub(crate) fn end(&self) -> Result<Option<Arc<Mark>>> {
        match &self.legacy {
            // Its operations are recorded at once, and no other thread can record more.
            Some(legacy) if !legacy.is_own() => {
                let state = self.lane().lock();
                match state.mark_of(state.seq) {
                    _ if state.seq == state.base => Ok(None),
                    Some(mark) => Ok(Some(Arc::clone(mark))),
                    None => state.unrecorded(),
                }
            }
            _ => self.mark(),
        }
    }

    /// Gives the lane back when its stream goes. The checkpoints stay until the next stream opens
    /// the lane. Without an end (the device is lost) the lane can never be known to be free: it is
    /// left out of circulation, and who needs its work gets an error.
    pub(crate) fn retire(&self, end: Result<Option<Arc<Mark>>>) -> Result<()> {
        let mut state = self.lane().lock();
        state.stream = None;
        state.gone = end.as_ref().err().map(Error::again);
        // A stream that did nothing leaves the end of the one before it.
        let end = end.map(|end| end.or_else(|| state.earlier.clone()));
        drop(state);
        self.universe.retire(self.id, end?);
        Ok(())
    }
}
