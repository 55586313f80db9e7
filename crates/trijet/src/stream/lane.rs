//! A lane and its one door to the driver.
//!
//! A lane is a lock over {number of the last operation, vector clock, checkpoints}. Its own lock
//! covers its waits, its operation, its number and its record, so that the order of numbers is
//! the order of the driver's calls. Under it: no lock of a buffer, no second lane, no user code.
//!
//! *Calls that wait* (laws A17, A18, A41) are made without the lock, so that nobody else is held up by
//! them. Their operation gets its number when the call has returned; what it follows was noted before
//! the call. What other threads enqueue meanwhile, in this lane or in another one, may come before it
//! or after it, and nothing is claimed of that: see `LaneRef::enqueue_waiting`.
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

use super::around::Aside;
use super::callback;
use super::default::{LegacyOrder, Turn};
use super::noted::plain;
use super::recorders::{Attached, Recorders};
use super::thread;
use super::timing::{AtLane, Instant, Recorder};
use super::track::{Needs, Use};
use super::universe::Universe;
use crate::base::atomic::Watermark;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Asked, Engine, OpKind, StreamClass};
use crate::base::mutant;
use crate::device::driver::{Driver, EventHandle, StreamHandle, Timing};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::panic::Location;
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

/// What an operation is, for records and errors.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) kind: OpKind,
    pub(crate) engine: Engine,
    pub(crate) label: &'static str,
    pub(crate) chunk: Option<u64>,
    pub(crate) site: &'static Location<'static>,
    pub(crate) returns: Returns,
    pub(crate) call: Call,
}

/// Whether the driver may keep the call that enqueues an operation until other work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Enqueues,
    /// Laws A17 and A18.
    MayWait,
}

/// Operations that may be pending in a stream before the next call may wait for room. About 1024 fit
/// (law A41), and one of ours may be up to three of the driver's: its wait, its record and itself.
const PENDING_MAX: u64 = 512;

