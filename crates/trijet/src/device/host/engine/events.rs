//! The laws of events. An event is a snapshot of a stream.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point, SlotId};
use super::node::Node;
use super::queues::{Queues, SPARES_MAX};
use super::refuse;
use super::slot::Kind;
use super::snapshot::{Snapshot, SnapshotEvent};
use super::work::OpWork;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, Timing};

/// Whether later work of blocking streams waits for a record on the legacy stream (law A14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device::host) enum LegacyRecord {
    Barrier,
    Bare,
}

impl Queues {
    pub(in crate::device::host) fn event_create(
        &mut self,
        device: DeviceId,
        timing: Timing,
    ) -> EventHandle {
        let event = SnapshotEvent { device, timing, generation: 0, stands_for: None, time: None };
        EventHandle(self.events.insert(event))
    }

    /// Law A12: destroys an event. Waits for the event that were enqueued earlier keep their
    /// snapshot.
    pub(in crate::device::host) fn event_destroy(&mut self, event: EventHandle) -> Result<()> {
        match self.events.remove(event.0) {
            Some(mut gone) => {
                if self.spare_clocks.len() < SPARES_MAX {
                    self.spare_clocks.extend(gone.take_clock());
                }
                Ok(())
            }
            None => Err(refuse::handle("event destroy", "the event does not exist")),
        }
    }

    fn event(&self, op: &'static str, event: EventHandle) -> Result<&SnapshotEvent> {
        self.events.get(event.0).ok_or_else(|| refuse::handle(op, "the event does not exist"))
    }

    /// Law A4: the event stands for everything enqueued in the stream so far. A later record
    /// replaces this record. Law A6: event and stream belong to one device.
    pub(in crate::device::host) fn event_record(
        &mut self,
        event: EventHandle,
        on: SlotId,
        now: Nanos,
        legacy: LegacyRecord,
    ) -> Result<Option<NodeId>> {
        let op = "event record";
        let device = self.slots[on.index()].device;
        self.check_lost(device)?;
        let found = self.event(op, event)?;
        if found.device != device {
            let cause = format!("the event belongs to {} and the stream to {device}", found.device);
            return Err(refuse::handle(op, cause));
        }
        let (timing, generation) = (found.timing, found.generation + 1);
        let kind = self.slots[on.index()].kind;
        let work = match timing {
            Timing::On => OpWork::Time { event, generation },
            Timing::Off => OpWork::Mark,
        };
        // A record needs a node only for its time, or as a barrier in the legacy stream. A record
        // in a blocking stream is no operation of the stream, timed or not. So no law makes the
        // record wait for the legacy stream.
        let node = match (kind, timing) {
            (Kind::Legacy, Timing::On | Timing::Off) => {
                let barrier = self.barrier_of(device);
                let node = self.push(op, on, now, work, &[])?;
                if legacy == LegacyRecord::Bare {
                    self.set_barrier(device, barrier);
                }
                Some(node)
            }
            (Kind::Blocking | Kind::NonBlocking, Timing::On) => {
                Some(self.hold(op, on, now, work, &[])?)
            }
            (Kind::Blocking | Kind::NonBlocking, Timing::Off) => self.last_of(on),
        };
        let point = Point { slot: on, seq: self.slots[on.index()].submitted };
        let mut clock = match self.events.get_mut(event.0) {
            Some(found) => {
                found.generation = generation;
                found.time = None;
                // The new snapshot reuses the memory of the old snapshot.
                found
                    .take_clock()
                    .or_else(|| self.spare_clocks.pop())
                    .unwrap_or_else(VectorClock::new)
            }
            None => return Ok(node),
        };
        self.snapshot_into(on, &mut clock);
        if let Some(event) = self.events.get_mut(event.0) {
            event.stands_for = Some(Snapshot { point, node, clock });
        }
        Ok(node)
    }

    /// Law A7: all later work of the stream waits for the snapshot that the event has at the call.
    /// In the legacy stream the wait is also a barrier (law A13). Law A5: a wait for an event that
    /// was never recorded does nothing. The wait gets a node even if the snapshot is complete, so
    /// that the sequence numbers of a stream do not depend on the executor.
    pub(in crate::device::host) fn stream_wait(
        &mut self,
        on: SlotId,
        event: EventHandle,
        now: Nanos,
    ) -> Result<()> {
        self.event("stream wait", event)?;
        let found = self.events.get(event.0).and_then(|event| event.stands_for.as_ref());
        let Some(Snapshot { node, clock, .. }) = found else {
            return self.check_lost(self.slots[on.index()].device);
        };
        let node = *node;
        self.slots[on.index()].knows.join(clock);
        let (op, waits) = ("stream wait", node.as_slice());
        match self.slots[on.index()].kind {
            Kind::Legacy => self.push(op, on, now, OpWork::Mark, waits).map(drop),
            Kind::Blocking | Kind::NonBlocking => {
                self.hold(op, on, now, OpWork::Mark, waits).map(drop)
            }
        }
    }

    /// The snapshot of an event (law A8); `None` for an event that was never recorded (law A5).
    pub(in crate::device::host) fn snapshot(
        &self,
        op: &'static str,
        event: EventHandle,
    ) -> Result<Option<(Point, VectorClock)>> {
        let found = self.event(op, event)?;
        // The check for a lost device uses the device of the event and not the stream of the
        // record. The stream may be destroyed already, while a worker still uses bytes of its
        // operations.
        if found.stands_for.is_some() {
            self.check_lost(found.device)?;
        }
        Ok(found.stands_for.as_ref().map(|s| (s.point, s.clock.clone())))
    }

    pub(in crate::device::host) fn device_of_event(
        &self,
        op: &'static str,
        event: EventHandle,
    ) -> Result<DeviceId> {
        self.event(op, event).map(|found| found.device)
    }

    /// Law A5: the time at which the work of an event was complete. Fails for an event without
    /// timing or without a record, and while the work of the event is not complete.
    pub(in crate::device::host) fn event_time(
        &self,
        event: EventHandle,
    ) -> Result<(DeviceId, Nanos)> {
        let op = "event elapsed";
        let found = self.event(op, event)?;
        if found.timing == Timing::Off {
            return Err(refuse::handle(op, "the event was created without timing"));
        }
        if found.stands_for.is_none() {
            return Err(refuse::handle(op, "the event was never recorded"));
        }
        self.check_lost(found.device)?;
        let time = found.time.map(|time| (found.device, time));
        time.ok_or_else(|| refuse::other(op, 600, "the event is not complete"))
    }

    pub(super) fn note_time(&mut self, event: EventHandle, generation: u64, now: Nanos) {
        if let Some(event) = self.events.get_mut(event.0)
            && event.generation == generation
        {
            event.time = Some(now);
        }
    }

    /// Empties the list of arrived operations. Operations that need no engine and are due by `now`
    /// are completed. Each other operation is passed to `later`, unless it hangs.
    pub(in crate::device::host) fn settle(&mut self, now: Nanos, mut later: impl FnMut(&Node)) {
        while let Some(id) = self.arrived.pop() {
            let Some(node) = self.node(id) else { continue };
            if self.hangs(node) {
                continue;
            }
            let at = node.enqueued.max(node.ready);
            let idle = node.engine == Engine::None;
            if idle && at <= now {
                self.complete(id, at);
            } else {
                later(node);
            }
        }
    }
}
