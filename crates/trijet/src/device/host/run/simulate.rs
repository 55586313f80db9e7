//! The virtual executor with modelled time: a discrete-event simulation of the engines of each
//! device. The bytes are real, the cost model gives the times, and the order policy makes every
//! choice. Operations run only inside calls that wait or query.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use crate::device::host::cost::CostModel;
use crate::device::host::engine::exec;
use crate::device::host::engine::ids::NodeId;
use crate::device::host::engine::node::Node;
use crate::device::host::engine::queues::Queues;
use crate::device::host::engine::work::{HostFnCall, OpWork};
use crate::device::host::fault::Faults;
use crate::device::host::order::StepPolicy;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Maximum number of parts of an operation. The number is at least 4, so that other operations can
/// run in the middle of a copy.
const PARTS: usize = 4;

/// An operation that occupies an engine.
struct RunningOp {
    node: NodeId,
    parts: SmallVec<[u64; PARTS]>,
    units: u64,
    /// The index in `parts` of the part that runs.
    at: usize,
}

/// An entry of the agenda: an event of the simulation at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The operation becomes visible to the device: the call that enqueued it has taken effect, or
    /// a delay by the policy is over.
    Visible(NodeId),
    /// A part of the operation ends on this engine.
    Part(NodeId, StationId),
}

/// One engine of a device.
#[derive(Default)]
struct Station {
    /// The operations that can start, in order of priority and then age. For each stream, the list
    /// has at most one operation.
    ready: Vec<((i32, NodeId), Hold)>,
    running: SmallVec<[RunningOp; 1]>,
}

impl Station {
    fn find(&self, id: NodeId) -> Option<usize> {
        self.running.iter().position(|running| running.node == id)
    }
}

/// The identifier of an engine of a device: the index in [`Simulation::stations`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StationId(usize);

impl StationId {
    const ENGINES: [Engine; 7] = [
        Engine::Upload,
        Engine::Compute,
        Engine::Download,
        Engine::Peer,
        Engine::Host,
        Engine::None,
        Engine::Communication,
    ];

    fn of(device: DeviceId, engine: Engine) -> Self {
        Self(device.0 as usize * Self::ENGINES.len() + engine as usize)
    }

    fn engine(self) -> Engine {
        Self::ENGINES[self.0 % Self::ENGINES.len()]
    }

    /// The station of another engine of the same device.
    fn beside(self, engine: Engine) -> Self {
        Self(self.0 - self.engine() as usize + engine as usize)
    }
}

pub(in crate::device::host) struct Simulation {
    /// The time up to which the devices are simulated.
    now: Nanos,
    /// The time up to which the host has worked.
    host: Nanos,
    pub(super) policy: StepPolicy,
    cost: CostModel,
    /// The engines. The index is the number in a [`StationId`].
    stations: Vec<Station>,
    /// The operations that `settle` found. The list is kept only to reuse its memory.
    found: Vec<(NodeId, Nanos)>,
    /// The entries of the agenda that are due at one time. The list is kept only to reuse its
    /// memory.
    due: Vec<Reverse<(Nanos, u64, Due)>>,
    agenda: BinaryHeap<Reverse<(Nanos, u64, Due)>>,
    ticket: u64,
    threads: usize,
}

/// Whether the policy may still delay the start of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    NotYet,
    Over,
}

/// The result of one step.
pub(super) enum Step {
    Moved,
    /// A host function is due. The caller runs it without the lock, and then completes the
    /// operation.
    Call(NodeId, HostFnCall),
    /// Nothing more happens until the time limit.
    Quiet,
    /// Nothing is pending: no operation will ever complete.
    Idle,
}

impl Simulation {
    pub(in crate::device::host) fn new(
        policy: StepPolicy,
        cost: CostModel,
        threads: usize,
    ) -> Self {
        Self {
            now: Nanos(0),
            host: Nanos(0),
            policy,
            cost,
            stations: Vec::new(),
            found: Vec::new(),
            due: Vec::new(),
            agenda: BinaryHeap::new(),
            ticket: 0,
            threads,
        }
    }

    pub(in crate::device::host) fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// Adds the duration `time` of a call to the time of the host, and returns the new time.
    pub(in crate::device::host) fn host_call(&mut self, time: Nanos) -> Nanos {
        self.host = Nanos(self.host.0.max(self.now.0) + time.0);
        self.host
    }

    pub(in crate::device::host) fn host_time(&self) -> Nanos {
        self.host.max(self.now)
    }

