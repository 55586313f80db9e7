//! The laws of streams: their creation and handles, and the edges between the legacy stream and
//! blocking streams.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point, SlotId};
use super::queues::{Queues, add_last};
use super::refuse;
use super::sharing::needs_queue;
use super::slot::{Barrier, Kind, Slot};
use super::work::OpWork;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{StreamHandle, StreamKind};
use smallvec::SmallVec;
use std::sync::Arc;

/// The handle of a default stream combines one of these bits with the number of the device.
const LEGACY: u64 = 1 << 62;
const PER_THREAD: u64 = 1 << 61;
const SLOT_BITS: u32 = 24;

impl Queues {
    pub(in crate::device::host) fn stream_create(
        &mut self,
        device: DeviceId,
        kind: StreamKind,
        priority: i32,
    ) -> StreamHandle {
        let kind = match kind {
            StreamKind::Blocking => Kind::Blocking,
            StreamKind::NonBlocking => Kind::NonBlocking,
        };
        let slot = self.open_slot(device, kind, priority);
        self.handle_of(slot)
    }

    fn open_slot(&mut self, device: DeviceId, kind: Kind, priority: i32) -> SlotId {
        let queue = self.deal(device, kind);
        // The new stream also follows the barrier of the legacy stream, because `barrier_seen` is
        // 0.
        let fresh = |handle, earlier: Option<&Slot>| Slot {
            handle,
            device,
            kind,
            priority,
            queue,
            submitted: earlier.map_or(0, |slot| slot.submitted),
            done: earlier.map_or(0, |slot| slot.done),
            seen: earlier.map_or(0, |slot| slot.done),
            last: None,
            clock: Nanos(0),
            knows: VectorClock::new(),
            barrier_seen: 0,
            destroyed: false,
        };
        let id = match self.spare_slots.pop() {
            Some(id) => {
                let earlier = &self.slots[id.index()];
                let handle = StreamHandle(earlier.handle.0 + (1 << SLOT_BITS));
                self.slots[id.index()] = fresh(handle, Some(earlier));
                id
            }
            None => {
                let id = SlotId(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
                self.slots.push(fresh(StreamHandle(1 << SLOT_BITS | u64::from(id.0)), None));
                id
            }
        };
        if kind == Kind::Blocking {
            self.devices[device.0 as usize].blocking.push(id);
        }
        id
    }

    /// The hardware queue of a new stream, if streams share queues.
    fn deal(&mut self, device: DeviceId, kind: Kind) -> Option<usize> {
        let sharing = self.sharing.as_mut().filter(|_| kind != Kind::Legacy)?;
        let live = self.slots.iter().filter(|slot| slot.device == device && !slot.destroyed);
        Some(sharing.choose(live.filter_map(|slot| slot.queue)))
    }

    /// The handle of the legacy stream of a device.
    pub(in crate::device::host) fn legacy(device: DeviceId) -> StreamHandle {
        StreamHandle(LEGACY | u64::from(device.0))
    }

    pub(in crate::device::host) fn is_legacy(stream: StreamHandle) -> bool {
        stream.0 & LEGACY != 0
    }

    /// Law A15: the per-thread handle of a device. The handle stands for the per-thread stream of
    /// the calling thread.
    pub(in crate::device::host) fn per_thread(device: DeviceId) -> StreamHandle {
        StreamHandle(PER_THREAD | u64::from(device.0))
    }

    /// The stream of a handle. `thread` returns the key of the calling thread, which the per-thread
    /// handle needs.
    pub(in crate::device::host) fn resolve(
        &mut self,
        op: &'static str,
        handle: StreamHandle,
        thread: impl FnOnce() -> u64,
    ) -> Result<SlotId> {
        if handle.0 & (LEGACY | PER_THREAD) == 0 {
            let at = usize::try_from(handle.0 & ((1 << SLOT_BITS) - 1)).unwrap_or(usize::MAX);
            let live = |slot: &&Slot| slot.handle == handle && !slot.destroyed;
            return match self.slots.get(at).filter(live) {
                Some(_) => Ok(SlotId(u32::try_from(at).unwrap_or(u32::MAX))),
                None => Err(refuse::handle(op, "the stream does not exist, or was destroyed")),
            };
        }
        let number = handle.0 & !(LEGACY | PER_THREAD);
        let device = DeviceId(u32::try_from(number).unwrap_or(u32::MAX));
        let Some(streams) = self.devices.get(device.0 as usize) else {
            return Err(refuse::handle(op, "the stream does not exist, or was destroyed"));
        };
        if handle.0 & LEGACY != 0 {
            if let Some(slot) = streams.legacy {
                return Ok(slot);
            }
            let slot = self.open_slot(device, Kind::Legacy, 0);
            self.devices[device.0 as usize].legacy = Some(slot);
            return Ok(slot);
        }
        let thread = thread();
        if let Some(slot) = streams.per_thread.get(&thread) {
            return Ok(*slot);
        }
        let slot = self.open_slot(device, Kind::Blocking, 0);
        self.devices[device.0 as usize].per_thread.insert(thread, slot);
        Ok(slot)
    }

    /// Law A12: the operations of a destroyed stream still run.
    pub(in crate::device::host) fn stream_destroy(&mut self, handle: StreamHandle) -> Result<()> {
        if handle.0 & (LEGACY | PER_THREAD) != 0 {
            return Err(refuse::handle("stream destroy", "a default stream cannot be destroyed"));
        }
        let slot = self.resolve("stream destroy", handle, || 0)?;
        self.slots[slot.index()].destroyed = true;
        self.drop_drained(slot);
        Ok(())
    }

    pub(super) fn drop_drained(&mut self, id: SlotId) {
        let slot = &self.slots[id.index()];
        if slot.destroyed && slot.done == slot.submitted && slot.kind != Kind::Legacy {
            let device = slot.device.0 as usize;
            // The list of blocking streams has the slot once.
            self.devices[device].blocking.retain(|other| *other != id);
            if !self.spare_slots.contains(&id) {
                self.spare_slots.push(id);
            }
        }
    }

    /// Law A13: the legacy stream waits for all blocking streams of its device, and the blocking
    /// streams wait for the legacy stream.
    pub(super) fn law_a13_edges(&mut self, on: SlotId, before: &mut SmallVec<[NodeId; 6]>) {
        let slot = &self.slots[on.index()];
        let streams = &self.devices[slot.device.0 as usize];
        match slot.kind {
            Kind::NonBlocking => {}
            Kind::Blocking => {
                add_last(before, streams.barrier.last);
                self.see_barrier(on);
            }
            Kind::Legacy => {
                let blocking = streams.blocking.clone();
                // The operation of the barrier is an earlier operation of the legacy stream, or a
                // copy between devices (law A38).
                before.extend(streams.barrier.last);
                before.extend(blocking.iter().filter_map(|other| self.last_of(*other)));
                for other in blocking {
                    self.learn(on, &self.snapshot_clock(other));
                }
            }
        }
    }

    /// Law A47: an operation that needs a hardware queue follows the operations in the barrier of
    /// the queue.
    #[inline(always)]
    pub(super) fn law_a47_edges(
        &mut self,
        on: SlotId,
        work: &OpWork,
        before: &mut SmallVec<[NodeId; 6]>,
    ) {
        let slot = &self.slots[on.index()];
        let (Some(queue), device) = (slot.queue, slot.device) else { return };
        if needs_queue(work)
            && let Some(mut sharing) = self.sharing.take()
        {
            sharing.pass((device, queue), before, |id| self.node(id));
            self.sharing = Some(sharing);
        }
    }

    /// Notes that later work of a blocking stream follows the barrier of the legacy stream.
    fn see_barrier(&mut self, on: SlotId) {
        let slot = &self.slots[on.index()];
        let barrier = &self.devices[slot.device.0 as usize].barrier;
        if slot.kind == Kind::Blocking && slot.barrier_seen != barrier.version {
            let (version, clock) = (barrier.version, Arc::clone(&barrier.clock));
            self.learn(on, &clock);
            self.slots[on.index()].barrier_seen = version;
        }
    }

    /// The operations that the next operation of a stream follows because of the legacy stream. A
    /// record or a wait of the stream does not follow them.
    pub(in crate::device::host) fn barrier_before(&self, on: SlotId) -> Option<&VectorClock> {
        let slot = &self.slots[on.index()];
        let barrier = &self.devices[slot.device.0 as usize].barrier;
        (slot.kind == Kind::Blocking).then_some(&*barrier.clock)
    }

    /// Law A13: later operations of blocking streams wait for this operation of the legacy stream.
    pub(super) fn raise_barrier(&mut self, on: SlotId, last: NodeId) {
        let clock = Arc::new(self.snapshot_clock(on));
        let barrier = &mut self.devices[self.slots[on.index()].device.0 as usize].barrier;
        *barrier = Barrier { last: Some(last), clock, version: barrier.version + 1 };
    }

    /// A copy of the barrier of a device. A record on the legacy stream may restore the barrier
    /// from this copy (law A14).
    pub(in crate::device::host) fn barrier_of(&self, device: DeviceId) -> Barrier {
        self.devices[device.0 as usize].barrier.clone()
    }

    pub(in crate::device::host) fn set_barrier(&mut self, device: DeviceId, barrier: Barrier) {
        self.devices[device.0 as usize].barrier = barrier;
    }

    pub(super) fn learn(&mut self, on: SlotId, clock: &VectorClock) {
        self.slots[on.index()].knows.join(clock);
    }

    /// The operations that are complete when all operations of the stream are complete.
    pub(in crate::device::host) fn snapshot_clock(&self, slot: SlotId) -> VectorClock {
        let mut clock = VectorClock::new();
        self.snapshot_into(slot, &mut clock);
        clock
    }

    /// The operations that are complete when all operations of the streams of these points are
    /// complete.
    pub(in crate::device::host) fn clock_of(&self, points: &[Point]) -> VectorClock {
        let mut clock = VectorClock::new();
        points.iter().for_each(|point| clock.join(&self.snapshot_clock(point.slot)));
        clock
    }

    /// Stores in `clock` the operations that are complete when all operations of the stream are
    /// complete.
    pub(super) fn snapshot_into(&self, slot: SlotId, clock: &mut VectorClock) {
        let found = &self.slots[slot.index()];
        clock.copy_from(&found.knows);
        clock.raise(Point { slot, seq: found.submitted }.position());
    }

    /// Law A9, and A14 for the legacy stream: the points that must be complete for a
    /// synchronisation or a query of the stream.
    pub(in crate::device::host) fn points_of(&self, slot: SlotId) -> SmallVec<[Point; 2]> {
        let point = |id: SlotId| Point { slot: id, seq: self.slots[id.index()].submitted };
        let found = &self.slots[slot.index()];
        let mut points = SmallVec::new();
        points.push(point(slot));
        if found.kind == Kind::Legacy {
            let blocking = &self.devices[found.device.0 as usize].blocking;
            points.extend(blocking.iter().map(|id| point(*id)));
        }
        points
    }

    /// The point after everything that was enqueued in the stream so far.
    pub(in crate::device::host) fn end_of(&self, slot: SlotId) -> Point {
        Point { slot, seq: self.slots[slot.index()].submitted }
    }

    /// Law A10: the points that must be complete for a synchronisation of the device. They include
    /// complete work that the host has not seen, because this work counts as seen after the
    /// synchronisation.
    pub(in crate::device::host) fn points_of_device(
        &self,
        device: DeviceId,
    ) -> SmallVec<[Point; 2]> {
        let of_device = (0u32..).map(SlotId).zip(&self.slots);
        of_device
            .filter(|(_, slot)| slot.device == device && slot.seen < slot.submitted)
            .map(|(id, slot)| Point { slot: id, seq: slot.submitted })
            .collect()
    }
}

impl Queues {
    /// Notes that the host has seen these operations complete: everything up to `points`, and the
    /// complete operations in `clock`.
    pub(in crate::device::host) fn see(&mut self, points: &[Point], clock: &VectorClock) {
        for point in points {
            let slot = &mut self.slots[point.slot.index()];
            slot.seen = slot.seen.max(point.seq);
        }
        for position in clock.positions() {
            if let Some(slot) = self.slots.get_mut(position.lane.0 as usize) {
                slot.seen = slot.seen.max(position.seq.min(slot.done));
            }
        }
    }
}
