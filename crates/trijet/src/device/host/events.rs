//! Events of the host device: snapshots of streams.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point, SlotId};
use super::node::Node;
use super::queues::{Queues, SPARES_MAX};
use super::refuse;
use super::slot::Kind;
use super::snapshot::{Event, Snapshot};
use super::work::Work;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, Timing};

/// Whether a record on the legacy stream holds later work of blocking streams back (law A14).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LegacyRecord {
    Barrier,
    Bare,
}

impl Queues {
    pub(super) fn event_create(&mut self, device: DeviceId, timing: Timing) -> EventHandle {
        let event = Event { device, timing, generation: 0, stands_for: None, time: None };
        EventHandle(self.events.insert(event))
    }

    /// Law A12: waits that were enqueued hold a snapshot of their own.
    pub(super) fn event_destroy(&mut self, event: EventHandle) -> Result<()> {
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

    fn event(&self, op: &'static str, event: EventHandle) -> Result<&Event> {
        self.events.get(event.0).ok_or_else(|| refuse::handle(op, "the event does not exist"))
    }

    /// Law A4: the event stands for everything enqueued so far; a second record overwrites.
    /// Law A6: event and stream are of one device.
    pub(super) fn event_record(
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
            let cause = format!("the event is of {} and the stream of {device}", found.device);
            return Err(refuse::handle(op, cause));
        }
        let (timing, generation) = (found.timing, found.generation + 1);
        let kind = self.slots[on.index()].kind;
        let work = match timing {
            Timing::On => Work::Time { event, generation },
            Timing::Off => Work::Mark,
        };
        // Only a time, or the blocking streams of the legacy one, need a place of their own. What
        // the legacy stream holds back is not in a blocking stream until an operation of it is: no
        // law says that a record of the stream, timed or not, waits for it.
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
                // Overwritten, in the same memory.
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

    /// Law A7: the snapshot at the call holds back all future work of the stream, and nothing
    /// enqueued before. In the legacy stream the wait is a barrier as well (law A13). Law A5: an
    /// event that was never recorded holds nothing back. A wait takes a place in its stream also
    /// where what it waits for is complete: every executor has the same places.
    pub(super) fn stream_wait(&mut self, on: SlotId, event: EventHandle, now: Nanos) -> Result<()> {
        self.event("stream wait", event)?;
        let found = self.events.get(event.0).and_then(|event| event.stands_for.as_ref());
        let Some(Snapshot { node, clock, .. }) = found else {
            return self.check_lost(self.slots[on.index()].device);
        };
        let node = *node;
        self.slots[on.index()].knows.join(clock);
        let (op, waits) = ("stream wait", node.as_slice());
        match self.slots[on.index()].kind {
            Kind::Legacy => self.push(op, on, now, Work::Mark, waits).map(drop),
            Kind::Blocking | Kind::NonBlocking => {
                self.hold(op, on, now, Work::Mark, waits).map(drop)
            }
        }
    }

    /// What an event stands for (law A8); `None` is the empty set of law A5.
    pub(super) fn snapshot(
        &self,
        op: &'static str,
        event: EventHandle,
    ) -> Result<Option<(Point, VectorClock)>> {
        let found = self.event(op, event)?;
        // By the event's device: the stream may be gone, and a worker still busy with its bytes.
        if found.stands_for.is_some() {
            self.check_lost(found.device)?;
        }
        Ok(found.stands_for.as_ref().map(|s| (s.point, s.clock.clone())))
    }

    pub(super) fn device_of_event(&self, op: &'static str, event: EventHandle) -> Result<DeviceId> {
        self.event(op, event).map(|found| found.device)
    }

    /// Law A5: no time without timing, or before a record. Not ready before completion.
    pub(super) fn event_time(&self, event: EventHandle) -> Result<(DeviceId, Nanos)> {
        let op = "event elapsed";
        let found = self.event(op, event)?;
        if found.timing == Timing::Off {
            return Err(refuse::handle(op, "the event keeps no time"));
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

    /// Takes the operations that need no engine out of the arrived ones, completes those whose
    /// time has come, and gives the others to `later`.
    pub(super) fn settle(&mut self, now: Nanos, mut later: impl FnMut(&Node)) {
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
