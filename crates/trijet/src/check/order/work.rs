//! What puts work into a stream: what it comes after, and what is true when its call returns.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::Clock;
use super::{Order, Step};
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::{Engine, Op, OpKind, Place, SourceOrder, StreamClass};
use crate::check::Assume;
use std::collections::BTreeSet;

/// What is true when a call returns that enqueues work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    AtOnce,
    /// What the stream held before is complete and the source was read.
    Staged,
    /// The work is complete.
    Done,
}

/// A call that has begun, and waits.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    lane: usize,
    /// How many operations the stream had.
    seq: u64,
    /// What its work comes after.
    before: Clock,
    /// What the stream held.
    held: Clock,
    /// What the blocking streams of the other devices held, for a copy between devices (law A38).
    far: Vec<(DeviceId, Clock)>,
}

fn is_of_host(place: Place) -> bool {
    place != Place::Device
}

/// Laws A16 to A18.
fn return_of(op: &Op, assume: Assume) -> Return {
    let place = |writes: bool| {
        let access = op.accesses.iter().find(|access| access.mode.writes() == writes);
        access.map_or(Place::Device, |access| access.place)
    };
    let (from, to) = (place(false), place(true));
    match op.kind {
        OpKind::Copy if is_of_host(from) && is_of_host(to) => Return::Done,
        OpKind::Copy if assume == Assume::DriverObserved => match (from, to) {
            (Place::Pageable, _) => Return::Staged,
            (_, Place::Pageable) => Return::Done,
            _ => Return::AtOnce,
        },
        OpKind::CopyNow if from == Place::Pageable && to == Place::Device => Return::Staged,
        OpKind::CopyNow if is_of_host(from) || is_of_host(to) => Return::Done,
        OpKind::FillNow if to == Place::Pinned => Return::Done,
        _ => Return::AtOnce,
    }
}

impl Order {
    pub(super) fn enqueue(&mut self, op: &Op, index: u64, step: &mut Step) {
        let lane = self.lane(op);
        step.lane = Some(lane);
        self.dwell(op);
        let begun = self.threads[step.thread].begun.take();
        if op.kind == OpKind::Alloc {
            // It may leave nothing in the stream: what the legacy stream holds back is not held by it.
            self.teach(step.thread, lane);
            step.work = self.lanes[lane].count(op);
            self.lanes[lane].tail.raise(step.work);
            return;
        }
        if let Some(begun) = begun.filter(|begun| begun.lane == lane) {
            return self.returned((op, index), *begun, step);
        }
        let returns = return_of(op, self.assume);
        step.staged = returns == Return::Staged;
        if step.staged {
            self.held(lane);
            let tail = std::mem::take(&mut self.lanes[lane].tail);
            self.learn(step.thread, &tail);
            self.lanes[lane].tail = tail;
        }
        self.reads_at_call(op, step);
        self.reach(step.thread, lane);
        let far = self.far(op, lane);
        for device in &far {
            let mut tail = std::mem::take(&mut self.lanes[lane].tail);
            self.blocking_of(*device, &mut tail);
            self.lanes[lane].tail = tail;
        }
        if op.kind == OpKind::HostFn {
            let before = self.lanes[lane].tail.clone();
            self.host_fn(lane, op.position, index, before);
        }
        let this = &mut self.lanes[lane];
        step.work = this.count(op);
        this.tail.raise(step.work);
        self.hold_back(lane);
        far.iter().for_each(|device| self.hold_back_on(*device, lane));
        if returns == Return::Done {
            let tail = std::mem::take(&mut self.lanes[lane].tail);
            self.learn(step.thread, &tail);
            self.lanes[lane].tail = tail;
        }
    }

    /// What is read during the call has a number of its thread.
    fn reads_at_call(&mut self, op: &Op, step: &mut Step) {
        if step.staged || op.kind == OpKind::Batch(SourceOrder::DuringCall) {
            step.call = self.call(step.thread);
        }
    }

