//! The virtual executor that keeps time: a discrete-event simulation of the device's engines. Bytes
//! are real; time is the cost model's; where the laws leave a choice, the order policy makes it.
//! Nothing runs until somebody waits or asks.
#![forbid(unsafe_code)]

use super::cost::CostModel;
use super::engine::{Engine, Node, NodeId, Work};
use super::exec;
use super::fault::Faults;
use super::order::Policy;
use crate::base::id::DeviceId;
use crate::base::ledger::Engine as Role;
use crate::base::units::Nanos;
use crate::device::driver::HostFn;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Parts of one operation; at least 4, so that a copy can be seen half done.
const PARTS: u64 = 4;

/// An operation that occupies an engine.
struct Running {
    node: NodeId,
    parts: Vec<u64>,
    units: u64,
    /// The part that is being run.
    at: usize,
}

/// What becomes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The host's call takes effect on the device, or the policy lets go.
    Visible(NodeId),
    /// A part of an operation ends.
    Part(NodeId),
}

/// An engine of a device.
type Place = (DeviceId, Role);

pub(super) struct Simulation {
    /// How far the device has been simulated.
    now: Nanos,
    /// The clock of the enqueuing host.
    host: Nanos,
    pub(super) policy: Policy,
    cost: CostModel,
    /// Operations that may start, by urgency and age.
    ready: BTreeMap<Place, BTreeMap<(i32, NodeId), Hold>>,
    running: BTreeMap<Place, Vec<Running>>,
    agenda: BinaryHeap<Reverse<(Nanos, u64, Due)>>,
    ticket: u64,
    threads: usize,
}

/// Whether the policy has held an operation back already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    NotYet,
    Over,
}

/// What one step did.
pub(super) enum Step {
    Moved,
    /// A host function is due; run it without the lock, then complete the operation.
    Call(NodeId, HostFn),
    /// Nothing more happens before the limit.
    Quiet,
    /// Nothing will ever happen.
    Idle,
}

impl Simulation {
    pub(super) fn new(policy: Policy, cost: CostModel, threads: usize) -> Self {
        Self {
            now: Nanos(0),
            host: Nanos(0),
            policy,
            cost,
            ready: BTreeMap::new(),
            running: BTreeMap::new(),
            agenda: BinaryHeap::new(),
            ticket: 0,
            threads,
        }
    }

    pub(super) fn cost(&self) -> &CostModel {
        &self.cost
    }

    /// The host spends `time` in a call.
    pub(super) fn host_call(&mut self, time: Nanos) -> Nanos {
        self.host = Nanos(self.host.0.max(self.now.0) + time.0);
        self.host
    }

    /// The host waited for what is now complete.
    pub(super) fn host_waited(&mut self) {
        self.host = self.host.max(self.now);
    }

    /// Advances to the next moment at which anything changes, if it is not after `limit`.
    pub(super) fn step(&mut self, engine: &mut Engine, faults: &Faults, limit: Nanos) -> Step {
        let mut moved = !engine.arrived.is_empty();
        self.settle(engine);
        moved |= self.start(engine, faults);
        let Some(Reverse((next, ..))) = self.agenda.peek().copied() else {
            return if moved { Step::Moved } else { Step::Idle };
        };
        if next > limit {
            return if moved { Step::Moved } else { Step::Quiet };
        }
        self.now = self.now.max(next);
        let due = self.pop_due();
        match due {
            Due::Visible(node) => {
                self.make_ready(engine, node, Hold::Over);
                Step::Moved
            }
            Due::Part(node) => self.finish_part(engine, faults, node),
        }
    }

    /// One of the things that are due now; which one is the policy's choice.
    fn pop_due(&mut self) -> Due {
        let mut due = Vec::new();
        while let Some(Reverse((time, ..))) = self.agenda.peek()
            && *time <= self.now
        {
            due.extend(self.agenda.pop());
            if matches!(self.policy, Policy::Greedy) {
                break;
            }
        }
        let Reverse((_, _, chosen)) = due.swap_remove(self.policy.pick(due.len()));
        self.agenda.extend(due);
        chosen
    }

    fn put_off(&mut self, until: Nanos, due: Due) {
        self.ticket += 1;
        self.agenda.push(Reverse((until, self.ticket, due)));
    }

    /// Takes up what nothing holds back any more.
    fn settle(&mut self, engine: &mut Engine) {
        let mut later = Vec::new();
        let now = self.now;
        engine.settle(now, |node| later.push((node.id, node.enqueued.max(node.ready))));
        for (id, at) in later {
            if at > now {
                self.put_off(at, Due::Visible(id));
            } else {
                self.make_ready(engine, id, Hold::NotYet);
            }
        }
    }

    fn make_ready(&mut self, engine: &mut Engine, id: NodeId, hold: Hold) {
        let Some(node) = engine.node(id) else { return };
        if node.role == Role::None {
            engine.complete(id, self.now);
            return;
        }
        let place = (node.device, node.role);
        self.ready.entry(place).or_default().insert((node.priority, id), hold);
    }

