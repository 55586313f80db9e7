//! A lane: the sequence numbers, the vector and the checkpoints of a stream.
//!
//! The lock of a lane covers the last number, the vector and the checkpoints. The lock is held
//! while the waits of an operation, the operation itself and its record are enqueued, and while the
//! operation gets its number. So the order of the numbers is the order of the driver's calls. While
//! the lock is held, no code of the user runs, and no lock of an allocation or of a second lane is
//! taken.
//!
//! *Calls that wait* (laws A17, A18, A41) are made without the lock, so that they do not hold up
//! other threads. The operation of such a call gets its number when the call has returned, and
//! follows the positions that the vector included before the call. The library claims no order
//! between this operation and the operations that other threads enqueue during the call, in this
//! lane or in another one: see `blocking_call`.
//!
//! *Tenancies.* A lane serves one stream after another, and its numbers continue. Numbers up to
//! `State::base` belong to earlier streams. One mark, recorded at the end of the last earlier
//! stream, stands for all of these numbers. An event on the present stream does not stand for them.
//!
//! *Exact waits without an event for each operation.* If two lanes use the memory of an operation,
//! an event is recorded after the operation. The record is made just before the next operation of
//! the same lane is enqueued. A consumer that needs the event earlier makes the record itself. A
//! program on one lane records nothing.
//!
//! *Host functions* may wait for the program. So an event is recorded in a lane before a host
//! function is enqueued there, and before the lane waits for a host function: a consumer of the
//! earlier work must not follow the host function (S5). Marks name the host functions that they
//! stand for. The driver is not asked which host functions are complete, because the answer depends
//! on timing.
#![forbid(unsafe_code)]

use super::gate::{Gate, GateStream};
use super::mark::Mark;
use crate::base::atomic::Watermark;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{Asked, Op, StreamClass, StreamMark};
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

/// Maximum number of streams that are in use at once.
pub(crate) const LANES_MAX: u32 = 1024;
/// Maximum number of checkpoints per lane. The oldest checkpoint also stands for the checkpoints
/// that were dropped.
const CHECKPOINTS_MAX: usize = 64;
/// Maximum number of checkpoints of a lane while the oldest checkpoint is held. A checkpoint is
/// held while a host function after the checkpoint may be pending. A stream has no room for more
/// operations than this number (law A41).
const CHECKPOINTS_HELD_MAX: usize = 1024;

/// If more operations than this number may be pending in a stream, the next call counts as a call
/// that may wait for room. About 1024 operations of the driver fit (law A41), and an operation of
/// the library usually comes with up to two more: a wait and a record.
pub(super) const PENDING_MAX: u64 = 512;

/// A lane of a domain.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    state: Mutex<State>,
    /// The last operation that a thread, or a query by the library, has found to be complete. The
    /// library uses this number to decide whether memory and lanes can be reused, and whether the
    /// stream has room. The library leaves out no wait because of this number: the waits would then
    /// depend on timing.
    pub(crate) done: Watermark,
}

