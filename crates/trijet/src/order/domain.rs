//! A domain: all lanes of one loaded driver, over all devices of the driver. A wait may be for a
//! position of another device, so one table has the lanes of all devices.
#![forbid(unsafe_code)]

use super::calls::recorder::OF_A_RECORDING;
use super::gate::{Gate, GateStream};
use super::host::host_fn::HostFns;
use super::lane::{LANES_MAX, Lane, Opening, Records};
use super::legacy::{Blocking, LegacyOrder};
use super::mark::Mark;
use super::peers::Peers;
use super::track::Track;
use crate::base::atomic::Pick;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, LaneId, Position};
use crate::base::ledger::{HostStep, LedgerNote, StreamClass};
use crate::base::table::NumberTable;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{Driver, EventHandle, Readiness};
use crate::device::memory::Memory;
use crate::heap::Heap;
use crate::heap::slabs::Slabs;
use crate::log::entry::{Log, calls_in, plain};
use crate::log::instant::Instants;
use crate::log::tracers::{Attached, Tracers};
use crate::log::{calling, thread};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Counts of the waits and records that the library has inserted so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct OrderingCounts {
    /// Waits for another lane that were enqueued.
    pub waits: u64,
    /// Events that were recorded for waits of other lanes.
    pub records: u64,
    /// Waits for a later operation than necessary. The necessary operation has no event of its own,
    /// because no consumer was known when the operation was enqueued.
    pub over_waits: u64,
}

/// A wait that was left out on request, to show the errors that the wait prevents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedWait {
    /// The label of the operation that should have waited.
    pub waiter: &'static str,
    /// The chunk of that operation in a pipeline; `None` outside of pipelines.
    pub chunk: Option<u64>,
    /// The position of the operation that should have waited.
    pub position: Position,
    /// The position for which the operation should have waited.
    pub on: Position,
}

/// Number of lanes that are opened before queries decide which lanes are reused. While fewer lanes
/// are open, a stream gets a new lane. Only a lane whose last work is known to the calling thread
/// to be complete is reused.
const LANES_FIRST: u32 = 64;

/// A lane whose stream was dropped, with the mark of the end of the stream. `None` in place of the
/// mark if the stream had no work.
type Retired = (LaneId, Option<Arc<Mark>>);

/// A lane that no stream has.
pub(crate) struct Free {
    pub(crate) id: LaneId,
    /// The mark of the end of the last stream that had the lane; `None` if there was no work.
    end: Option<Arc<Mark>>,
}

/// The default streams. The key is the device and, for a per-thread stream, the thread. The value
/// is the lane, its tenancy and the number of handles.
type Defaults = BTreeMap<(DeviceId, Option<u64>), (LaneId, u64, u32)>;

/// All lanes of a driver.
pub(crate) struct Domain {
    pub(crate) gate: Arc<Gate>,
    pub(crate) host_fns: Arc<HostFns>,
    /// The lanes that have been opened so far. The table grows on demand, because an exploration
    /// opens a domain for every run.
    lanes: NumberTable<Arc<Lane>>,
    /// Lanes whose streams were dropped. A lane is free when the mark of its end is complete.
    retired: Mutex<Vec<Retired>>,
    /// The number of lanes that have been opened so far.
    fresh: Mutex<u32>,
    defaults: Mutex<Defaults>,
    /// For each device, the blocking lanes and the barrier of the legacy stream.
    legacy: Mutex<BTreeMap<DeviceId, Arc<Blocking>>>,
    /// Counts the waits between lanes, and selects the wait that is left out on request.
    waits: Pick,
    pub(crate) over_waits: AtomicU64,
    dropped: Mutex<Option<DroppedWait>>,
    /// Memory that belongs to no stream and has no owner now. It is kept for the next allocation,
    /// because freeing it may wait for the device. Operations may still use this memory; the
    /// `Track` names these operations.
    pub(crate) kept: Mutex<Vec<(Memory, Track)>>,
    /// Small blocks of page-locked memory.
    pub(crate) slabs: Slabs,
    /// The heap of each device. A heap stays when the last handle of its device is dropped, because
    /// operations may still use memory of the heap.
    heaps: Mutex<BTreeMap<DeviceId, Arc<Heap>>>,
    pub(crate) peers: Peers,
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Domain").field("driver", self.driver()).finish_non_exhaustive()
    }
}

