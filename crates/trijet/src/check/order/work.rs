//! What puts work into a stream: what it comes after, and what is true when its call returns.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::begun::Begun;
use super::clock::Clock;
use super::handover::HandOvers;
use super::known::Known;
use super::step::Step;
use crate::base::id::{BlockId, DeviceId};
use crate::base::ledger::{Engine, Op, OpKind, Place, SourceOrder, StreamClass};
use crate::check::options::Assume;
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

/// Enters work into its stream.
pub(super) fn enqueue(
    known: &mut Known,
    handovers: &mut HandOvers,
    (op, index): (&Op, u64),
    step: &mut Step,
) {
    let lane = known.lane(op);
    step.lane = Some(lane);
    known.lanes.dwell(op);
    let begun = known.threads.list[step.thread].begun.take();
    if op.kind == OpKind::Alloc {
        // It may leave nothing in the stream: what the legacy stream holds back is not held by it.
        known.teach(step.thread, lane);
        let this = &mut known.lanes.list[lane];
        step.work = this.count(op);
        this.tail.raise(step.work);
        return;
    }
    if let Some(begun) = begun.filter(|begun| begun.lane == lane) {
        return returned(known, handovers, (op, index), (*begun, step));
    }
    let returns = return_of(op, known.assume);
    step.staged = returns == Return::Staged;
    if step.staged {
        known.lanes.held(lane);
        known.learn_tail(step.thread, lane);
    }
    reads_at_call(known, op, step);
    known.reach(step.thread, lane);
    let far = far(known, op, lane);
    for device in &far {
        known.lanes.reach_far(*device, lane);
    }
    if op.kind == OpKind::HostFn {
        let before = known.lanes.list[lane].tail.clone();
        handovers.host_fn(known, (lane, index), op.position, before);
    }
    let this = &mut known.lanes.list[lane];
    step.work = this.count(op);
    this.tail.raise(step.work);
    known.lanes.hold_back(lane);
    far.iter().for_each(|device| known.lanes.hold_back_on(*device, lane));
    if returns == Return::Done {
        known.learn_tail(step.thread, lane);
    }
}

/// What is read during the call has a number of its thread.
fn reads_at_call(known: &mut Known, op: &Op, step: &mut Step) {
    if step.staged || op.kind == OpKind::Batch(SourceOrder::DuringCall) {
        step.call = known.threads.call(step.thread);
    }
}

/// A call begins that may wait. Its work follows what the stream was given by now.
pub(super) fn begin(known: &mut Known, (op, index): (&Op, u64), thread: usize) {
    let lane = known.lane(op);
    let Known { lanes, threads, .. } = known;
    let caller = &mut threads.list[thread];
    let before = lanes.would_reach(&caller.known, lane);
    let mut held = Clock::new();
    lanes.prefix(lane, &mut held);
    let mut far = Vec::new();
    if op.engine == Engine::Peer {
        let own = lanes.list[lane].device;
        for device in lanes.devices.keys().copied().filter(|other| *other != own) {
            let mut clock = Clock::new();
            lanes.blocking_of(device, &mut clock);
            far.push((device, clock));
        }
    }
    let mut then = before.clone();
    then.join(&caller.known);
    let begun = Begun { lane, seq: lanes.list[lane].seq, before, held, far };
    caller.begun = Some(Box::new(begun));
    caller.blocked = Some((index, then));
}

/// The call that had begun has returned. What was enqueued in the stream meanwhile may come before
/// its work or after it.
fn returned(
    known: &mut Known,
    handovers: &mut HandOvers,
    (op, index): (&Op, u64),
    (begun, step): (Begun, &mut Step),
) {
    let Begun { lane, seq, mut before, held, far: of_others } = begun;
    let returns = return_of(op, known.assume);
    step.staged = returns == Return::Staged;
    if step.staged {
        known.threads.learn(step.thread, &held);
    }
    reads_at_call(known, op, step);
    let devices = far(known, op, lane);
    for (_, clock) in of_others.iter().filter(|(device, _)| devices.contains(device)) {
        before.join(clock);
    }
    // Nobody knows a host function to be complete without what was enqueued before its number.
    let is_host_fn = op.kind == OpKind::HostFn;
    if is_host_fn {
        handovers.host_fn(known, (lane, index), op.position, before.clone());
    }
    step.work = if is_host_fn || known.lanes.list[lane].seq == seq {
        known.lanes.list[lane].count(op)
    } else {
        known.beside(lane, step.thread)
    };
    let tail = &mut known.lanes.list[lane].tail;
    tail.join(&before);
    tail.raise(step.work);
    known.lanes.hold_back(lane);
    devices.iter().for_each(|device| known.lanes.hold_back_on(*device, lane));
    if returns == Return::Done {
        let mut done = before.clone();
        done.raise(step.work);
        known.threads.learn(step.thread, &done);
    }
    step.apart = true;
    known.apart = before;
}

/// The other devices of a copy between devices in the legacy stream (law A38).
fn far(known: &Known, op: &Op, lane: usize) -> BTreeSet<DeviceId> {
    let lanes = &known.lanes;
    let this = &lanes.list[lane];
    if op.kind != OpKind::CopyNow || op.engine != Engine::Peer || this.class != StreamClass::Legacy
    {
        return BTreeSet::new();
    }
    let home = |block: BlockId| lanes.homes.get(&block).copied();
    let on_device = op.accesses.iter().filter(|access| access.place == Place::Device);
    let of_blocks: BTreeSet<Option<DeviceId>> =
        on_device.map(|access| home(access.block)).collect();
    let known: BTreeSet<DeviceId> =
        of_blocks.iter().flatten().copied().filter(|device| *device != this.device).collect();
    if !known.is_empty() || !of_blocks.contains(&None) {
        return known;
    }
    // A block that was allocated before the record: with two devices there is only one place.
    let mut others = lanes.devices.keys().copied().filter(|device| *device != this.device);
    match (others.next(), others.next()) {
        (Some(other), None) => BTreeSet::from([other]),
        _ => known,
    }
}