    /// Advances the time of the host to the time of the devices, after a wait.
    pub(super) fn host_waited(&mut self) {
        self.host = self.host.max(self.now);
    }

    /// Starts operations that can start. Then advances to the time of the next entry of the agenda,
    /// unless this time is after `limit`.
    pub(super) fn step(&mut self, queues: &mut Queues, faults: &Faults, limit: Nanos) -> Step {
        let arrived = !queues.arrived.is_empty();
        if arrived {
            self.settle(queues);
        }
        let moved = self.start(queues, faults) || arrived;
        let Some(Reverse((next, ..))) = self.agenda.peek().copied() else {
            return if moved { Step::Moved } else { Step::Idle };
        };
        if next > limit {
            return if moved { Step::Moved } else { Step::Quiet };
        }
        self.now = self.now.max(next);
        match self.pop_due() {
            None => Step::Moved,
            Some(Due::Visible(node)) => {
                self.make_ready(queues, node, Hold::Over);
                Step::Moved
            }
            Some(Due::Part(node, station)) => self.finish_part(queues, faults, node, station),
        }
    }

    /// Removes and returns an entry that is due now. If several entries are due, the policy
    /// chooses.
    fn pop_due(&mut self) -> Option<Due> {
        if matches!(self.policy, StepPolicy::Greedy) {
            return self.agenda.pop().map(|Reverse((.., due))| due);
        }
        let first = self.agenda.pop()?;
        let is_due = |Reverse((time, ..)): &Reverse<(Nanos, u64, Due)>| *time <= self.now;
        if !self.agenda.peek().is_some_and(is_due) {
            // A number is drawn even for a single entry. Otherwise the known seeds would lead to
            // other runs.
            self.policy.pick(1);
            let Reverse((_, _, only)) = first;
            return Some(only);
        }
        self.due.push(first);
        while self.agenda.peek().is_some_and(is_due) {
            self.due.extend(self.agenda.pop());
        }
        let Reverse((_, _, chosen)) = self.due.swap_remove(self.policy.pick(self.due.len()));
        self.agenda.extend(self.due.drain(..));
        Some(chosen)
    }

    fn put_off(&mut self, until: Nanos, due: Due) {
        self.ticket += 1;
        self.agenda.push(Reverse((until, self.ticket, due)));
    }

    /// Takes the operations that no longer wait for another operation.
    fn settle(&mut self, queues: &mut Queues) {
        let (now, mut found) = (self.now, std::mem::take(&mut self.found));
        queues.settle(now, |node| found.push((node.id, node.enqueued.max(node.ready))));
        for (id, at) in found.drain(..) {
            if at > now {
                self.put_off(at, Due::Visible(id));
            } else {
                self.make_ready(queues, id, Hold::NotYet);
            }
        }
        self.found = found;
    }

    fn station(&mut self, station: StationId) -> &mut Station {
        if station.0 >= self.stations.len() {
            self.stations.resize_with(station.0 + 1, Station::default);
        }
        &mut self.stations[station.0]
    }

    fn make_ready(&mut self, queues: &mut Queues, id: NodeId, hold: Hold) {
        let Some(node) = queues.node(id) else { return };
        if node.engine == Engine::None {
            queues.complete(id, self.now);
            return;
        }
        let key = (node.priority, id);
        let ready = &mut self.station(StationId::of(node.device, node.engine)).ready;
        let at = ready.partition_point(|(other, _)| *other < key);
        ready.insert(at, (key, hold));
    }

    /// Starts operations until no engine is free or no operation is ready. Returns false if no
    /// operation was ready.
    fn start(&mut self, queues: &mut Queues, faults: &Faults) -> bool {
        let mut any = false;
        for station in (0..self.stations.len()).map(StationId) {
            if self.stations[station.0].ready.is_empty() {
                continue;
            }
            let computes = station.engine() == Engine::Compute;
            let limit = if computes { self.policy.kernels_at_once() } else { 1 };
            loop {
                let Station { ready, running } = &mut self.stations[station.0];
                if ready.is_empty() || running.len() >= limit {
                    break;
                }
                let (key, hold) = ready.remove(self.policy.pick(ready.len()));
                any = true;
                let held = if hold == Hold::NotYet { self.policy.hold() } else { Nanos(0) };
                if held > Nanos(0) {
                    self.put_off(Nanos(self.now.0 + held.0), Due::Visible(key.1));
                } else if let Some(node) = queues.node(key.1) {
                    self.begin(node, station, faults);
                    queues.collector.began(key.1, self.now);
                }
            }
        }
        any
    }

