//! The graph of a run as columns of numbers, for a page that replays it with the reader's changes.
#![forbid(unsafe_code)]

use super::edges::{CallOf, EdgeKind, RunEdge, WaitOf, index};
use super::fixes::{RunFix, RunFixes};
use super::run::{RunModel, length};
use crate::trace::activity::CopyDirection;
use crate::trace::html::{ColumnCode, Columns};
use std::ops::Range;

/// The number of the kind of an edge, as the script of the page has it.
fn code(kind: EdgeKind) -> u64 {
    match kind {
        EdgeKind::Start => 0,
        EdgeKind::Program => 1,
        EdgeKind::Call(CallOf::Sync) => 2,
        EdgeKind::Call(CallOf::Copy) => 3,
        EdgeKind::Call(CallOf::Staged) => 4,
        EdgeKind::Call(CallOf::Allocation) => 5,
        EdgeKind::Call(CallOf::Enqueue) => 6,
        EdgeKind::Call(CallOf::Other) => 7,
        EdgeKind::Launch => 8,
        EdgeKind::Stream { is_copy: [from, to] } => 9 + u64::from(from) + 2 * u64::from(to),
        EdgeKind::Between => 13,
        EdgeKind::Event => 23,
        EdgeKind::Graph => 24,
        EdgeKind::Legacy => 14,
        EdgeKind::Run => 15,
        EdgeKind::StagedCopy { is_waited_for: false, .. } => 16,
        EdgeKind::StagedCopy { is_waited_for: true, .. } => 22,
        EdgeKind::Awaited(WaitOf::Sync) => 17,
        EdgeKind::Awaited(WaitOf::Copy) => 18,
        EdgeKind::Awaited(WaitOf::Staged(CopyDirection::Upload)) => 19,
        EdgeKind::Awaited(WaitOf::Staged(_)) => 20,
        EdgeKind::Awaited(WaitOf::Allocation) => 21,
    }
}

/// The graph of a run in columns.
pub(in crate::profile) struct CodedRun {
    pub(in crate::profile) columns: Columns,
    /// For each moment of the graph, its number in the columns.
    pub(in crate::profile) numbers: Vec<u32>,
    /// The measured time in nanoseconds, and the time of the replay without a fix.
    pub(in crate::profile) measured: u64,
    pub(in crate::profile) replayed: u64,
    /// The fixes, each with the time of the replay with it.
    pub(in crate::profile) fixes: Vec<(RunFix, u64)>,
}

impl RunModel {
    /// The graph in columns, with the operations of a device inside `window` as the part whose time
    /// counts. `None` without such an operation.
    pub(in crate::profile) fn coded(&self, device: u32, window: &Range<u64>) -> Option<CodedRun> {
        let operations = self.inside(device, window);
        if operations.is_empty() {
            return None;
        }
        let order = self.moments.order();
        let mut numbers = vec![0_u32; order.len()];
        for (number, &moment) in (0_u32..).zip(order) {
            numbers[index(moment)] = number;
        }
        let mut columns = Columns::default();
        let edges_of = |moment: &u32| self.moments.edges_to(*moment);
        let counts = order.iter().map(|moment| edges_of(moment).len() as u64);
        columns.add("edges", ColumnCode::Plain, counts);
        let edges = || order.iter().flat_map(|to| edges_of(to).iter().map(move |edge| (*to, edge)));
        let back =
            |(to, edge): (u32, &RunEdge)| u64::from(numbers[index(to)] - numbers[index(edge.from)]);
        columns.add("back", ColumnCode::Plain, edges().map(back));
        columns.add("delay", ColumnCode::Plain, edges().map(|(_, edge)| edge.delay));
        columns.add("kind", ColumnCode::Plain, edges().map(|(_, edge)| code(edge.kind)));
        let cuts: Vec<(u64, u64)> = (0_u64..)
            .zip(edges())
            .filter_map(|(at, (to, edge))| Some((at, self.cut(to, edge)?)))
            .collect();
        columns.add("cutEdge", ColumnCode::Difference, cuts.iter().map(|(edge, _)| *edge));
        columns.add("cut", ColumnCode::Plain, cuts.iter().map(|(_, delay)| *delay));
        let measured = length(operations.iter().map(|one| [one.time.start, one.time.end]));
        let replay = |fixes| self.replay(&operations, fixes);
        let with = |fix| (fix, replay(RunFixes::default().with(fix)));
        let (replayed, fixes) = (replay(RunFixes::default()), RunFix::ALL.map(with).to_vec());
        Some(CodedRun { columns, numbers, measured, replayed, fixes })
    }
}
