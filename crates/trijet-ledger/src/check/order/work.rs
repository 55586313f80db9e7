//! Work of streams: the past of each operation, and what its thread knows when its call returns.
#![forbid(unsafe_code)]

use super::begun::Begun;
use super::handover::HandOvers;
use super::known::Known;
use super::step::Step;
use crate::base::edges::{Point, Role, passed_at_return};
use crate::base::ledger::{Op, OpKind, SourceOrder, StreamWork};

/// Adds an operation to its stream.
pub(super) fn enqueue(
    known: &mut Known,
    handovers: &mut HandOvers,
    op: &Op,
    index: u64,
    step: &mut Step,
) {
    let Some(role) = Role::of(&op.kind, known.lanes.edges.laws()) else { return };
    let lane = known.lane(op);
    step.lane = Some(lane);
    known.lanes.edges.note_block(op);
    let begun = known.threads.list[step.thread].begun.take();
    if let Some(begun) = begun.filter(|begun| begun.call.lane == lane && role == Role::Work) {
        return returned(known, handovers, op, index, *begun, step);
    }
    let returns = passed_at_return(op, known.lanes.edges.laws());
    step.staged = returns == Some(Point::Trigger);
    if step.staged {
        known.threads.learn(step.thread, known.lanes.edges.held(lane));
    }
    reads_at_call(known, op, step);
    known.begin_entry((step.thread, lane), op, role, None);
    if op.kind == OpKind::Work(StreamWork::HostFn) {
        let begin = known.lanes.edges.tail(lane).clone();
        handovers.host_fn(known, lane, index, op.position, begin);
    }
    step.work = known.lanes.count(lane, op);
    known.lanes.edges.end_entry(lane, op, role);
    if returns == Some(Point::End) {
        known.learn_tail(step.thread, lane);
    }
}

/// Counts the call in its thread, if the operation reads its source during the call.
fn reads_at_call(known: &mut Known, op: &Op, step: &mut Step) {
    if step.staged || op.kind == OpKind::Work(StreamWork::Batch(SourceOrder::DuringCall)) {
        step.call = known.threads.call(step.thread);
    }
}

/// Reads the start of a call that may wait. The operation of the call follows everything that the
/// stream holds now.
pub(super) fn begin(known: &mut Known, op: &Op, index: u64, thread: usize) {
    let lane = known.lane(op);
    let begun = known.begin_call((thread, lane), op);
    let caller = &mut known.threads.list[thread];
    caller.blocked = Some((index, begun.call.before.clone()));
    caller.begun = Some(Box::new(begun));
}

/// Adds the operation of a call that began earlier and has now returned. Operations that other
/// threads enqueued in the stream meanwhile may come before or after this operation.
fn returned(
    known: &mut Known,
    handovers: &mut HandOvers,
    op: &Op,
    index: u64,
    begun: Begun,
    step: &mut Step,
) {
    let Begun { call, seq } = begun;
    let lane = call.lane;
    let returns = passed_at_return(op, known.lanes.edges.laws());
    step.staged = returns == Some(Point::Trigger);
    if step.staged {
        known.threads.learn(step.thread, &call.held);
    }
    reads_at_call(known, op, step);
    let before = known.lanes.edges.return_call(call, op);
    known.lanes.edges.tail_mut(lane).join(&before);
    // A host function is always counted in the stream's own component. So a thread that knows the
    // host function to be complete also knows everything with a smaller number to be complete.
    let is_host_fn = op.kind == OpKind::Work(StreamWork::HostFn);
    if is_host_fn {
        handovers.host_fn(known, lane, index, op.position, before.clone());
    }
    step.work = if is_host_fn || known.lanes.list[lane].seq == seq {
        known.lanes.count(lane, op)
    } else {
        known.count_concurrent(lane, step.thread)
    };
    let mut done = before.clone();
    done.raise(step.work);
    known.lanes.edges.end_call(lane, op, &done);
    if returns == Some(Point::End) {
        known.threads.learn(step.thread, &done);
    }
    step.has_own_past = true;
    known.own_past = before;
}