    /// A call begins that may wait. Its work follows what the stream was given by now.
    pub(super) fn begin(&mut self, op: &Op, index: u64, thread: usize) {
        let lane = self.lane(op);
        let before = self.would_reach(thread, lane);
        let mut held = Clock::new();
        self.prefix(lane, &mut held);
        let mut far = Vec::new();
        if op.engine == Engine::Peer {
            let own = self.lanes[lane].device;
            let others: Vec<DeviceId> =
                self.devices.keys().copied().filter(|other| *other != own).collect();
            for device in others {
                let mut clock = Clock::new();
                self.blocking_of(device, &mut clock);
                far.push((device, clock));
            }
        }
        let mut then = before.clone();
        then.join(&self.threads[thread].known);
        let begun = Begun { lane, seq: self.lanes[lane].seq, before, held, far };
        let this = &mut self.threads[thread];
        this.begun = Some(Box::new(begun));
        this.blocked = Some((index, then));
    }

    /// The call that had begun has returned. What was enqueued in the stream meanwhile may come before
    /// its work or after it.
    fn returned(&mut self, (op, index): (&Op, u64), begun: Begun, step: &mut Step) {
        let Begun { lane, seq, mut before, held, far } = begun;
        let returns = return_of(op, self.assume);
        step.staged = returns == Return::Staged;
        if step.staged {
            self.learn(step.thread, &held);
        }
        self.reads_at_call(op, step);
        let devices = self.far(op, lane);
        for (_, clock) in far.iter().filter(|(device, _)| devices.contains(device)) {
            before.join(clock);
        }
        // Nobody knows a host function to be complete without what was enqueued before its number.
        let is_host_fn = op.kind == OpKind::HostFn;
        if is_host_fn {
            self.host_fn(lane, op.position, index, before.clone());
        }
        step.work = if is_host_fn || self.lanes[lane].seq == seq {
            self.lanes[lane].count(op)
        } else {
            self.beside(lane, step.thread)
        };
        let tail = &mut self.lanes[lane].tail;
        tail.join(&before);
        tail.raise(step.work);
        self.hold_back(lane);
        devices.iter().for_each(|device| self.hold_back_on(*device, lane));
        if returns == Return::Done {
            let mut done = before.clone();
            done.raise(step.work);
            self.learn(step.thread, &done);
        }
        step.apart = true;
        self.apart = before;
    }

    /// Learns on which devices blocks lie.
    pub(super) fn dwell(&mut self, op: &Op) {
        if !matches!(op.kind, OpKind::Alloc | OpKind::AllocNow | OpKind::Free | OpKind::FreeNow) {
            return;
        }
        let on_device = op.accesses.iter().filter(|access| access.place == Place::Device);
        for access in on_device {
            match op.kind {
                OpKind::Alloc | OpKind::AllocNow => self.homes.insert(access.block, op.device),
                OpKind::Free | OpKind::FreeNow => self.homes.remove(&access.block),
                _ => return,
            };
        }
    }

    /// The other devices of a copy between devices in the legacy stream (law A38).
    fn far(&self, op: &Op, lane: usize) -> BTreeSet<DeviceId> {
        let Self { homes, lanes, .. } = self;
        let this = &lanes[lane];
        if op.kind != OpKind::CopyNow
            || op.engine != Engine::Peer
            || this.class != StreamClass::Legacy
        {
            return BTreeSet::new();
        }
        let home = |block: BlockId| homes.get(&block).copied();
        let on_device = op.accesses.iter().filter(|access| access.place == Place::Device);
        let of_blocks: BTreeSet<Option<DeviceId>> =
            on_device.map(|access| home(access.block)).collect();
        let known: BTreeSet<DeviceId> =
            of_blocks.iter().flatten().copied().filter(|device| *device != this.device).collect();
        if !known.is_empty() || !of_blocks.contains(&None) {
            return known;
        }
        // A block that was allocated before the record: with two devices there is only one place.
        let mut others = self.devices.keys().copied().filter(|device| *device != this.device);
        match (others.next(), others.next()) {
            (Some(other), None) => BTreeSet::from([other]),
            _ => known,
        }
    }
}