/// The start and the site of a call of the program, for the ledger entry about the call.
#[derive(Debug, Clone, Copy)]
pub(super) struct NotedCall {
    /// The time at which the call began; `None` if no tracer of the lane takes times.
    pub(super) begin: Option<Reading>,
    pub(super) site: &'static Location<'static>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The stream that has the lane. `None` before the first stream, and after the stream was
    /// dropped.
    pub(super) stream: Option<GateStream>,
    /// The reason why the end of a dropped stream was not recorded.
    pub(super) end_error: Option<Error>,
    device: Option<DeviceId>,
    /// The only thread that may enqueue or record in a per-thread stream; `None` for other streams.
    /// To the driver, the handle of a per-thread stream means the stream of the thread that calls.
    owner: Option<u64>,
    /// The number of streams that have opened the lane.
    tenancy: u64,
    /// The last sequence number of the earlier tenancies.
    pub(super) base: u64,
    /// The mark that stands for all work of the earlier tenancies.
    pub(super) earlier: Option<Arc<Mark>>,
    /// Whether an operation or a wait was enqueued in the present stream.
    pub(super) used: bool,
    /// The sequence number of the last operation.
    pub(super) seq: u64,
    /// The positions that precede the next operation.
    pub(super) vector: VectorClock,
    pub(super) checkpoints: VecDeque<Arc<Mark>>,
    /// For each lane, the last operation that precedes the next operation of this lane and may wait
    /// for the program: a host function, or the first operation after a wait for an event of other
    /// code.
    pub(super) host_fns: VectorClock,
    /// Sequence numbers of checkpoints. After each of these checkpoints, the lane got an operation
    /// that may wait for the program, or a wait for such an operation.
    held: VecDeque<u64>,
    /// The sequence number of the last host function without memory, if only host functions without
    /// memory came after the last checkpoint. No wait needs an event after these host functions.
    unused: u64,
    /// Whether a wait for an event of other code came after the last checkpoint. Vectors do not
    /// show such a wait.
    pub(super) has_unknown_wait: bool,
    /// Marks that are used again when no other `Arc` of the mark exists. The event of the mark is
    /// then recorded again.
    spare: Vec<Arc<Mark>>,
    /// Whether the last operation used memory that two lanes use.
    pub(super) last_shared: bool,
    /// The sequence number of the last launch, if no wait came after it.
    behind_kernel: Option<u64>,
    /// The timed event at the end of the last operation, if nothing was enqueued after this event.
    pub(super) last_end: Option<Arc<Instant>>,
    /// Timed events that can be recorded next.
    pub(super) instants: Vec<Arc<Instant>>,
    pub(super) records: Records,
    pub(super) class: StreamClass,
    /// The version of the thread vector that `vector` includes. The thread is the one that made the
    /// last call.
    thread_version: u64,
    /// The version of the legacy stream's barrier that the vector includes.
    pub(super) barrier_seen: u64,
    /// The tracers of this lane. Usually there are none.
    pub(super) tracers: SmallVec<[AtLane; 1]>,
}

/// When events are recorded for other lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Records {
    /// When another lane needs an event.
    #[default]
    OnDemand,
    /// After each operation, because no other thread can record this stream.
    AtOnce,
}

/// The properties of a new tenancy of a lane.
pub(crate) struct Opening<'a> {
    pub(crate) id: LaneId,
    pub(crate) stream: GateStream,
    pub(crate) class: StreamClass,
    pub(crate) records: Records,
    /// The thread of a per-thread stream.
    pub(crate) owner: Option<u64>,
    /// The mark of the end of the previous stream. Its event is complete.
    pub(crate) end: Option<&'a Arc<Mark>>,
    /// The positions that the calling thread knows to be complete. They precede everything in the
    /// stream.
    pub(crate) known: &'a VectorClock,
}

impl Lane {
    /// Assigns the lane to a new stream. Returns the tenancy. `begin` is called with the tracers of
    /// the lane and the number at which the stream begins. No tracer is attached or detached during
    /// `begin`.
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
        // The work of the previous stream is complete, and the numbers of the lane continue.
        vector.raise(Position { lane: opening.id, seq });
        let all = tracers.all();
        begin(&all, seq);
        // Checkpoints are dropped: `earlier` stands for the previous streams.
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

    /// Adds the vector of the lane to `clock`, if the lane still has the tenancy `tenancy`. Returns
    /// whether the lane has this tenancy.
    pub(crate) fn add_vector(&self, tenancy: u64, clock: &mut VectorClock) -> bool {
        let state = self.lock();
        if state.tenancy == tenancy {
            clock.join(&state.vector);
        }
        state.tenancy == tenancy
    }

    /// Adds the vector to `clock`, if the stream of the lane is on this device. Pending work of a
    /// dropped stream is work of the device like any other (law A12).
    pub(crate) fn add_known(&self, device: DeviceId, clock: &mut VectorClock) {
        let state = self.lock();
        if state.device == Some(device) {
            clock.join(&state.vector);
        }
    }

    /// Whether everything that the lane enqueues from now on comes after all of `positions`.
    pub(crate) fn covers(&self, positions: &[Position]) -> bool {
        let state = self.lock();
        positions.iter().all(|position| state.vector.covers(*position))
    }

