//! An operation as it stands in a file: names by number, times as differences.
#![forbid(unsafe_code)]

use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Declared, Engine, Mode, Op, OpKind, OrderedBy, Place, Site, StreamClass, Times,
};
use crate::base::units::Nanos;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Touch {
    block: u64,
    place: Place,
    start: u64,
    bytes: u64,
    mode: Mode,
    ordered: OrderedBy,
}

/// The same before version 3, which did not say who orders it.
#[derive(Debug, Deserialize)]
pub(super) struct OlderTouch {
    block: u64,
    place: Place,
    start: u64,
    bytes: u64,
    mode: Mode,
}

/// It is judged as strictly as it was then: by what the program's calls order.
impl From<OlderTouch> for Touch {
    fn from(older: OlderTouch) -> Self {
        let OlderTouch { block, place, start, bytes, mode } = older;
        Self { block, place, start, bytes, mode, ordered: OrderedBy::Program }
    }
}

/// Begin as the difference to the begin of the row before, and duration.
type Span = Option<(i64, u64)>;

/// An operation as this version writes it.
pub(super) type Row = RowOf<Touch>;
/// One of an earlier version.
pub(super) type OlderRow = RowOf<OlderTouch>;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RowOf<T> {
    kind: OpKind,
    engine: Engine,
    device: u32,
    stream: StreamClass,
    lane: u32,
    seq: u64,
    accesses: Vec<T>,
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
        let touch = |access: &Access| Touch {
            block: access.block.0,
            place: access.place,
            start: access.range.start,
            bytes: access.range.end.saturating_sub(access.range.start),
            mode: access.mode,
            ordered: access.ordered,
        };
        Self {
            kind: op.kind.clone(),
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
}

impl<T: Into<Touch>> RowOf<T> {
    /// The operation, or `None` when a name has no number in `texts`.
    pub(super) fn op(self, before: &mut Before, texts: &[Arc<str>]) -> Option<Op> {
        let text = |number: u32| {
            let text = texts.get(usize::try_from(number).ok()?)?;
            Some(Cow::Owned(text.as_ref().to_owned()))
        };
        let access = |touch: Touch| Access {
            block: BlockId(touch.block),
            place: touch.place,
            range: touch.start..touch.start.saturating_add(touch.bytes),
            mode: touch.mode,
            ordered: touch.ordered,
        };
        let site = match self.site {
            Some((file, line, column)) => Some(Site { file: text(file)?, line, column }),
            None => None,
        };
        let position = Position { lane: LaneId(self.lane), seq: self.seq };
        Some(Op {
            stream: self.stream,
            accesses: self.accesses.into_iter().map(|touch| access(touch.into())).collect(),
            declared: self.declared,
            bytes: self.bytes,
            label: text(self.label)?,
            chunk: self.chunk,
            site,
            thread: self.thread,
            call: lengthen(self.call, &mut before.call),
            times: lengthen(self.times, &mut before.times),
            ..Op::new(self.kind, self.engine, DeviceId(self.device), position)
        })
    }
}