/// What is true when the call that enqueues an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// Nothing more: it is enqueued.
    AtOnce,
    /// What the operation reads has been read (law A19).
    SourcesRead,
    /// So it has, and everything before the operation is complete (law A18).
    Staged,
    /// The operation is complete (laws A17 and A18).
    Done,
}

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
            if let Some(culprit) = self.gone.as_ref().filter(|error| error.is_loss()) {
                return Err(culprit.again());
            }
            let cause = "the stream is gone, and its end could not be recorded";
            return Err(Error::new(ErrorKind::Closed, "event record", cause));
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

    /// The operations of a per-thread stream are recorded as they are enqueued, by its thread alone.
    #[cold]
    fn unrecorded<R>(&self) -> Result<R> {
        let cause = "the record of an operation in a per-thread default stream was refused, and no \
                     other thread can record that stream";
        let error = Error::new(ErrorKind::Closed, "event record", cause);
        Err(self.device.map_or_else(|| error.again(), |device| error.again().on(device)))
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
    fn is_plain(&self, done: &Watermark) -> bool {
        !self.last_shared
            && !self.may_be_full(done)
            && self.recorders.is_empty()
            && self.last_end.is_none()
            && self.records == Records::OnDemand
    }

    /// Whether the stream may have no room, so that the next call waits (law A41).
    #[inline]
    fn may_be_full(&self, done: &Watermark) -> bool {
        self.seq - self.base > PENDING_MAX && !done.covers(self.seq - PENDING_MAX)
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

/// Stamps the memory of an operation as far as that needs no lock; the others come back as bits:
/// an operation has at most 64 accesses, those of a full batch.
#[inline(always)]
pub(super) fn stamp(uses: &[Use<'_>], position: Position, returns: Returns) -> u64 {
    let mut late = 0;
    for (index, access) in uses.iter().enumerate() {
        let read = matches!(returns, Returns::SourcesRead | Returns::Staged);
        if read && !access.mode.writes() {
            continue;
        }
        if !access.track.stamp(&access.range, access.mode, position) {
            late |= 1 << index;
        }
    }
    late
}

/// Stamps what is left when no lane is locked.
#[inline]
pub(super) fn stamp_late(uses: &[Use<'_>], position: Position, late: u64, left_out: &[Position]) {
    if late == 0 && left_out.is_empty() {
        return;
    }
    for (index, access) in uses.iter().enumerate() {
        if !left_out.is_empty() {
            access.track.leave_out(left_out);
        }
        if late & 1 << index != 0 {
            access.track.stamp_ranged(&access.range, access.mode, position);
        }
    }
}

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

    /// Enqueues one operation: waits for what `uses` needs of other lanes, runs `run` on the
    /// stream, and stamps the memory. A failed operation leaves no stamp.
    #[inline]
    pub(crate) fn enqueue<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle) -> Result<R>,
    ) -> Result<(Position, R)> {
        self.enqueue_at(spec, uses, |driver, stream, _| run(driver, stream))
    }

    /// Like [`LaneRef::enqueue`], for what has to know its position.
    #[inline]
    pub(crate) fn enqueue_at<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<(Position, R)> {
        callback::refuse(spec.label)?;
        self.driver().pause();
        let alone = self.alone(spec, uses)?;
        if let Some(crossed) = alone {
            let mut state = self.lane().lock();
            if state.is_plain(&self.lane.done) {
                let result = match self.call(&state, uses, run) {
                    Ok(result) => result,
                    Err(error) => {
                        drop(state);
                        return Err(self.universe.failed(self.device, error));
                    }
                };
                let position = self.count(&mut state);
                state.last_shared = crossed;
                let late = stamp(uses, position, spec.returns);
                drop(state);
                stamp_late(uses, position, late, &[]);
                return Ok((position, result));
            }
        }
        self.enqueue_among(spec, uses, alone, run)
            .map_err(|error| self.universe.failed(self.device, error))
    }

    /// Whether an operation needs nothing of other lanes and nothing after it; then, whether two
    /// lanes use any of its memory.
    #[inline(always)]
    fn alone(&self, spec: &Spec, uses: &[Use<'_>]) -> Result<Option<bool>> {
        if self.legacy.is_some() || spec.call == Call::MayWait || spec.kind == OpKind::Free {
            return Ok(None);
        }
        let (mut crossed, mut foreign) = (false, false);
        for access in uses {
            let track = access.track;
            self.universe.own(spec.label, track.universe)?;
            if track.is_manual() {
                continue;
            }
            track.each_user(&access.range, access.mode, |user| foreign |= user.lane != self.id);
            if foreign {
                return Ok(None);
            }
            crossed |= track.crossed_by(self.id);
        }
        Ok(Some(crossed))
    }

    /// Calls the driver, under the lock of the lane.
    #[inline(always)]
    fn call<R>(
        &self,
        state: &State,
        uses: &[Use<'_>],
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<R> {
        let position = Position { lane: self.id, seq: state.seq + 1 };
        run(self.driver(), self.stream, position).inspect_err(|_| {
            if mutant::on(6, "a refused operation leaves its stamp") {
                stamp(uses, position, Returns::AtOnce);
            }
        })
    }

    /// Gives the operation that has been enqueued its number.
    #[inline(always)]
    pub(super) fn count(&self, state: &mut State) -> Position {
        state.seq += 1;
        state.used = true;
        let position = Position { lane: self.id, seq: state.seq };
        if !mutant::on(5, "a lane does not know its own operations") {
            state.vector.raise(position);
        }
        state.learn_of_thread(self.universe.id);
        position
    }

    /// Enqueues an operation with everything that it may need around it. `alone` is whether two lanes
    /// use any of its memory, if it needs nothing of other lanes.
    #[inline(never)]
    fn enqueue_among<R>(
        &self,
        spec: &Spec,
        uses: &[Use<'_>],
        alone: Option<bool>,
        run: impl FnOnce(&dyn Driver, StreamHandle, Position) -> Result<R>,
    ) -> Result<(Position, R)> {
        let mut needs = Needs::new();
        let crossed = match alone {
            Some(crossed) => crossed,
            None => self.needs(spec, uses, &mut needs)?,
        };
        // Blocking lanes and the legacy one are in order without waits of ours.
        let turn = match &self.legacy {
            Some(legacy) => Some(self.take_turn(legacy, spec.label)?),
            None => None,
        };
        let mut marks = Marks::new();
        if !needs.is_empty() {
            self.marks(turn.as_ref(), &mut needs, &mut marks)?;
        }
        let mut state = self.lane().lock();
        let mut aside = Aside::default();
        self.before(&mut state, spec, (&needs, &marks), &mut aside)?;
        if spec.call == Call::MayWait || state.may_be_full(&self.lane.done) {
            return self.enqueue_waiting((spec, uses, crossed), (turn, state), &aside, run);
        }
        let result = self.call(&state, uses, run);
        self.enqueued(&aside);
        let result = result?;
        // It is enqueued: whatever fails from here on, the memory is stamped.
        let position = self.count(&mut state);
        // An allocation gives memory at once and may leave nothing in the stream that could wait.
        let turn = turn.as_ref().filter(|_| !matches!(spec.kind, OpKind::Alloc));
        if let Some(turn) = turn {
            turn.teach(&mut state);
        }
        state.last_shared = crossed;
        self.after(&mut state, spec, uses, position, &aside);
        if let Some(turn) = turn {
            turn.hold_back(&state.vector);
        }
        let late = stamp(uses, position, spec.returns);
        drop(state);
        stamp_late(uses, position, late, &aside.left_out);
        Ok((position, result))
    }

    #[inline(never)]
    pub(super) fn take_turn<'a>(
        &self,
        legacy: &'a LegacyOrder,
        op: &'static str,
    ) -> Result<Turn<'a>> {
        legacy.own(op)?;
        Ok(legacy.turn(self))
    }

    /// Adds the foreign positions that an operation must come after, as far as the calling thread
    /// does not know them to be complete; whether two lanes use any of its memory.
    #[inline]
    fn needs(&self, spec: &Spec, uses: &[Use<'_>], needs: &mut Needs) -> Result<bool> {
        let mut crossed = false;
        let implied = |p: Position| p.lane == self.id;
        for access in uses {
            let track = access.track;
            self.universe.own(spec.label, track.universe)?;
            if track.is_manual() {
                continue;
            }
            track.users(&access.range, access.mode, implied, needs);
            // What is complete at the return of its call needs no record.
            if spec.returns != Returns::Done {
                crossed |= track.crossed_by(self.id);
            }
        }
        if matches!(spec.kind, OpKind::Free) && !mutant::on(7, "a free waits like any other access")
        {
            // A free comes after every user, whoever orders the memory (law A22), and after
            // those that a later one did not wait for.
            for access in uses {
                access.track.all_users(&access.range, access.mode, implied, needs);
            }
        }
        if !needs.is_empty() {
            thread::with_known(self.universe.id, |known| needs.retain(|p| !known.covers(*p)));
        }
        Ok(crossed)
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
