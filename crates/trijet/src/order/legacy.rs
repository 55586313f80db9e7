//! The order between the legacy default stream and the blocking streams (laws A13 to A15).
//!
//! An operation of the legacy stream follows all earlier work of the blocking streams of its
//! device. Every later operation of the blocking streams follows the operation of the legacy
//! stream. The driver keeps this order. The library adds the order to the lane vectors, so that it
//! inserts no waits for the same order. While an operation is being enqueued in the legacy stream,
//! no operation is enqueued in a blocking stream. So the driver and the library see these
//! operations in the same order.
//!
//! The per-thread default stream is a blocking stream of one thread. To the driver, the handle of
//! this stream means the stream of the calling thread. So only its own thread may use the stream.
//! An event is recorded directly after every operation, because no other thread can record an event
//! later.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Driver, StreamHandle, StreamKind};
use crate::device::thread_end;
use crate::log::thread;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A lane, and the tenancy in which a blocking stream has the lane. The legacy stream waits for the
/// pending work of this stream until another stream gets the lane, even after the stream was
/// dropped.
type BlockingMember = (LaneId, u64);

/// The lanes of one device for which the legacy stream waits, and the barrier of the legacy stream
/// for these lanes.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// Locked for writing while an operation is enqueued in the legacy stream, and for reading
    /// while an operation is enqueued in a blocking stream. Not locked during a call that may wait.
    turn: RwLock<()>,
    /// Never locked across a call of the driver.
    order: Mutex<BlockingOrder>,
}

#[derive(Debug, Default)]
struct BlockingOrder {
    members: Vec<BlockingMember>,
    /// Everything that later operations of the blocking streams follow because of the legacy
    /// stream.
    barrier: VectorClock,
    /// Counts the changes of the barrier.
    version: u64,
}

/// A copy of the barrier of the legacy stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    clock: VectorClock,
    version: u64,
}

/// How a lane takes part in the order with the legacy stream. Non-blocking lanes take no part, and
/// have no such value.
#[derive(Debug, Clone)]
pub(crate) struct LegacyOrder {
    class: StreamClass,
    blocking: Arc<Blocking>,
    /// The only thread that may enqueue, for a per-thread stream.
    thread: Option<u64>,
}

/// The lock that is held during a call, so that the library sees the calls in the driver's order.
/// The lock is released before a call that may wait. The order between such a call and the calls of
/// other streams is unknown, and the library claims no order.
pub(crate) struct Turn<'a> {
    legacy: &'a LegacyOrder,
    held: TurnGuard<'a>,
}

enum TurnGuard<'a> {
    Member { _guard: RwLockReadGuard<'a, ()> },
    Legacy { _guard: RwLockWriteGuard<'a, ()> },
}

impl Blocking {
    fn order(&self) -> MutexGuard<'_, BlockingOrder> {
        self.order.lock().expect("no thread panicked while it held this lock")
    }
}

impl LegacyOrder {
    pub(crate) fn new(class: StreamClass, blocking: &Arc<Blocking>) -> Option<Self> {
        let thread = match class {
            StreamClass::NonBlocking => return None,
            StreamClass::PerThread => Some(thread::number()),
            StreamClass::Legacy | StreamClass::Blocking => None,
        };
        Some(Self { class, blocking: Arc::clone(blocking), thread })
    }

    pub(crate) fn class(&self) -> StreamClass {
        self.class
    }

    /// The only thread that may enqueue in a per-thread stream; `None` for other streams.
    pub(crate) fn thread(&self) -> Option<u64> {
        self.thread
    }

    /// Refuses a call of another thread on a per-thread stream.
    pub(crate) fn demand_own_thread(&self, op: &'static str) -> Result<()> {
        if self.thread.is_none_or(|thread| thread == thread::number()) {
            return Ok(());
        }
        let cause = "only the thread of a per-thread default stream can use it";
        Err(Error::new(ErrorKind::InvalidValue, op, cause))
    }

    /// Whether the calling thread may use the stream.
    pub(crate) fn is_own_thread(&self) -> bool {
        self.demand_own_thread("").is_ok()
    }

    /// Adds the lane with this tenancy to the lanes for which the legacy stream waits. Does nothing
    /// for the lane of the legacy stream itself.
    pub(crate) fn join(&self, lane: LaneId, tenancy: u64) {
        let mut order = self.blocking.order();
        if self.class != StreamClass::Legacy && !order.members.contains(&(lane, tenancy)) {
            order.members.push((lane, tenancy));
        }
    }

