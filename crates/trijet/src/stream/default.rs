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

use super::lane::LaneRef;
use super::thread;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::LaneId;
use crate::base::mutant;
use crate::device::driver::{StreamHandle, StreamKind};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Which stream a lane stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Made by the driver on request.
    Created(StreamKind),
    Legacy,
    PerThread,
}

/// The lanes of one device that the legacy stream waits for, and what it holds back.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    members: Vec<LaneId>,
    barrier: VectorClock,
    version: u64,
}

/// A lane's part in the order around the legacy stream. Non-blocking lanes have none.
#[derive(Debug, Clone)]
pub(crate) struct LegacyOrder {
    pub(crate) origin: Origin,
    pub(crate) around: Arc<RwLock<Blocking>>,
    /// The only thread that may enqueue, for a per-thread stream.
    thread: Option<u64>,
}

/// Held while a call is made, so that the order of calls is the driver's.
pub(crate) enum Turn<'a> {
    Member { _around: RwLockReadGuard<'a, Blocking> },
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

    pub(crate) fn leave(&self, lane: LaneId) {
        let mut around = self.around.write().unwrap_or_else(PoisonError::into_inner);
        around.members.retain(|member| *member != lane);
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
        let around = self.around.read().unwrap_or_else(PoisonError::into_inner);
        if mutant::on(22, "a blocking stream does not see the barrier") {
            return Turn::Member { _around: around };
        }
        lane.universe.lane(lane.id).see_barrier(around.version, &around.barrier);
        Turn::Member { _around: around }
    }
}

impl Turn<'_> {
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
    driver: &dyn crate::device::driver::Driver,
    device: crate::base::id::DeviceId,
    origin: Origin,
    priority: i32,
) -> Result<StreamHandle> {
    match origin {
        Origin::Created(kind) => driver.stream_create(device, kind, priority),
        Origin::Legacy => driver.stream_legacy(device),
        Origin::PerThread => driver.stream_per_thread(device),
    }
}
