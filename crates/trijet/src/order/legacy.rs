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

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::StreamClass;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Driver, StreamHandle, StreamKind};
use crate::log::thread;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A blocking lane, and which of its streams: a lane that passed to another stream is no member any
/// more. Until then the legacy stream waits for what is pending in it, whether its stream is still
/// there or not.
type Member = (LaneId, u64);

/// The lanes of one device that the legacy stream waits for, and what it holds back.
#[derive(Debug, Default)]
pub(crate) struct Blocking {
    /// An operation of the legacy stream excludes those of blocking streams while it is enqueued.
    /// Not held while a call may wait.
    turn: RwLock<()>,
    /// Never locked across a call of the driver.
    order: Mutex<Order>,
}

#[derive(Debug, Default)]
struct Order {
    members: Vec<Member>,
    barrier: VectorClock,
    version: u64,
}

/// What the legacy stream held back at some moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Barrier {
    clock: VectorClock,
    version: u64,
}

/// A lane's part in the order around the legacy stream. Non-blocking lanes have none.
#[derive(Debug, Clone)]
pub(crate) struct LegacyOrder {
    class: StreamClass,
    blocking: Arc<Blocking>,
    /// The only thread that may enqueue, for a per-thread stream.
    thread: Option<u64>,
}

/// Held while a call is made that does not wait, so that the order of calls is the driver's. It may
/// end before a call that waits: then its place among those of other streams is open, and nothing is
/// claimed of it.
pub(crate) struct Turn<'a> {
    legacy: &'a LegacyOrder,
    held: Held<'a>,
}

enum Held<'a> {
    Member { _guard: RwLockReadGuard<'a, ()> },
    Legacy { _guard: RwLockWriteGuard<'a, ()> },
}

impl Blocking {
    fn order(&self) -> MutexGuard<'_, Order> {
        self.order.lock().expect("no panic under this lock")
    }
}

impl LegacyOrder {
    pub(crate) fn new(class: StreamClass, blocking: &Arc<Blocking>) -> Option<Self> {
        if class == StreamClass::NonBlocking {
            return None;
        }
        let thread = (class == StreamClass::PerThread).then(thread::number);
        Some(Self { class, blocking: Arc::clone(blocking), thread })
    }

    pub(crate) fn class(&self) -> StreamClass {
        self.class
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

    /// The stream that opened `lane` as its `tenancy`-th is one of the blocking ones.
    pub(crate) fn join(&self, lane: LaneId, tenancy: u64) {
        let mut order = self.blocking.order();
        if self.class != StreamClass::Legacy && !order.members.contains(&(lane, tenancy)) {
            order.members.push((lane, tenancy));
        }
    }

    /// Takes the lane's turn, which teaches it nothing.
    pub(crate) fn bare_turn(&self) -> Turn<'_> {
        let turn = &self.blocking.turn;
        let held = if self.class == StreamClass::Legacy {
            Held::Legacy { _guard: turn.write().unwrap_or_else(PoisonError::into_inner) }
        } else {
            Held::Member { _guard: turn.read().unwrap_or_else(PoisonError::into_inner) }
        };
        Turn { legacy: self, held }
    }

    /// Law A13: everything that comes before an operation of the legacy stream. `add_vector` adds what
    /// a blocking lane knows, and says whether its stream still has the lane. Called with the turn of
    /// the legacy stream.
    pub(super) fn before(
        &self,
        add_vector: impl Fn(LaneId, u64, &mut VectorClock) -> bool,
    ) -> VectorClock {
        let mut knows = VectorClock::new();
        // Out of the lock: a lane's lock comes before this one elsewhere.
        let mut members = std::mem::take(&mut self.blocking.order().members);
        members.retain(|(member, tenancy)| add_vector(*member, *tenancy, &mut knows));
        let mut order = self.blocking.order();
        members.retain(|member| !order.members.contains(member));
        order.members.append(&mut members);
        knows
    }
}

impl Turn<'_> {
    /// Whether an operation that is enqueued now comes after `position` by the legacy stream's
    /// rules. A record or a synchronisation does not: what it stands for is what the stream was
    /// given, and the barrier is none of that (laws A4 and A9).
    pub(crate) fn implies(&self, position: Position) -> bool {
        match self.held {
            Held::Member { .. } => self.legacy.blocking.order().barrier.covers(position),
            Held::Legacy { .. } => false,
        }
    }

    /// What an operation that is enqueued now comes after by the legacy stream's rules.
    pub(crate) fn barrier(&self) -> Barrier {
        match self.held {
            Held::Member { .. } => {
                let order = self.legacy.blocking.order();
                Barrier { clock: order.barrier.clone(), version: order.version }
            }
            Held::Legacy { .. } => Barrier::default(),
        }
    }

    /// Whether the turn is that of the legacy stream.
    pub(super) fn is_legacy(&self) -> bool {
        matches!(self.held, Held::Legacy { .. })
    }

    /// An operation was enqueued: the operations after it in its lane come after the barrier. `seen` is
    /// the version of the barrier that `vector` includes.
    pub(super) fn teach(&self, vector: &mut VectorClock, seen: &mut u64) {
        if !self.is_legacy() {
            let order = self.legacy.blocking.order();
            if *seen != order.version {
                vector.join(&order.barrier);
                *seen = order.version;
            }
        }
    }

    /// The legacy stream was given something that comes after `legacy`: blocking streams come after
    /// it from now on.
    pub(crate) fn hold_back(&self, legacy: &VectorClock) {
        if let Held::Legacy { .. } = self.held {
            let mut order = self.legacy.blocking.order();
            order.barrier.join(legacy);
            order.version += 1;
        }
    }
}

impl Barrier {
    /// An operation was enqueued when this barrier stood; there may be a later one by now.
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

/// Creates a stream of this class, or opens the default stream that is one.
pub(crate) fn open(
    driver: &dyn Driver,
    device: DeviceId,
    class: StreamClass,
    priority: i32,
) -> Result<StreamHandle> {
    match class {
        StreamClass::Blocking => driver.stream_create(device, StreamKind::Blocking, priority),
        StreamClass::NonBlocking => driver.stream_create(device, StreamKind::NonBlocking, priority),
        StreamClass::Legacy => driver.stream_legacy(device),
        StreamClass::PerThread => driver.stream_per_thread(device),
    }
}