    /// Calls `look` with the positions that precede everything that the lane enqueues from now on.
    pub(crate) fn with_vector<R>(&self, look: impl FnOnce(&VectorClock) -> R) -> R {
        look(&self.lock().vector)
    }

    /// The mark of the oldest event that was recorded after the operation `seq`; `None` if there is
    /// no such event.
    pub(crate) fn recorded_mark(&self, seq: u64) -> Option<Arc<Mark>> {
        self.lock().mark_of(seq).cloned()
    }

    /// The device of the stream that has the lane or had it last; `None` if there was no stream.
    pub(crate) fn device(&self) -> Option<DeviceId> {
        self.lock().device
    }

    /// Adds a tracer, unless the lane already has the tracer: a stream that has just been opened
    /// may have added it.
    pub(crate) fn attach(&self, tracer: &Arc<Tracer>) {
        let mut state = self.lock();
        if !state.tracers.iter().any(|other| other.is(tracer)) {
            state.tracers.push(AtLane::new(Arc::clone(tracer)));
        }
    }

    pub(crate) fn detach(&self, tracer: &Arc<Tracer>) {
        self.lock().tracers.retain(|other| !other.is(tracer));
    }

    /// Notes that everything enqueued from now on follows `clock`.
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
        let Some(stream) = self.stream else { return Err(self.stream_dropped()) };
        if self.owner.is_some_and(|owner| owner != thread::number()) {
            return self.unrecorded();
        }
        let (log, device) = (&gate.log, stream.device);
        while self.checkpoints.len() >= CHECKPOINTS_MAX && !self.holds_oldest(log.domain, lane) {
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
                host_fns: VectorClock::new(),
                position: Position { lane, seq: 0 },
            }),
        };
        let position = Position { lane, seq: self.seq };
        gate.record(stream, mark.event)?;
        self.learn_of_thread(log.domain);
        if let Some(mark) = Arc::get_mut(&mut mark) {
            mark.snapshot.copy_from(&self.vector);
            mark.host_fns.copy_from(&self.host_fns);
            mark.position = position;
        }
        gate.records.fetch_add(1, Ordering::Relaxed);
        let kind = StreamMark::Record { event: mark.event.0, by: Asked::Ordering };
        let class = self.class;
        self.note(|| plain(kind, device, class, log.domain, position));
        self.checkpoints.push_back(Arc::clone(&mark));
        self.has_unknown_wait = false;
        Ok(mark)
    }

    /// Records an event for the work of the lane so far, unless there is one. The next operation
    /// may wait for the program. A consumer of the earlier work must not have to wait for the
    /// program (S5).
    pub(super) fn record_before_host(&mut self, gate: &Gate, lane: LaneId) -> Result<()> {
        if self.recorded().max(self.base).max(self.unused) < self.seq {
            self.record(gate, lane)?;
        }
        let last = self.recorded();
        if last > self.base && self.held.back() != Some(&last) {
            self.held.push_back(last);
        }
        Ok(())
    }

    /// Prepares the lane for a wait for an event that comes after `host_fns`. If at least one of
    /// these host functions is new to the lane, first records an event for the earlier work of the
    /// lane. So a consumer of that work does not wait for the host function.
    pub(super) fn follow_host(
        &mut self,
        gate: &Gate,
        lane: LaneId,
        host_fns: &VectorClock,
    ) -> Result<()> {
        if host_fns.positions().any(|place| !self.vector.covers(place)) {
            self.record_before_host(gate, lane)?;
        }
        self.host_fns.join(host_fns);
        Ok(())
    }

    /// Notes that the last operation is a host function. No wait needs an event of a host function
    /// without memory.
    pub(super) fn note_host_fn(&mut self, position: Position, has_memory: bool) {
        self.host_fns.raise(position);
        if !has_memory && self.recorded().max(self.base).max(self.unused) + 1 == self.seq {
            self.unused = self.seq;
        }
    }

    /// Whether the oldest checkpoint stays. It stays if the operation after it may wait for the
    /// program and is not known to the calling thread to be complete.
    fn holds_oldest(&mut self, domain: u64, lane: LaneId) -> bool {
        let Some(oldest) = self.checkpoints.front().map(|mark| mark.position.seq) else {
            return false;
        };
        if self.held.front() != Some(&oldest) {
            return false;
        }
        let next = Position { lane, seq: oldest + 1 };
        let is_known = thread::with_known(domain, |known| known.covers(next));
        let stays = !is_known && self.checkpoints.len() < CHECKPOINTS_HELD_MAX;
        if !stays {
            self.held.pop_front();
        }
        stays
    }

    /// The error of a call that needs a record of a dropped stream.
    #[cold]
    fn stream_dropped(&self) -> Error {
        let cause = match &self.end_error {
            Some(culprit) if culprit.is_loss() => return culprit.again(),
            Some(refused) => {
                format!("the stream was dropped, and the record of its end was refused: {refused}")
            }
            None => "the stream was dropped without a record of its end".to_owned(),
        };
        let error = Error::new(ErrorKind::Closed, "event record", cause);
        match self.device {
            Some(device) => error.on(device),
            None => error,
        }
    }

    /// The error of a call that needs an event after an operation of a per-thread stream, if the
    /// record of this event was refused.
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

    /// Notes that the last operation is a launch. An operation of another kind needs no note,
    /// because its number differs from the noted number.
    #[inline(always)]
    pub(super) fn note_launch(&mut self) {
        self.behind_kernel = Some(self.seq);
    }

    /// Notes that a wait was enqueued.
    pub(super) fn note_awaited(&mut self) {
        self.behind_kernel = None;
    }

    /// Whether the next operation comes directly after a launch.
    pub(super) fn is_behind_kernel(&self) -> bool {
        self.behind_kernel.is_some_and(|launch| launch == self.seq)
    }

    /// Adds to the vector the positions that the calling thread knows to be complete. They precede
    /// the next operation of the thread (law A2), and so all later operations of the lane.
    #[inline]
    pub(super) fn learn_of_thread(&mut self, domain: u64) {
        if self.thread_version != thread::version() {
            self.join_thread(domain);
        }
    }

    #[inline(never)]
    fn join_thread(&mut self, domain: u64) {
        self.thread_version = thread::version();
        thread::with_known(domain, |known| self.vector.join(known));
    }

    /// Whether the next operation needs no record, entry or timed event before or after it. The
    /// operation may need waits.
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

    /// The stream, if it is open and the calling thread can query it.
    pub(super) fn open_stream(&self) -> Option<GateStream> {
        self.stream.filter(|_| self.owner.is_none_or(|owner| owner == thread::number()))
    }

    /// The oldest mark that stands for `seq`, if there is one.
    pub(super) fn mark_of(&self, seq: u64) -> Option<&Arc<Mark>> {
        if seq <= self.base {
            return self.earlier.as_ref();
        }
        let index = self.checkpoints.partition_point(|mark| mark.position.seq < seq);
        self.checkpoints.get(index)
    }

    /// The sequence number of the last operation before the last checkpoint; 0 without a
    /// checkpoint.
    pub(super) fn recorded(&self) -> u64 {
        self.checkpoints.back().map_or(0, |mark| mark.position.seq)
    }

    /// Whether any tracer of this lane takes times.
    fn is_timed(&self) -> bool {
        self.tracers.iter().any(|tracer| tracer.is_timed())
    }

    /// The current time of the host; `None` if no tracer of this lane takes times.
    pub(super) fn called(&self, driver: &dyn Driver) -> Option<Reading> {
        self.is_timed().then(|| Reading::now(driver))
    }

    /// Passes an entry about a call of the program to the tracers of this lane.
    pub(super) fn note_called(&self, driver: &dyn Driver, called: NotedCall, op: impl Fn() -> Op) {
        let span = called.begin.map(|begin| (begin, Reading::now(driver)));
        for tracer in &self.tracers {
            let call = span.and_then(|span| tracer.call(span));
            tracer.ledger.append(Op { call, site: Some(called.site.into()), ..op() });
        }
    }

    /// Passes an entry to the tracers of this lane.
    pub(super) fn note(&self, op: impl Fn() -> Op) {
        for tracer in &self.tracers {
            tracer.ledger.append(op());
        }
    }
}