    fn begin(&mut self, node: &Node, station: StationId, faults: &Faults) {
        let units = node.work.units();
        let mut parts: SmallVec<[u64; PARTS]> = (0..units.min(PARTS as u64)).collect();
        self.policy.arrange(&mut parts);
        let first = self.part_time(&node.work, parts.len() as u64, station);
        let copies = matches!(station.engine(), Engine::Upload | Engine::Download | Engine::Peer);
        let latency = if copies { self.cost.copy_latency } else { Nanos(0) };
        let time = faults.slowed(node.id, Nanos(latency.0 + self.policy.stretch(first).0));
        self.put_off(Nanos(self.now.0 + time.0), Due::Part(node.id, station));
        let running = RunningOp { node: node.id, parts, units, at: 0 };
        self.station(station).running.push(running);
    }

    /// The modelled duration of one of `parts` parts of an operation, if it starts now.
    fn part_time(&self, work: &OpWork, parts: u64, station: StationId) -> Nanos {
        let beside = |engine| self.stations.get(station.beside(engine).0);
        let busy = |engine| beside(engine).is_some_and(|station| !station.running.is_empty());
        let bytes = work.bytes() / parts;
        let engine = station.engine();
        if matches!(engine, Engine::Upload | Engine::Download | Engine::Peer) {
            let other_direction = (engine == Engine::Upload && busy(Engine::Download))
                || (engine == Engine::Download && busy(Engine::Upload));
            return self.cost.link(bytes, other_direction);
        }
        match work {
            OpWork::Kernel(kernel) => {
                let computing = self.cost.kernel(kernel.cost);
                Nanos(computing.max(self.cost.kernel_link(kernel.linked)).0 / parts)
            }
            OpWork::HostFn(_) => self.cost.host_fn,
            OpWork::Mark
            | OpWork::Time { .. }
            | OpWork::Free(_)
            | OpWork::Copy(_)
            | OpWork::Batch(_)
            | OpWork::Fill { .. }
            | OpWork::Conditional(_)
            | OpWork::Lent { .. } => Nanos(self.cost.on_device(work.bytes()).0 / parts),
        }
    }

    fn finish_part(
        &mut self,
        queues: &mut Queues,
        faults: &Faults,
        id: NodeId,
        station: StationId,
    ) -> Step {
        let Some(index) = self.stations[station.0].find(id) else { return Step::Moved };
        let Some(node) = queues.node(id).filter(|node| node.engine != Engine::None) else {
            // The device was lost while the operation ran.
            self.stop(station, index);
            return Step::Moved;
        };
        if matches!(node.work, OpWork::HostFn(_)) {
            let Some(OpWork::HostFn(called)) = queues.lend(id) else { return Step::Moved };
            return Step::Call(id, called);
        }
        let RunningOp { parts, units, at, .. } = &self.stations[station.0].running[index];
        let (part, count, last) = (parts[*at], parts.len() as u64, *at + 1 == parts.len());
        let range = part * units / count..(part + 1) * units / count;
        let outcome =
            faults.outcome(node).and_then(|()| exec::run(&node.work, range, self.threads));
        if let Err(error) = outcome {
            self.stop(station, index);
            // The error is not returned here, because the caller may wait for another device, which
            // is not lost. A wait for this device gets the error from `check_lost` (law A10).
            queues.fail(id, error, self.now);
            return Step::Moved;
        }
        if last {
            self.stop(station, index);
            queues.complete(id, self.now);
            return Step::Moved;
        }
        let nominal = self.part_time(&node.work, count, station);
        let time = faults.slowed(id, self.policy.stretch(nominal));
        self.stations[station.0].running[index].at += 1;
        self.put_off(Nanos(self.now.0 + time.0), Due::Part(id, station));
        Step::Moved
    }

    fn find_running(&self, id: NodeId) -> Option<(StationId, usize)> {
        (0..)
            .map(StationId)
            .zip(&self.stations)
            .find_map(|(at, station)| station.find(id).map(|index| (at, index)))
    }

    fn stop(&mut self, station: StationId, index: usize) {
        self.stations[station.0].running.swap_remove(index);
    }

    /// Completes the operation `id` after its host function has returned.
    pub(super) fn host_fn_done(&mut self, queues: &mut Queues, id: NodeId) {
        if let Some((station, index)) = self.find_running(id) {
            self.stop(station, index);
        }
        queues.complete(id, self.now);
    }
}
