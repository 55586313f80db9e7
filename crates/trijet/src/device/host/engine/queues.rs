//! The queues of a host driver: the enqueued operations as a graph, with the edges that the laws
//! demand. Each function implements one law. No time passes and no bytes move here: an executor
//! takes operations that are ready and completes them (`simulate` on a modelled clock, `step` one
//! at a time, `threads` on CPU threads). `streams` and `events` implement the laws of streams and
//! events.
#![forbid(unsafe_code)]

use super::activity::Collector;
use super::ids::{NodeId, Point, SlotId};
use super::node::{Causes, Node};
use super::refuse;
use super::sharing::HardwareQueues;
use super::slot::{DeviceStreams, Kind, Slot};
use super::snapshot::SnapshotEvent;
use super::table::{Table, cleared};
use super::trail::Trail;
use super::work::{KernelWork, OpWork};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Engine;
use crate::base::panic::caught;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::args::ArgBlock;
use crate::device::culprit;
use crate::device::driver::StreamHandle;
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::{Memory, Span};
use crate::device::twin::{Cost, Twin};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of kernels that the queues keep for later launches. The same number is the
/// maximum number of clocks that the queues keep for later events.
pub(super) const SPARES_MAX: usize = 4096;

/// The queues of one host driver.
#[derive(Default)]
pub(in crate::device::host) struct Queues {
    pub(in crate::device::host) slots: Vec<Slot>,
    pub(super) spare_slots: Vec<SlotId>,
    pub(in crate::device::host) events: Table<SnapshotEvent>,
    nodes: Vec<Option<Node>>,
    spare_nodes: Vec<u32>,
    /// Kernels that have run. A later launch takes one of these kernels and allocates nothing.
    #[expect(
        clippy::vec_box,
        reason = "an operation holds its kernel in a box, and the box is kept"
    )]
    spare_kernels: Vec<Box<KernelWork>>,
    /// The number of operations that were enqueued so far.
    orders: u64,
    /// The clocks of destroyed events. Later events use the memory of these clocks.
    pub(super) spare_clocks: Vec<VectorClock>,
    /// Operations that no longer wait for another operation, until the executor takes them.
    pub(in crate::device::host) arrived: Vec<NodeId>,
    /// Memory that completed operations freed, until the pools account for it.
    pub(in crate::device::host) freed: Vec<Memory>,
    /// For each device: the default and the blocking streams, and the barrier of the legacy stream
    /// (law A13).
    pub(in crate::device::host) devices: Vec<DeviceStreams>,
    /// The error of each lost device, which every later call returns (law A40).
    lost: BTreeMap<DeviceId, Error>,
    /// Kernels with this name never end: a hung device.
    pub(in crate::device::host) never_ends: Option<String>,
    /// Operations that never complete, because of an injected fault.
    pub(in crate::device::host) stuck: Vec<NodeId>,
    /// The host function that was enqueued last. If the driver runs host functions one at a time,
    /// the next host function runs after it (law A28).
    pub(in crate::device::host) last_host_fn: Option<NodeId>,
    /// The hardware queues, if streams share them (law A47).
    pub(in crate::device::host) sharing: Option<HardwareQueues>,
    /// The times of operations under tags.
    pub(in crate::device::host) collector: Collector,
    /// During an exploration: the steps that completed operations.
    pub(in crate::device::host) trail: Option<Trail>,
}

/// Adds `node` if there is one. This is faster than `extend`.
pub(super) fn add_last(before: &mut SmallVec<[NodeId; 6]>, node: Option<NodeId>) {
    if let Some(node) = node {
        before.push(node);
    }
}

impl Queues {
    pub(in crate::device::host) fn new(devices: u32, never_ends: Option<String>) -> Self {
        let devices = (0..devices).map(|_| DeviceStreams::default()).collect();
        Self { devices, never_ends, ..Self::default() }
    }

    /// Empties the queues and keeps their memory. Queued operations are dropped, including host
    /// functions of the user. So the caller must hold no lock.
    pub(in crate::device::host) fn cleared(mut self) -> Self {
        for event in self.events.values_mut() {
            let clock = event.take_clock();
            self.spare_clocks.extend(clock);
        }
        self.spare_clocks.truncate(SPARES_MAX);
        Self {
            slots: cleared(self.slots),
            spare_slots: cleared(self.spare_slots),
            events: self.events.cleared(),
            nodes: cleared(self.nodes),
            spare_nodes: cleared(self.spare_nodes),
            spare_kernels: self.spare_kernels,
            spare_clocks: self.spare_clocks,
            arrived: cleared(self.arrived),
            freed: cleared(self.freed),
            stuck: cleared(self.stuck),
            trail: self.trail.map(Trail::cleared),
            ..Self::default()
        }
    }

