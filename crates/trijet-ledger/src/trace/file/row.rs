//! The row of an operation in a ledger file, with names as numbers and times as differences.
#![forbid(unsafe_code)]

use super::kind_row::KindRow;
use crate::base::id::{BlockId, DeviceId, LaneId, Position};
use crate::base::ledger::{
    Access, Declared, Engine, Mode, Op, OpKind, OrderedBy, Place, Route, Site, StreamClass, Times,
};
use crate::base::units::Nanos;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;

/// An access of an operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AccessRow {
    block: u64,
    place: Place,
    start: u64,
    bytes: u64,
    mode: Mode,
    ordered: OrderedBy,
}

/// An access before version 3. The row does not state whether the program or the library orders the
/// access.
#[derive(Debug, Deserialize)]
pub(super) struct OldAccessRow {
    block: u64,
    place: Place,
    start: u64,
    bytes: u64,
    mode: Mode,
}

/// An old row becomes an access that the program orders, because older versions assumed this.
impl From<OldAccessRow> for AccessRow {
    fn from(old: OldAccessRow) -> Self {
        let OldAccessRow { block, place, start, bytes, mode } = old;
        Self { block, place, start, bytes, mode, ordered: OrderedBy::Program }
    }
}

/// The start, as the difference in nanoseconds from the start in the previous row, and the duration
/// in nanoseconds.
type TimeSpan = Option<(i64, u64)>;

/// The source and the destination of a copy between devices.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct RouteRow(Option<(u32, u32)>);

/// The missing devices of a copy in a row before version 5. The type has no bytes in the file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NoRoute;

impl From<NoRoute> for RouteRow {
    fn from(NoRoute: NoRoute) -> Self {
        Self(None)
    }
}

/// The graph of a launch.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct GraphRow(Option<u64>);

/// The missing graph of a launch in a row before version 6. The type has no bytes in the file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct NoGraph;

impl From<NoGraph> for GraphRow {
    fn from(NoGraph: NoGraph) -> Self {
        Self(None)
    }
}

/// A row of the current version.
pub(super) type Row = RowOf<AccessRow, RouteRow, GraphRow>;
/// A row of version 5.
pub(super) type RowBefore6 = RowOf<AccessRow, RouteRow, NoGraph>;
/// A row of versions 3 and 4.
pub(super) type RowBefore5 = RowOf<AccessRow, NoRoute, NoGraph>;
/// A row of versions 1 and 2.
pub(super) type RowBefore3 = RowOf<OldAccessRow, NoRoute, NoGraph>;

/// An operation. `T` is the type of an access, `R` of the devices of a copy, `G` of the graph of a
/// launch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct RowOf<T, R, G> {
    kind: KindRow,
    engine: Engine,
    device: u32,
    stream: StreamClass,
    lane: u32,
    seq: u64,
    accesses: Vec<T>,
    declared: Declared,
    bytes: u64,
    route: R,
    graph: G,
    label: u32,
    chunk: Option<u64>,
    /// The number of the name of the source file, the line, and the column.
    site: Option<(u32, u32, u32)>,
    thread: u64,
    call: TimeSpan,
    times: TimeSpan,
}

/// The starts of the call and of the work in the last row that had them, in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Previous {
    call: u64,
    times: u64,
}

fn encode(times: Option<Times>, previous: &mut u64) -> TimeSpan {
    let times = times?;
    let difference = times.begin.0.wrapping_sub(*previous).cast_signed();
    *previous = times.begin.0;
    Some((difference, times.end.0.saturating_sub(times.begin.0)))
}

fn decode(span: TimeSpan, previous: &mut u64) -> Option<Times> {
    let (difference, duration) = span?;
    let begin = previous.wrapping_add(difference.cast_unsigned());
    *previous = begin;
    Some(Times { begin: Nanos(begin), end: Nanos(begin.saturating_add(duration)) })
}

impl Row {
    /// The row of an operation. `number` returns the number of a name.
    pub(super) fn of(
        op: &Op,
        previous: &mut Previous,
        mut number: impl FnMut(&str) -> u32,
    ) -> Self {
        let row = |access: &Access| AccessRow {
            block: access.block.0,
            place: access.place,
            start: access.range.start,
            bytes: access.range.end.saturating_sub(access.range.start),
            mode: access.mode,
            ordered: access.ordered,
        };
        Self {
            kind: op.kind.into(),
            engine: op.engine,
            device: op.device.0,
            stream: op.stream,
            lane: op.position.lane.0,
            seq: op.position.seq,
            accesses: op.accesses.iter().map(row).collect(),
            declared: op.declared,
            bytes: op.bytes,
            route: RouteRow(op.route.map(|route| (route.from.0, route.to.0))),
            graph: GraphRow(op.graph),
            label: number(&op.label),
            chunk: op.chunk,
            site: op.site.as_ref().map(|site| (number(&site.file), site.line, site.column)),
            thread: op.thread,
            call: encode(op.call, &mut previous.call),
            times: encode(op.times, &mut previous.times),
        }
    }
}

impl<T: Into<AccessRow>, R: Into<RouteRow>, G: Into<GraphRow>> RowOf<T, R, G> {
    /// The operation; `None` if `texts` has no name with a number of the row.
    pub(super) fn op(self, previous: &mut Previous, texts: &[Arc<str>]) -> Option<Op> {
        let text = |number: u32| {
            let text = texts.get(usize::try_from(number).ok()?)?;
            Some(Cow::Owned(text.as_ref().to_owned()))
        };
        let access = |row: AccessRow| Access {
            block: BlockId(row.block),
            place: row.place,
            range: row.start..row.start.saturating_add(row.bytes),
            mode: row.mode,
            ordered: row.ordered,
        };
        let site = match self.site {
            Some((file, line, column)) => Some(Site { file: text(file)?, line, column }),
            None => None,
        };
        let position = Position { lane: LaneId(self.lane), seq: self.seq };
        let RouteRow(route) = self.route.into();
        let route = route.map(|(from, to)| Route { from: DeviceId(from), to: DeviceId(to) });
        let GraphRow(graph) = self.graph.into();
        Some(Op {
            stream: self.stream,
            accesses: self.accesses.into_iter().map(|row| access(row.into())).collect(),
            declared: self.declared,
            bytes: self.bytes,
            route,
            graph,
            label: text(self.label)?,
            chunk: self.chunk,
            site,
            thread: self.thread,
            call: decode(self.call, &mut previous.call),
            times: decode(self.times, &mut previous.times),
            ..Op::new(OpKind::from(self.kind), self.engine, DeviceId(self.device), position)
        })
    }
}