    /// Starts what may start, until no engine is free or nothing is ready.
    fn start(&mut self, engine: &mut Engine, faults: &Faults) -> bool {
        let mut any = false;
        let places: Vec<Place> =
            self.ready.iter().filter(|(_, ready)| !ready.is_empty()).map(|(p, _)| *p).collect();
        for place in places {
            let limit = match place.1 {
                Role::Compute => self.policy.kernels_at_once(),
                _ => 1,
            };
            while self.running.get(&place).map_or(0, Vec::len) < limit {
                let Some(ready) = self.ready.get_mut(&place) else { break };
                if ready.is_empty() {
                    break;
                }
                let choice = self.policy.pick(ready.len());
                let Some((key, hold)) = ready.iter().nth(choice).map(|(key, hold)| (*key, *hold))
                else {
                    break;
                };
                ready.remove(&key);
                any = true;
                let held = if hold == Hold::NotYet { self.policy.hold() } else { Nanos(0) };
                if held > Nanos(0) {
                    self.put_off(Nanos(self.now.0 + held.0), Due::Visible(key.1));
                } else if let Some(node) = engine.node(key.1) {
                    self.begin(node, place, faults);
                }
            }
        }
        any
    }

    fn begin(&mut self, node: &Node, place: Place, faults: &Faults) {
        let units = exec::units(&node.work);
        let mut parts: Vec<u64> = (0..units.min(PARTS)).collect();
        self.policy.arrange(&mut parts);
        let first = self.part_time(&node.work, parts.len() as u64, place);
        let latency = match place.1 {
            Role::Upload | Role::Download | Role::Peer => self.cost.copy_latency,
            _ => Nanos(0),
        };
        let time = faults.slowed(node.id, Nanos(latency.0 + self.policy.stretch(first).0));
        self.put_off(Nanos(self.now.0 + time.0), Due::Part(node.id));
        let running = Running { node: node.id, parts, units, at: 0 };
        self.running.entry(place).or_default().push(running);
    }

    /// The model's time for one of `parts` parts of an operation, if it starts now.
    fn part_time(&self, work: &Work, parts: u64, (device, role): Place) -> Nanos {
        let busy = |role| self.running.get(&(device, role)).is_some_and(|r| !r.is_empty());
        let bytes = exec::bytes(work) / parts;
        match (work, role) {
            (_, Role::Upload) => self.cost.link(bytes, busy(Role::Download)),
            (_, Role::Download) => self.cost.link(bytes, busy(Role::Upload)),
            (_, Role::Peer) => self.cost.link(bytes, false),
            (Work::Kernel(kernel), _) => Nanos(self.cost.kernel(kernel.cost).0 / parts),
            (Work::HostFn(_), _) => self.cost.host_fn,
            _ => Nanos(self.cost.on_device(exec::bytes(work)).0 / parts),
        }
    }

    fn finish_part(&mut self, engine: &mut Engine, faults: &Faults, id: NodeId) -> Step {
        let Some((place, index)) = self.find_running(id) else { return Step::Moved };
        let Some(node) = engine.node_mut(id) else {
            // The device was lost while the operation ran.
            self.stop(place, index);
            return Step::Moved;
        };
        if let Work::HostFn(function) = &mut node.work
            && let Some(function) = function.take()
        {
            return Step::Call(id, function);
        }
        let Running { parts, units, at, .. } = &self.running[&place][index];
        let (part, count, last) = (parts[*at], parts.len() as u64, *at + 1 == parts.len());
        let range = part * units / count..(part + 1) * units / count;
        let outcome =
            faults.outcome(node).and_then(|()| exec::run(&node.work, range, self.threads));
        if let Err(error) = outcome {
            self.stop(place, index);
            // Whoever advances the simulation may wait for another device, which is not lost: those
            // who wait for this one ask the engine (law A10).
            engine.lose(place.0, error.on(place.0), self.now);
            return Step::Moved;
        }
        if last {
            self.stop(place, index);
            engine.complete(id, self.now);
            return Step::Moved;
        }
        let nominal = self.part_time(&node.work, count, place);
        let time = faults.slowed(id, self.policy.stretch(nominal));
        if let Some(running) = self.running.get_mut(&place) {
            running[index].at += 1;
        }
        self.put_off(Nanos(self.now.0 + time.0), Due::Part(id));
        Step::Moved
    }

    fn find_running(&self, id: NodeId) -> Option<(Place, usize)> {
        self.running.iter().find_map(|(place, running)| {
            running.iter().position(|r| r.node == id).map(|index| (*place, index))
        })
    }

    fn stop(&mut self, place: Place, index: usize) {
        if let Some(running) = self.running.get_mut(&place) {
            running.swap_remove(index);
        }
    }

    /// The host function of `id` returned.
    pub(super) fn host_fn_done(&mut self, engine: &mut Engine, id: NodeId) {
        if let Some((place, index)) = self.find_running(id) {
            self.stop(place, index);
        }
        engine.complete(id, self.now);
    }
}