#[cold]
fn of_another_driver(op: &'static str) -> Error {
    let cause = "an object belongs to another driver than the stream or device it is used with";
    Error::new(ErrorKind::InvalidValue, op, cause)
}

#[cold]
fn of_a_recording(op: &'static str) -> Error {
    let cause = "a buffer was allocated in a stream of a recording; only operations of its graph can use it";
    Error::new(ErrorKind::InvalidValue, op, cause)
}

impl Domain {
    pub(crate) fn new(driver: Arc<dyn Driver>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let tracers = Arc::<Tracers>::default();
        Arc::new(Self {
            host_fns: Arc::new(HostFns::new(&tracers)),
            gate: Arc::new(Gate::new(Log {
                domain: NEXT.fetch_add(1, Ordering::Relaxed),
                driver,
                tracers,
                instants: Instants::default(),
            })),
            lanes: NumberTable::default(),
            retired: Mutex::default(),
            fresh: Mutex::new(0),
            defaults: Mutex::default(),
            legacy: Mutex::default(),
            waits: Pick::default(),
            over_waits: AtomicU64::new(0),
            dropped: Mutex::default(),
            kept: Mutex::default(),
            slabs: Slabs::default(),
            heaps: Mutex::default(),
            peers: Peers::default(),
        })
    }