    /// Takes the lane's turn, and changes no vector.
    pub(crate) fn bare_turn(&self) -> Turn<'_> {
        let turn = &self.blocking.turn;
        let held = if self.class == StreamClass::Legacy {
            TurnGuard::Legacy { _guard: turn.write().unwrap_or_else(PoisonError::into_inner) }
        } else {
            TurnGuard::Member { _guard: turn.read().unwrap_or_else(PoisonError::into_inner) }
        };
        Turn { legacy: self, held }
    }

    /// Everything that an operation of the legacy stream follows (law A13). `add_vector` adds the
    /// vector of a member, and returns whether its stream still has the lane. The caller holds the
    /// turn of the legacy stream.
    pub(super) fn before(
        &self,
        add_vector: impl Fn(LaneId, u64, &mut VectorClock) -> bool,
    ) -> VectorClock {
        let mut knows = VectorClock::new();
        // The lock of the order is not held here: `add_vector` takes the lock of a lane, and other
        // callers take the lock of the order while they hold the lock of a lane.
        let mut members = std::mem::take(&mut self.blocking.order().members);
        members.retain(|(member, tenancy)| add_vector(*member, *tenancy, &mut knows));
        let mut order = self.blocking.order();
        members.retain(|member| !order.members.contains(member));
        order.members.append(&mut members);
        knows
    }
}

impl Turn<'_> {
    /// Whether an operation that is enqueued now follows `position` because of the legacy stream. A
    /// record or a synchronization does not follow `position` for this reason. A record or a
    /// synchronization stands for the work in the stream, and the barrier is no part of that work
    /// (laws A4 and A9).
    pub(crate) fn implies(&self, position: Position) -> bool {
        match self.held {
            TurnGuard::Member { .. } => self.legacy.blocking.order().barrier.covers(position),
            TurnGuard::Legacy { .. } => false,
        }
    }

    /// The positions that an operation enqueued now follows because of the legacy stream.
    pub(crate) fn barrier(&self) -> Barrier {
        match self.held {
            TurnGuard::Member { .. } => {
                let order = self.legacy.blocking.order();
                Barrier { clock: order.barrier.clone(), version: order.version }
            }
            TurnGuard::Legacy { .. } => Barrier::default(),
        }
    }

    /// Whether the legacy stream has the turn.
    pub(super) fn is_legacy(&self) -> bool {
        matches!(self.held, TurnGuard::Legacy { .. })
    }

    /// Adds the barrier to the vector of a blocking lane in which an operation was enqueued. `seen`
    /// is the version of the barrier that `vector` includes.
    pub(super) fn teach(&self, vector: &mut VectorClock, seen: &mut u64) {
        if !self.is_legacy() {
            let order = self.legacy.blocking.order();
            if *seen != order.version {
                vector.join(&order.barrier);
                *seen = order.version;
            }
        }
    }

    /// Adds the vector of the legacy stream to the barrier, if this is the turn of the legacy
    /// stream. Later operations of blocking streams follow the barrier.
    pub(crate) fn hold_back(&self, legacy: &VectorClock) {
        if let TurnGuard::Legacy { .. } = self.held {
            let mut order = self.legacy.blocking.order();
            order.barrier.join(legacy);
            order.version += 1;
        }
    }
}

impl Barrier {
    /// Adds the barrier to `vector`, the vector of a lane with an operation that followed the
    /// barrier. Does nothing if `vector` already includes this version or a later version.
    pub(super) fn teach(&self, vector: &mut VectorClock, seen: &mut u64) {
        if self.version > *seen {
            vector.join(&self.clock);
            *seen = self.version;
        }
    }

    pub(super) fn clock(&self) -> &VectorClock {
        &self.clock
    }
}

/// Creates a stream of the class `class`. For a class of default streams, opens the default stream.
pub(crate) fn open(
    driver: &Arc<dyn Driver>,
    device: DeviceId,
    class: StreamClass,
    priority: i32,
) -> Result<StreamHandle> {
    match class {
        StreamClass::Blocking => driver.stream_create(device, StreamKind::Blocking, priority),
        StreamClass::NonBlocking => driver.stream_create(device, StreamKind::NonBlocking, priority),
        StreamClass::Legacy => driver.stream_legacy(device),
        StreamClass::PerThread => {
            let stream = driver.stream_per_thread(device)?;
            thread_end::wait_for(driver, stream);
            Ok(stream)
        }
    }
}