    /// Empty queues for a run of an exploration. The queues reuse the memory of the queues of an
    /// earlier run.
    pub(in crate::device::host) fn explored(
        earlier: Self,
        devices: u32,
        never_ends: Option<String>,
    ) -> Self {
        let Self { devices, never_ends, .. } = Self::new(devices, never_ends);
        let trail = earlier.trail.or_else(|| Some(Trail::default()));
        Self { devices, never_ends, trail, ..earlier }
    }

    pub(in crate::device::host) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.at as usize)?.as_ref().filter(|node| node.id == id)
    }

    pub(super) fn node_mut(&mut self, id: NodeId) -> Option<&mut Node> {
        self.nodes.get_mut(id.at as usize)?.as_mut().filter(|node| node.id == id)
    }

    /// Law A1: operations of one stream run in the order of the enqueue calls. Law A13: the legacy
    /// stream and the blocking streams wait for each other. `waits` are additional edges (law A7).
    pub(in crate::device::host) fn push(
        &mut self,
        op: &'static str,
        on: SlotId,
        enqueued: Nanos,
        work: OpWork,
        waits: &[NodeId],
    ) -> Result<NodeId> {
        let mut before = SmallVec::new();
        self.law_a1_edges(on, waits, &mut before)?;
        self.law_a13_edges(on, &mut before);
        self.law_a47_edges(on, &work, &mut before);
        let id = self.add(op, on, enqueued, work, &before)?;
        if self.slots[on.index()].kind == Kind::Legacy {
            self.raise_barrier(on, id);
        }
        Ok(id)
    }

    /// Makes later operations of the stream wait until `waits` are complete. Three kinds of calls
    /// need this: waits for events, records, and allocations of memory whose free is not complete.
    /// Such a call is no operation of the stream, so it makes neither the legacy stream nor the
    /// blocking streams wait (laws A4 and A13).
    pub(in crate::device::host) fn hold(
        &mut self,
        op: &'static str,
        on: SlotId,
        enqueued: Nanos,
        work: OpWork,
        waits: &[NodeId],
    ) -> Result<NodeId> {
        let mut before = SmallVec::new();
        self.law_a1_edges(on, waits, &mut before)?;
        self.law_a47_edges(on, &work, &mut before);
        self.add(op, on, enqueued, work, &before)
    }

    /// Law A1: the next node of a stream follows the last node of the stream, and the nodes
    /// `waits`.
    #[inline(always)]
    fn law_a1_edges(
        &self,
        on: SlotId,
        waits: &[NodeId],
        before: &mut SmallVec<[NodeId; 6]>,
    ) -> Result<()> {
        let slot = &self.slots[on.index()];
        self.check_lost(slot.device)?;
        before.extend_from_slice(waits);
        add_last(before, slot.last);
        Ok(())
    }

    fn add(
        &mut self,
        op: &'static str,
        on: SlotId,
        enqueued: Nanos,
        work: OpWork,
        before: &[NodeId],
    ) -> Result<NodeId> {
        let at = match self.spare_nodes.pop() {
            Some(at) => at,
            None => {
                self.nodes.push(None);
                u32::try_from(self.nodes.len() - 1).map_err(|_| {
                    refuse::memory(
                        op,
                        "2^32 operations are pending; synchronize before enqueuing more",
                    )
                })?
            }
        };
        self.orders += 1;
        let id = NodeId { order: self.orders, at };
        let (mut missing, mut causes) = (0, Causes::new());
        let mut follows_host = matches!(work, OpWork::HostFn(_));
        for other in before {
            if let Some(node) = self.node_mut(*other) {
                follows_host |= node.follows_host;
                if !node.after.contains(&id) {
                    node.after.push(id);
                    missing += 1;
                }
            } else if let Some(trail) = &self.trail {
                causes.extend_from_slice(trail.finished(*other));
            }
        }
        if let Some(trail) = &mut self.trail {
            causes.push(trail.step);
            trail.add_memory(&work);
            trail.add_point(on, id);
            trail.enqueue(id, on, work.engine(), before);
        }
        let slot = &mut self.slots[on.index()];
        slot.submitted += 1;
        slot.last = Some(id);
        let node = Node {
            id,
            slot: on,
            seq: slot.submitted,
            device: slot.device,
            priority: slot.priority,
            engine: work.engine(),
            enqueued,
            // The last operation of the stream may be complete already. The new operation starts
            // after the end of the last operation.
            ready: slot.clock,
            missing,
            follows_host,
            after: SmallVec::new(),
            causes,
            culprit: culprit::get(),
            work,
        };
        if node.engine != Engine::None {
            self.collector.enqueued(id);
        }
        self.nodes[at as usize] = Some(node);
        if missing == 0 {
            self.arrived.push(id);
        }
        Ok(id)
    }

    /// Takes the work of an operation, for a thread that runs it without the lock. The node stays,
    /// so that later operations wait for it.
    pub(in crate::device::host) fn lend(&mut self, id: NodeId) -> Option<OpWork> {
        let node = self.node_mut(id)?;
        let mut touches = false;
        node.work.each_access(|span, _| touches |= span.bytes() > 0);
        Some(std::mem::replace(&mut node.work, OpWork::Lent { touches }))
    }

    /// Whether a pending operation uses some of these bytes. Work that a thread has taken does not
    /// count.
    pub(in crate::device::host) fn has_user(&self, bytes: &Span) -> bool {
        let mut found = false;
        for node in self.nodes.iter().flatten() {
            node.work.each_access(|span, _| found |= span.overlaps(bytes));
        }
        found
    }

    /// Completes an operation. Operations that waited for it may then be ready.
    pub(in crate::device::host) fn complete(&mut self, id: NodeId, now: Nanos) {
        let Some(place) = self.nodes.get_mut(id.at as usize) else { return };
        // If a device is lost while one of its host functions runs, the loss completes the host
        // function. Then the table of nodes has no node of the host function here.
        let Some(node) = place.as_mut().filter(|node| node.id == id) else { return };
        // A node is large, so moving the whole node would cost more than all other work here. So
        // the parts of the node are taken separately.
        let (on, seq, after) = (node.slot, node.seq, std::mem::take(&mut node.after));
        let work = std::mem::replace(&mut node.work, OpWork::Mark);
        let causes = self.trail.as_mut().map_or_else(Causes::new, |trail| trail.finish(node));
        *place = None;
        self.spare_nodes.push(id.at);
        self.collector.ended(id, now);
        let slot = &mut self.slots[on.index()];
        slot.done = seq;
        slot.clock = slot.clock.max(now);
        match work {
            OpWork::Time { event, generation } => self.note_time(event, generation, now),
            OpWork::Free(memory) => self.freed.push(memory),
            OpWork::Kernel(kernel) => self.keep_kernel(kernel),
            OpWork::Mark
            | OpWork::Copy(_)
            | OpWork::Batch(_)
            | OpWork::Fill { .. }
            | OpWork::HostFn(_)
            | OpWork::Conditional(_)
            | OpWork::Lent { .. } => {}
        }
        for next in &after {
            let Some(later) = self.node_mut(*next) else { continue };
            later.missing -= 1;
            later.ready = later.ready.max(now);
            if !causes.is_empty() {
                later.causes.extend_from_slice(&causes);
            }
            if later.missing == 0 {
                self.arrived.push(*next);
            }
        }
        self.drop_drained(on);
    }

    /// The work of a launch. Reuses the memory of a kernel that has run, if there is one.
    pub(in crate::device::host) fn kernel(
        &mut self,
        name: &Arc<str>,
        twin: Twin,
        args: &ArgBlock,
        config: LaunchConfig,
    ) -> Box<KernelWork> {
        match self.spare_kernels.pop() {
            Some(mut kernel) => {
                // A comparison costs less than two changes of a reference count.
                if !Arc::ptr_eq(&kernel.name, name) {
                    kernel.name = Arc::clone(name);
                }
                (kernel.twin, kernel.config) = (twin, config);
                kernel.args.copy_from(args);
                kernel
            }
            None => {
                let (name, args, cost) = (Arc::clone(name), args.clone(), Cost::default());
                Box::new(KernelWork { name, twin, args, config, tile_elements: 0, cost, linked: 0 })
            }
        }
    }

    fn keep_kernel(&mut self, mut kernel: Box<KernelWork>) {
        if self.spare_kernels.len() < SPARES_MAX {
            kernel.args.clear();
            self.spare_kernels.push(kernel);
        }
    }

    /// Whether all operations of the stream up to the point are complete.
    pub(in crate::device::host) fn completed(&self, point: Point) -> bool {
        self.slots[point.slot.index()].done >= point.seq
    }

    /// The last operation of a stream. It may be complete.
    pub(in crate::device::host) fn last_of(&self, slot: SlotId) -> Option<NodeId> {
        self.slots[slot.index()].last
    }

    /// The operation at a point. A complete operation is found only during an exploration, which
    /// needs the steps that completed the operation.
    pub(in crate::device::host) fn node_at(&self, point: Point) -> Option<NodeId> {
        if let Some(trail) = &self.trail {
            return trail.node_at(point);
        }
        let mut nodes = self.nodes.iter().flatten();
        nodes.find(|n| n.slot == point.slot && n.seq == point.seq).map(|n| n.id)
    }

    /// Whether an operation never ends: a hung device.
    pub(super) fn hangs(&self, node: &Node) -> bool {
        if let (OpWork::Kernel(kernel), Some(name)) = (&node.work, &self.never_ends) {
            return *kernel.name == **name;
        }
        self.stuck.contains(&node.id)
    }

    /// Law A40: the context of the device is lost.
    /// - Queued operations lose their work but keep their edges. So an operation of another device
    ///   that waits for a queued operation still waits for the operations before the queued
    ///   operation.
    /// - An operation whose bytes a thread is using stays until the thread is done.
    /// - A running host function that uses no bytes is completed now.
    /// - Queued host functions are dropped without a call (law A29).
    pub(in crate::device::host) fn lose(&mut self, device: DeviceId, error: Error, now: Nanos) {
        self.lost.entry(device).or_insert(error);
        let step = self.trail.as_ref().map(|trail| trail.step);
        let mut over = Vec::new();
        for node in self.nodes.iter_mut().flatten().filter(|node| node.device == device) {
            node.causes.extend(step);
            match node.work {
                OpWork::Lent { touches: true } => continue,
                OpWork::Lent { touches: false } => over.push(node.id),
                OpWork::Mark
                | OpWork::Time { .. }
                | OpWork::Free(_)
                | OpWork::Copy(_)
                | OpWork::Batch(_)
                | OpWork::Fill { .. }
                | OpWork::Kernel(_)
                | OpWork::Conditional(_)
                | OpWork::HostFn(_) => {}
            }
            // A free also loses its work, because the pool of the memory is lost with the device.
            let work = std::mem::replace(&mut node.work, OpWork::Mark);
            node.engine = Engine::None;
            if node.missing == 0 {
                self.arrived.push(node.id);
            }
            // The drop of a closure drops values of the user, and may panic. The lock of the driver
            // is held, so the panic is caught.
            drop(caught(|| drop(work)));
        }
        let nodes = &self.nodes;
        let of_device = |id: &NodeId| nodes[id.at as usize].as_ref().map(|node| node.device);
        self.stuck.retain(|id| of_device(id) != Some(device));
        over.sort_unstable();
        over.into_iter().for_each(|id| self.complete(id, now));
    }

    /// Law A40: an operation has failed, and its device is lost. From now on the operation uses no
    /// bytes.
    pub(in crate::device::host) fn fail(&mut self, id: NodeId, error: Error, now: Nanos) {
        let Some(node) = self.node(id) else { return };
        let device = node.device;
        let error = error.on(device).with_culprit(node.culprit);
        self.lose(device, error, now);
        self.complete(id, now);
    }

    pub(in crate::device::host) fn check_lost(&self, device: DeviceId) -> Result<()> {
        match self.lost.get(&device) {
            Some(error) => Err(error.again()),
            None => Ok(()),
        }
    }

    /// The error of a wait for `target` that would never end. The error names the chain of
    /// operations that wait for each other.
    pub(in crate::device::host) fn stalled(
        &self,
        op: &'static str,
        target: Option<Point>,
    ) -> Error {
        let mut chain = Vec::new();
        let first = |slot: SlotId| {
            self.nodes.iter().flatten().filter(|n| n.slot == slot).min_by_key(|n| n.seq)
        };
        let mut at = target.and_then(|point| first(point.slot));
        while let Some(node) = at {
            let stream = self.handle_of(node.slot).0;
            if self.hangs(node) {
                let what = if let OpWork::Kernel(kernel) = &node.work {
                    format!("kernel `{}`", kernel.name)
                } else {
                    format!("operation {}, {},", node.seq, node.work.name())
                };
                chain.push(format!("{what} in stream {stream} never ends"));
                break;
            }
            let before = self.nodes.iter().flatten().find(|n| n.after.contains(&node.id));
            chain.push(match before {
                Some(before) => {
                    let on = self.handle_of(before.slot).0;
                    format!("stream {stream} waits for stream {on}, operation {}", before.seq)
                }
                None => format!("stream {stream} cannot start its operation {}", node.seq),
            });
            at = before;
            if chain.len() > self.nodes.len() {
                break;
            }
        }
        Error::new(ErrorKind::Stalled, op, chain.join("; "))
    }

    pub(super) fn handle_of(&self, slot: SlotId) -> StreamHandle {
        self.slots[slot.index()].handle
    }
}
