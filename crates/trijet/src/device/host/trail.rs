//! What an exploration remembers of a run: which step completed which operation, and names for
//! memory that a repeated run gives again.
#![forbid(unsafe_code)]

use super::ids::{NodeId, Point, SlotId};
use super::node::{Causes, Node};
use super::table::cleared;
use super::touches::Object;
use super::work::Work;
use crate::base::ledger::Engine;
use crate::device::region::HostBytes;
use smallvec::SmallVec;

/// Streams, each once.
type Streams = SmallVec<[SlotId; 4]>;

/// Which step of an exploration completed which operation. An order between two operations that
/// the engine need not enforce any more is still an order.
#[derive(Debug, Default)]
pub(super) struct Trail {
    /// The step that is running.
    pub(super) step: u32,
    /// By the number of the operation among all of the driver, from 1.
    finished: Vec<Option<Causes>>,
    /// By the same number: the streams whose steps complete it, all before it included. They are the
    /// same in whatever order the steps come.
    streams: Vec<Streams>,
    /// The operations of each stream in order. Numbers of a stream go on when its place is used
    /// again.
    points: Vec<Vec<NodeId>>,
    /// Memory in the order in which it was first enqueued with.
    regions: Vec<HostBytes>,
}

impl Trail {
    fn region(&self, host: &HostBytes) -> Option<usize> {
        self.regions.iter().position(|other| other.shares_region(host))
    }

    /// An operation is enqueued: its memory has a number from now on.
    pub(super) fn meet(&mut self, work: &Work) {
        work.each_access(|span, _| {
            let Some(host) = span.memory().host() else { return };
            if self.region(host).is_none() {
                // It is kept, so that no other memory takes its place in this run.
                self.regions.push(host.clone());
            }
        });
    }

    /// What an operation touches, in names that do not depend on where memory lies.
    pub(super) fn touches(&self, work: &Work, mut each: impl FnMut(Object, bool)) {
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

    /// What completed everything up to `point`.
    pub(super) fn causes_of(&self, point: Point) -> &[u32] {
        self.node_at(point).map_or(&[], |node| self.finished(node))
    }

    /// An operation is enqueued in a stream, after others.
    pub(super) fn enqueue(
        &mut self,
        id: NodeId,
        (on, engine): (SlotId, Engine),
        before: &[NodeId],
    ) {
        let mut streams = Streams::new();
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
            self.streams.resize(at + 1, Streams::new());
        }
        self.streams[at] = streams;
    }

    fn streams_of(&self, id: NodeId) -> &[SlotId] {
        self.streams.get(usize::try_from(id.order).unwrap_or(usize::MAX)).map_or(&[], |all| all)
    }

    /// The streams whose steps complete everything up to `point`.
    pub(super) fn streams_before(&self, point: Point) -> &[SlotId] {
        self.node_at(point).map_or(&[], |node| self.streams_of(node))
    }

    /// What completed an operation, if it is complete.
    pub(super) fn finished(&self, id: NodeId) -> &[u32] {
        let causes = self.finished.get(usize::try_from(id.order).unwrap_or(usize::MAX));
        causes.and_then(Option::as_deref).unwrap_or(&[])
    }

    /// What follows from the completion of `node`: from the step that ran it, or, for what takes no
    /// step, from what it waited for.
    pub(super) fn finish(&mut self, node: &Node) -> Causes {
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

    /// Forgets everything but the memory of its lists.
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

    /// The next operation of a stream.
    pub(super) fn note(&mut self, slot: SlotId, id: NodeId) {
        if slot.index() >= self.points.len() {
            self.points.resize_with(slot.index() + 1, Vec::new);
        }
        self.points[slot.index()].push(id);
    }
}
