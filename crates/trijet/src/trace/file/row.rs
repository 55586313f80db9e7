//! An operation as it stands in a file: names by number, times as differences.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Asked, Declared, Engine, HostCall, Mode, Op, OpKind, Outcome, Place, Site, SourceOrder,
    StreamClass, Times, Waited,
};
use crate::base::units::Nanos;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// [`OpKind`] with plain numbers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
enum What {
    Alloc,
    Free,
    Copy,
    CopyNow,
    Batch(SourceOrder),
    Fill,
    FillNow,
    Kernel,
    HostFn,
    Record(u64, Asked),
    Sync(Waited, Outcome),
    Host,
    Open,
    Wait(u64, u32, u64, Asked),
    AllocNow,
    FreeNow,
    Fault(Option<(u32, u64)>),
    Call(HostCall),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Touch {
    block: u64,
    place: Place,
    start: u64,
    bytes: u64,
    mode: Mode,
}

/// Begin as the difference to the begin of the row before, and duration.
type Span = Option<(i64, u64)>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row {
    what: What,
    engine: Engine,
    device: u32,
    stream: StreamClass,
    lane: u32,
    seq: u64,
    accesses: Vec<Touch>,
    declared: Declared,
    bytes: u64,
    label: u32,
    chunk: Option<u64>,
    /// File, line and column.
    site: Option<(u32, u32, u32)>,
    thread: u64,
    call: Span,
    times: Span,
}

/// The begins of the row before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Before {
    call: u64,
    times: u64,
}

fn shorten(times: Option<Times>, before: &mut u64) -> Span {
    let times = times?;
    let difference = times.begin.0.wrapping_sub(*before).cast_signed();
    *before = times.begin.0;
    Some((difference, times.end.0.saturating_sub(times.begin.0)))
}

fn lengthen(span: Span, before: &mut u64) -> Option<Times> {
    let (difference, duration) = span?;
    let begin = before.wrapping_add(difference.cast_unsigned());
    *before = begin;
    Some(Times { begin: Nanos(begin), end: Nanos(begin.saturating_add(duration)) })
}

impl Row {
    /// `number` gives each name its number.
    pub(super) fn of(op: &Op, before: &mut Before, mut number: impl FnMut(&str) -> u32) -> Self {
        let what = match op.kind {
            OpKind::Alloc => What::Alloc,
            OpKind::Free => What::Free,
            OpKind::Copy => What::Copy,
            OpKind::CopyNow => What::CopyNow,
            OpKind::Batch(order) => What::Batch(order),
            OpKind::Fill => What::Fill,
            OpKind::FillNow => What::FillNow,
            OpKind::Kernel => What::Kernel,
            OpKind::HostFn => What::HostFn,
            OpKind::Record { event, by } => What::Record(event, by),
            OpKind::Sync { what, outcome } => What::Sync(what, outcome),
            OpKind::Host => What::Host,
            OpKind::Open => What::Open,
            OpKind::Wait { event, on, by } => What::Wait(event, on.lane.0, on.seq, by),
            OpKind::AllocNow => What::AllocNow,
            OpKind::FreeNow => What::FreeNow,
            OpKind::Fault { culprit } => What::Fault(culprit.map(|at| (at.lane.0, at.seq))),
            OpKind::Call(call) => What::Call(call),
        };
        let touch = |access: &Access| Touch {
            block: access.block.0,
            place: access.place,
            start: access.range.start,
            bytes: access.range.end.saturating_sub(access.range.start),
            mode: access.mode,
        };
        Self {
            what,
            engine: op.engine,
            device: op.device.0,
            stream: op.stream,
            lane: op.position.lane.0,
            seq: op.position.seq,
            accesses: op.accesses.iter().map(touch).collect(),
            declared: op.declared,
            bytes: op.bytes,
            label: number(&op.label),
            chunk: op.chunk,
            site: op.site.as_ref().map(|site| (number(&site.file), site.line, site.column)),
            thread: op.thread,
            call: shorten(op.call, &mut before.call),
            times: shorten(op.times, &mut before.times),
        }
    }

    /// The operation, or `None` when a name has no number in `texts`.
    pub(super) fn op(self, before: &mut Before, texts: &[Arc<str>]) -> Option<Op> {
        let text = |number: u32| {
            let text = texts.get(usize::try_from(number).ok()?)?;
            Some(Cow::Owned(text.as_ref().to_owned()))
        };
        let kind = match self.what {
            What::Alloc => OpKind::Alloc,
            What::Free => OpKind::Free,
            What::Copy => OpKind::Copy,
            What::CopyNow => OpKind::CopyNow,
            What::Batch(order) => OpKind::Batch(order),
            What::Fill => OpKind::Fill,
            What::FillNow => OpKind::FillNow,
            What::Kernel => OpKind::Kernel,
            What::HostFn => OpKind::HostFn,
            What::Record(event, by) => OpKind::Record { event, by },
            What::Sync(what, outcome) => OpKind::Sync { what, outcome },
            What::Host => OpKind::Host,
            What::Open => OpKind::Open,
            What::Wait(event, lane, seq, by) => {
                OpKind::Wait { event, on: Position { lane: LaneId(lane), seq }, by }
            }
            What::AllocNow => OpKind::AllocNow,
            What::FreeNow => OpKind::FreeNow,
            What::Fault(culprit) => OpKind::Fault {
                culprit: culprit.map(|(lane, seq)| Position { lane: LaneId(lane), seq }),
            },
            What::Call(call) => OpKind::Call(call),
        };
        let access = |touch: Touch| Access {
            block: BlockId(touch.block),
            place: touch.place,
            range: touch.start..touch.start.saturating_add(touch.bytes),
            mode: touch.mode,
        };
        let site = match self.site {
            Some((file, line, column)) => Some(Site { file: text(file)?, line, column }),
            None => None,
        };
        Some(Op {
            kind,
            engine: self.engine,
            device: DeviceId(self.device),
            stream: self.stream,
            position: Position { lane: LaneId(self.lane), seq: self.seq },
            accesses: self.accesses.into_iter().map(access).collect(),
            declared: self.declared,
            bytes: self.bytes,
            label: text(self.label)?,
            chunk: self.chunk,
            site,
            thread: self.thread,
            thread_known: Vec::new(),
            call: lengthen(self.call, &mut before.call),
            times: lengthen(self.times, &mut before.times),
        })
    }
}
