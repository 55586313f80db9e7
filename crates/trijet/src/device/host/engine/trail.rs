//! The trail of one run of an exploration. It has the steps that completed each operation, and a
//! number for each region of memory. The numbers of the regions are the same in a repeated run.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point, SlotId};
use super::node::{Causes, Node};
use super::table::cleared;
use super::touches::Object;
use super::work::OpWork;
use crate::base::ledger::Engine;
use crate::device::region::HostBytes;
use smallvec::SmallVec;

/// A set of streams.
type StreamSet = SmallVec<[SlotId; 4]>;

/// The steps that completed operations. The queues forget complete operations, but the exploration
/// has to know which operations and steps come after them.
#[derive(Debug, Default)]
pub(in crate::device::host) struct Trail {
    /// The number of the running step.
    pub(in crate::device::host) step: u32,
    /// For each operation, the steps that completed it. The index is the number of the operation.
    /// Numbers start at 1.
    finished: Vec<Option<Causes>>,
    /// For each operation, the streams whose steps complete the operation and all operations before
    /// it. These streams do not depend on the order of the steps. The index is the number of the
    /// operation.
    streams: Vec<StreamSet>,
    /// The operations of each slot in order, including the operations of earlier streams of the
    /// slot.
    points: Vec<Vec<NodeId>>,
    /// The regions of memory, in the order in which operations first use them. The index is the
    /// number of the region.
    regions: Vec<HostBytes>,
}

impl Trail {
    fn region(&self, host: &HostBytes) -> Option<usize> {
        self.regions.iter().position(|other| other.shares_region(host))
    }

    /// Gives a number to each new region of memory that an operation uses.
    pub(super) fn add_memory(&mut self, work: &OpWork) {
        work.each_access(|span, _| {
            let Some(host) = span.memory().host() else { return };
            if self.region(host).is_none() {
                // The region is kept, so that no other memory gets its address in this run.
                self.regions.push(host.clone());
            }
        });
    }

    /// Calls `each` with the bytes that an operation touches. The bytes are named by the number of
    /// their region, because this number is the same in a repeated run.
    pub(in crate::device::host) fn touches(
        &self,
        work: &OpWork,
        mut each: impl FnMut(Object, bool),
    ) {
        work.each_access(|span, mode| {
            let Some(host) = span.memory().host() else { return };
            let Some(number) = self.region(host) else { return };
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            each(Object::Bytes(number, host.in_region(&span.range())), mode.writes());
        });
    }

    /// The operation at a point.
    pub(super) fn node_at(&self, point: Point) -> Option<NodeId> {
        let before = usize::try_from(point.seq).ok()?.checked_sub(1)?;
        self.points.get(point.slot.index())?.get(before).copied()
    }

    /// The steps that completed everything up to `point`.
    pub(in crate::device::host) fn causes_of(&self, point: Point) -> &[u32] {
        self.node_at(point).map_or(&[], |node| self.finished(node))
    }

    /// Adds an operation, which follows the operations `before`.
    pub(in crate::device::host) fn enqueue(
        &mut self,
        id: NodeId,
        on: SlotId,
        engine: Engine,
        before: &[NodeId],
    ) {
        let mut streams = StreamSet::new();
        if engine != Engine::None {
            streams.push(on);
        }
        for slot in before.iter().flat_map(|other| self.streams_of(*other)) {
            if !streams.contains(slot) {
                streams.push(*slot);
            }
        }
        let at = usize::try_from(id.order).unwrap_or(usize::MAX);
        if at >= self.streams.len() {
            self.streams.resize(at + 1, StreamSet::new());
        }
        self.streams[at] = streams;
    }

    fn streams_of(&self, id: NodeId) -> &[SlotId] {
        self.streams.get(usize::try_from(id.order).unwrap_or(usize::MAX)).map_or(&[], |all| all)
    }

    /// The streams whose steps complete everything up to `point`.
    pub(in crate::device::host) fn streams_before(&self, point: Point) -> &[SlotId] {
        self.node_at(point).map_or(&[], |node| self.streams_of(node))
    }

    /// The steps that completed an operation; no steps if the operation is not complete.
    pub(in crate::device::host) fn finished(&self, id: NodeId) -> &[u32] {
        let causes = self.finished.get(usize::try_from(id.order).unwrap_or(usize::MAX));
        causes.and_then(Option::as_deref).unwrap_or(&[])
    }

    /// Notes the steps that completed `node`, and returns them. An operation with an engine was
    /// completed by the running step. An operation without an engine was completed by the steps
    /// that it waited for.
    pub(in crate::device::host) fn finish(&mut self, node: &Node) -> Causes {
        let causes = if node.engine == Engine::None {
            Causes::from_slice(&node.causes)
        } else {
            Causes::from_slice(&[self.step])
        };
        let at = usize::try_from(node.id.order).unwrap_or(usize::MAX);
        if at >= self.finished.len() {
            self.finished.resize(at + 1, None);
        }
        self.finished[at] = Some(Causes::from_slice(&causes));
        causes
    }

    /// Empties the trail and keeps its memory.
    pub(super) fn cleared(self) -> Self {
        let mut points = self.points;
        points.iter_mut().for_each(Vec::clear);
        Self {
            finished: cleared(self.finished),
            streams: cleared(self.streams),
            points,
            regions: cleared(self.regions),
            step: 0,
        }
    }

    /// Adds the next operation of a stream.
    pub(super) fn add_point(&mut self, slot: SlotId, id: NodeId) {
        if slot.index() >= self.points.len() {
            self.points.resize_with(slot.index() + 1, Vec::new);
        }
        self.points[slot.index()].push(id);
    }
}