    /// The number of the domain, which no other domain of the process has.
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.gate.log.domain
    }

    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.gate.log.driver
    }

    #[inline]
    pub(crate) fn log(&self) -> &Log {
        &self.gate.log
    }

    /// The number of lanes that have been opened so far.
    pub(super) fn lane_count(&self) -> u32 {
        *self.fresh.lock().expect("no thread panicked while it held this lock")
    }

    /// Destroys an event of `device`.
    pub(crate) fn destroy_event(&self, event: EventHandle, device: DeviceId) -> Result<()> {
        self.log().tracers.note_gone(event, device);
        self.driver().event_destroy(event)
    }

    /// Refuses an object of another domain, because its positions and handles mean nothing in this
    /// domain.
    #[inline]
    pub(crate) fn own(&self, op: &'static str, domain: u64) -> Result<()> {
        match domain {
            _ if domain == self.id() => Ok(()),
            OF_A_RECORDING => Err(of_a_recording(op)),
            _ => Err(of_another_driver(op)),
        }
    }

    /// The lane with the number `id`, which has been opened.
    #[inline]
    pub(crate) fn lane(&self, id: LaneId) -> &Arc<Lane> {
        self.lanes.get(id.0 as usize).expect("`free_lane` opens a lane before it gives its number")
    }

    /// Gives a new stream its lane: a fresh lane, or a retired lane whose work is complete. The
    /// sequence numbers of a retired lane continue. Returns the lane and its tenancy.
    pub(crate) fn adopt(
        &self,
        stream: GateStream,
        class: StreamClass,
        records: Records,
        owner: Option<u64>,
    ) -> Result<(LaneId, u64)> {
        Ok(self.open(self.free_lane()?, stream, class, records, owner))
    }

    /// Gives a free lane to the stream. Returns the lane and its tenancy.
    fn open(
        &self,
        Free { id, end }: Free,
        stream: GateStream,
        class: StreamClass,
        records: Records,
        owner: Option<u64>,
    ) -> (LaneId, u64) {
        let begin = |tracers: &Attached, seq: u64| {
            let device = stream.device;
            let position = Position { lane: id, seq };
            self.log().tracers.forget_stream(position);
            if !tracers.is_empty() {
                calls_in(&self.log().tracers);
            }
            for tracer in tracers {
                tracer.ledger.append(plain(HostStep::Open, device, class, self.id(), position));
            }
        };
        let known = thread::with_known(self.id(), VectorClock::clone);
        let end = end.as_ref();
        let opening = Opening { id, stream, class, records, owner, end, known: &known };
        let tenancy = self.lane(id).open(&opening, &self.log().tracers, begin);
        (id, tenancy)
    }

    /// Gives a handle of a default stream its lane. All handles of the stream have the same lane.
    pub(crate) fn adopt_default(
        &self,
        stream: GateStream,
        class: StreamClass,
        records: Records,
        legacy: &LegacyOrder,
    ) -> Result<(LaneId, u64)> {
        let key = (stream.device, legacy.thread());
        let one_more = |defaults: &mut Defaults| {
            let (lane, tenancy, handles) = defaults.get_mut(&key)?;
            *handles += 1;
            Some((*lane, *tenancy))
        };
        if let Some(found) = one_more(&mut self.defaults()) {
            return Ok(found);
        }
        // The lock of the default streams is not held here, because the driver may run a host
        // function that drops a handle.
        let free = self.free_lane()?;
        let mut defaults = self.defaults();
        if let Some(found) = one_more(&mut defaults) {
            drop(defaults);
            self.retire(free.id, free.end);
            return Ok(found);
        }
        let (lane, tenancy) = self.open(free, stream, class, records, legacy.thread());
        defaults.insert(key, (lane, tenancy, 1));
        Ok((lane, tenancy))
    }

    fn defaults(&self) -> MutexGuard<'_, Defaults> {
        self.defaults.lock().expect("no thread panicked while it held this lock")
    }

    /// Removes a handle of a default stream. Returns `true` if this was the last handle and the
    /// lane retires. The lane of the legacy stream never retires.
    pub(crate) fn leave_default(&self, device: DeviceId, legacy: &LegacyOrder) -> bool {
        let mut defaults = self.defaults();
        let key = (device, legacy.thread());
        let Some((.., handles)) = defaults.get_mut(&key) else { return false };
        *handles -= 1;
        let gone = *handles == 0 && legacy.thread().is_some();
        if gone {
            defaults.remove(&key);
        }
        gone
    }

    /// The heap of a device.
    pub(crate) fn heap(&self, device: DeviceId) -> Arc<Heap> {
        let mut heaps = self.heaps.lock().expect("no thread panicked while it held this lock");
        Arc::clone(heaps.entry(device).or_insert_with(|| Arc::new(Heap::new(device))))
    }

    /// The devices that have been opened.
    pub(super) fn devices(&self) -> Vec<DeviceId> {
        self.heaps
            .lock()
            .expect("no thread panicked while it held this lock")
            .keys()
            .copied()
            .collect()
    }

    /// The order among the blocking streams and the legacy stream of a device.
    pub(crate) fn blocking(&self, device: DeviceId) -> Arc<Blocking> {
        let mut legacy = self.legacy.lock().expect("no thread panicked while it held this lock");
        Arc::clone(legacy.entry(device).or_default())
    }

    /// Takes a lane that no stream has. If the calling thread knows that the end of a lane is
    /// complete, that lane is reused at once. If only a query shows this, the lane is reused only
    /// when there are many lanes, because the answer of a query depends on timing.
    pub(crate) fn free_lane(&self) -> Result<Free> {
        if let Some((id, end)) = self.take_retired(|end| self.is_known(end)) {
            return Ok(Free { id, end });
        }
        if let Some(id) = self.fresh_lane(LANES_FIRST) {
            return Ok(Free { id, end: None });
        }
        // The lock of the retired lanes is not held during the queries, because the driver may run
        // a host function that drops a stream.
        let retired =
            self.retired.lock().expect("no thread panicked while it held this lock").clone();
        for (lane, end) in retired {
            let Some(mark) = &end else { continue };
            if !matches!(self.gate.query_event(mark.device, mark.event), Ok(Readiness::Ready)) {
                continue;
            }
            let same = |other: &Option<Arc<Mark>>| {
                other.as_ref().is_some_and(|other| Arc::ptr_eq(other, mark))
            };
            if self.take_retired(same).is_some() {
                self.settle(mark);
                return Ok(Free { id: lane, end });
            }
        }
        let fresh = self.fresh_lane(LANES_MAX);
        fresh.map(|id| Free { id, end: None }).ok_or_else(|| {
            let cause = format!("{LANES_MAX} streams are in use; drop one first");
            Error::new(ErrorKind::InvalidValue, "stream create", cause)
        })
    }

    /// Whether the calling thread knows that all work up to `end` is complete. True for `None`,
    /// because there was no work.
    fn is_known(&self, end: &Option<Arc<Mark>>) -> bool {
        let Some(end) = end else { return true };
        thread::with_known(self.id(), |known| known.covers(end.position))
    }

    fn take_retired(&self, fits: impl Fn(&Option<Arc<Mark>>) -> bool) -> Option<Retired> {
        let mut retired = self.retired.lock().expect("no thread panicked while it held this lock");
        let index = retired.iter().position(|(_, end)| fits(end))?;
        Some(retired.swap_remove(index))
    }

    /// Opens a lane, if fewer than `most` have been opened.
    fn fresh_lane(&self, most: u32) -> Option<LaneId> {
        let mut fresh = self.fresh.lock().expect("no thread panicked while it held this lock");
        if *fresh >= most {
            return None;
        }
        self.lanes.set(*fresh as usize, Arc::default());
        *fresh += 1;
        Some(LaneId(*fresh - 1))
    }

    /// Takes a lane back when its stream is dropped. `end` stands for all work of the stream;
    /// `None` if the stream had no work.
    pub(crate) fn retire(&self, id: LaneId, end: Option<Arc<Mark>>) {
        self.retired.lock().expect("no thread panicked while it held this lock").push((id, end));
    }

    /// Notes the error of a call on `device`. The error may be the loss of another device whose
    /// work the call needed. The caller holds no lock, because this function drops the closures of
    /// host functions that will never run (law A29).
    #[cold]
    pub(crate) fn failed(&self, device: DeviceId, error: Error) -> Error {
        let device = error.device().unwrap_or(device);
        self.log().note_loss(device, &error);
        if error.is_loss() {
            self.host_fns.drop_pending(Some(device));
        }
        error
    }

    /// Whether no device was lost.
    pub(crate) fn is_live(&self) -> bool {
        self.gate.is_live()
    }

    /// Marks a device as lost because another process has ended. The caller holds no lock.
    pub(crate) fn lose(&self, device: DeviceId, error: &Error) {
        self.gate.lose(device, error);
        drop(self.failed(device, error.again()));
    }

    /// Notes that everything in `complete` is complete. A thread, or a query by the library, has
    /// found this.
    pub(crate) fn observe(&self, complete: &VectorClock) {
        for position in complete.positions() {
            self.lane(position.lane).done.raise(position.seq);
        }
    }

    /// Notes that a query of the library found the event of `mark` complete. The entry about the
    /// query is appended first. As soon as the users of memory count as complete, another thread
    /// may use the memory again. The entries of the new use must come after the entry about the
    /// query.
    pub(crate) fn settle(&self, mark: &Mark) {
        self.note_settled(mark);
        self.observe(&mark.snapshot);
    }

    /// Appends an entry to the ledgers: a query of the library found the event of `mark` complete.
    fn note_settled(&self, mark: &Mark) {
        let kind = LedgerNote::Settled { event: mark.event.0 };
        let tracers = &self.log().tracers;
        tracers
            .note(|| plain(kind, mark.device, StreamClass::NonBlocking, self.id(), mark.position));
    }

    /// Whether a thread, or a query by the library, has found `position` to be complete.
    pub(crate) fn is_done(&self, position: Position) -> bool {
        self.lane(position.lane).done.covers(position.seq)
    }

    pub(crate) fn counts(&self) -> OrderingCounts {
        OrderingCounts {
            waits: self.waits.count(),
            records: self.gate.records.load(Ordering::Relaxed),
            over_waits: self.over_waits.load(Ordering::Relaxed),
        }
    }

    /// Leaves out the `number`-th wait from now on, counted from 1.
    pub(crate) fn drop_wait(&self, number: u64) {
        self.waits.choose(number);
        *self.dropped.lock().expect("no thread panicked while it held this lock") = None;
    }

    /// Counts a wait. Returns whether this wait is to be left out. If the chosen wait is not
    /// `droppable`, the next droppable wait is left out instead.
    pub(crate) fn count_wait(&self, droppable: bool, about: impl FnOnce() -> DroppedWait) -> bool {
        if !self.waits.take(droppable) {
            return false;
        }
        *self.dropped.lock().expect("no thread panicked while it held this lock") = Some(about());
        true
    }

    pub(crate) fn dropped(&self) -> Option<DroppedWait> {
        self.dropped.lock().expect("no thread panicked while it held this lock").clone()
    }

    /// The positions of all work in the streams of a device. A wait for the device covers them (law
    /// A10).
    pub(crate) fn known_on(&self, device: DeviceId) -> VectorClock {
        let mut clock = VectorClock::new();
        for id in (0..self.lane_count()).map(LaneId) {
            self.lane(id).add_known(device, &mut clock);
        }
        clock
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        // No stream is left. If CUDA calls a pending host function later, the function finds an
        // empty slot.
        self.host_fns.drop_pending(None);
    }
}
