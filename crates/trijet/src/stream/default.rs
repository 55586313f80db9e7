//! Streams that wait for the legacy default stream, and that stream itself (laws A13 to A15).
//!
//! Whatever is enqueued in the legacy stream comes after everything that the blocking streams of
//! its device have been given, and before all that they are given later. The driver keeps this
//! order; here it becomes knowledge, so that no wait is inserted for it. An operation of the legacy
//! stream excludes those of blocking streams while it is enqueued, so that its place among them is
//! the same for the driver and for us.
//!
//! The per-thread default stream is a blocking stream of the thread that asked for it. The driver
//! takes its handle for the stream of whichever thread uses it, so only that thread may, and what
//! other streams wait for is recorded at once.
#![forbid(unsafe_code)]

use super::lane::{LaneRef, State};
use super::thread;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::base::mutant;
use crate::device::driver::{Driver, StreamHandle, StreamKind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Which stream a lane stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made by the driver on request.
    Created(StreamKind),
    Legacy,
    PerThread,
}

impl Origin {
    pub(crate) fn class(self) -> StreamClass {
        match self {
            Self::Created(StreamKind::NonBlocking) => StreamClass::NonBlocking,
            Self::Created(StreamKind::Blocking) => StreamClass::Blocking,
            Self::Legacy => StreamClass::Legacy,
            Self::PerThread => StreamClass::PerThread,
        }
    }
}

/// The lanes of one device that the legacy stream waits for, and what it holds back.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    members: Vec<LaneId>,
    barrier: VectorClock,
    version: u64,
}

impl Blocking {
    /// The lane passes to another stream. Until then the legacy stream waits for what is pending
    /// in it, whether its stream is still there or not.
    pub(crate) fn leave(&mut self, lane: LaneId) {
        self.members.retain(|member| *member != lane);
    }
}

/// A lane's part in the order around the legacy stream. Non-blocking lanes have none.
#[derive(Debug, Clone)]
pub(crate) struct LegacyOrder {
    pub(crate) origin: Origin,
    around: Arc<RwLock<Blocking>>,
    /// The only thread that may enqueue, for a per-thread stream.
    thread: Option<u64>,
}

/// Held while a call is made, so that the order of calls is the driver's.
pub(crate) enum Turn<'a> {
    Member { around: RwLockReadGuard<'a, Blocking> },
    Legacy(RwLockWriteGuard<'a, Blocking>),
}

impl LegacyOrder {
    pub(crate) fn new(origin: Origin, around: &Arc<RwLock<Blocking>>) -> Option<Self> {
        if origin == Origin::Created(StreamKind::NonBlocking) {
            return None;
        }
        let thread = (origin == Origin::PerThread).then(thread::number);
        Some(Self { origin, around: Arc::clone(around), thread })
    }

    pub(crate) fn class(&self) -> StreamClass {
        self.origin.class()
    }

    /// The thread whose default stream it is.
    pub(crate) fn thread(&self) -> Option<u64> {
        self.thread
    }

    /// Refuses a call of another thread than the stream's.
    pub(crate) fn own(&self, op: &'static str) -> Result<()> {
        if self.thread.is_none_or(|thread| thread == thread::number()) {
            return Ok(());
        }
        let cause = "a per-thread default stream is used by another thread than its own";
        Err(Error::new(ErrorKind::InvalidValue, op, cause))
    }

    /// Whether the calling thread may use the stream.
    pub(crate) fn is_own(&self) -> bool {
        self.own("").is_ok()
    }

    pub(crate) fn join(&self, lane: LaneId) {
        let mut around = self.around.write().unwrap_or_else(PoisonError::into_inner);
        if self.origin != Origin::Legacy && !around.members.contains(&lane) {
            around.members.push(lane);
        }
    }

    /// Law A13: takes the lane's turn and lets it know what comes before it.
    pub(crate) fn turn(&self, lane: &LaneRef) -> Turn<'_> {
        if self.origin == Origin::Legacy {
            let around = self.around.write().unwrap_or_else(PoisonError::into_inner);
            for member in &around.members {
                let knows = lane.universe.lane(*member).vector();
                if !mutant::on(21, "the legacy stream learns nothing of the blocking ones") {
                    lane.universe.lane(lane.id).learn(&knows);
                }
            }
            return Turn::Legacy(around);
        }
        Turn::Member { around: self.around.read().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Turn<'_> {
    /// Whether an operation that is enqueued now comes after `position` by the legacy stream's
    /// rules. A record or a synchronisation does not: what it stands for is what the stream was
    /// given, and the barrier is none of that (laws A4 and A9).
    pub(crate) fn implies(&self, position: Position) -> bool {
        match self {
            Self::Member { around } => around.barrier.covers(position),
            Self::Legacy(_) => false,
        }
    }

    /// What a record or a synchronisation of the stream stands for beside what the lane knows.
    pub(super) fn at_end(&self, state: &mut State) {
        if mutant::on(10, "the end of a blocking stream stands for the legacy stream") {
            self.teach(state);
        }
    }

    /// An operation was enqueued: what comes after it comes after the barrier.
    pub(super) fn teach(&self, state: &mut State) {
        if let Self::Member { around } = self
            && !mutant::on(22, "a blocking stream does not see the barrier")
            && state.barrier_seen != around.version
        {
            state.vector.join(&around.barrier);
            state.barrier_seen = around.version;
        }
    }

    /// The legacy stream was given something: blocking streams come after it from now on.
    pub(crate) fn hold_back(&mut self, legacy: &VectorClock) {
        if let Self::Legacy(around) = self {
            around.barrier.copy_from(legacy);
            around.version += u64::from(!mutant::on(23, "the legacy stream raises no barrier"));
        }
    }
}

/// The driver's stream for `origin`.
pub(crate) fn open(
    driver: &dyn Driver,
    device: DeviceId,
    origin: Origin,
    priority: i32,
) -> Result<StreamHandle> {
    match origin {
        Origin::Created(kind) => driver.stream_create(device, kind, priority),
        Origin::Legacy => driver.stream_legacy(device),
        Origin::PerThread => driver.stream_per_thread(device),
    }
}
