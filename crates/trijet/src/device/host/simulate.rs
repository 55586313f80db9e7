//! The virtual executor: a discrete-event simulation of the device's engines. Bytes are real;
//! time is the cost model's; where the laws leave a choice, the order policy makes it. Nothing
//! runs until somebody waits or asks.
#![forbid(unsafe_code)]

use super::cost::CostModel;
use super::engine::{Engine, Work};
use super::exec;
use super::order::{Order, Policy};
use crate::base::id::DeviceId;
use crate::base::ledger::Engine as Role;
use crate::base::units::Nanos;
use crate::device::driver::{HostFn, StreamHandle};
use std::collections::BTreeMap;
use std::ops::Range;

/// Parts of one operation; at least 4, so that a copy can be seen half done.
const PARTS: u64 = 4;

/// An operation that occupies an engine.
struct Running {
    stream: StreamHandle,
    device: DeviceId,
    role: Role,
    parts: Vec<u64>,
    units: u64,
    /// The part that ends at `until`.
    at: usize,
    until: Nanos,
}

pub(super) struct Simulation {
    /// How far the device has been simulated.
    now: Nanos,
    /// The clock of the enqueuing host.
    host: Nanos,
    policy: Policy,
    cost: CostModel,
    running: Vec<Running>,
    /// Operations held back by the policy, until when.
    held: BTreeMap<(u64, u64), Nanos>,
    threads: usize,
}

/// What one step did.
pub(super) enum Step {
    Moved,
    /// A host function is due; run it without the lock, then call [`Simulation::host_fn_done`].
    Call(StreamHandle, HostFn),
    /// Nothing more happens before the limit.
    Quiet,
    /// Nothing will ever happen.
    Idle,
}

impl Simulation {
    pub(super) fn new(order: Order, cost: CostModel, threads: usize) -> Self {
        Self {
            now: Nanos(0),
            host: Nanos(0),
            policy: Policy::new(order),
            cost,
            running: Vec::new(),
            held: BTreeMap::new(),
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
    pub(super) fn step(&mut self, engine: &mut Engine, limit: Nanos) -> Step {
        let mut moved = engine.retire(self.now);
        moved |= self.start(engine);
        let held = self.held.values().copied().filter(|time| *time > self.now).min();
        let part = self.running.iter().map(|r| r.until).min();
        let next = [part, held, engine.next_enqueue(self.now)].into_iter().flatten().min();
        let Some(next) = next else {
            return if moved { Step::Moved } else { Step::Idle };
        };
        if next > limit {
            return if moved { Step::Moved } else { Step::Quiet };
        }
        self.now = self.now.max(next);
        let due: Vec<usize> =
            (0..self.running.len()).filter(|i| self.running[*i].until <= self.now).collect();
        if due.is_empty() {
            return Step::Moved;
        }
        let index = due[self.policy.pick(due.len())];
        self.finish_part(engine, index)
    }

    /// Starts what may start, until no engine is free or nothing is ready.
    fn start(&mut self, engine: &mut Engine) -> bool {
        let mut any = false;
        loop {
            let mut ready = engine.startable(self.now);
            ready.retain(|(stream, device, role)| {
                let limit = if *role == Role::Compute { self.policy.kernels_at_once() } else { 1 };
                let busy =
                    self.running.iter().filter(|r| (r.device, r.role) == (*device, *role)).count();
                let seq = engine.streams[&stream.0].done + 1;
                busy < limit && self.held.get(&(stream.0, seq)).is_none_or(|t| *t <= self.now)
            });
            if ready.is_empty() {
                return any;
            }
            let (stream, device, role) = ready[self.policy.pick(ready.len())];
            let seq = engine.streams[&stream.0].done + 1;
            let hold = self.policy.hold();
            if hold.0 > 0 && !self.held.contains_key(&(stream.0, seq)) {
                self.held.insert((stream.0, seq), Nanos(self.now.0 + hold.0));
                continue;
            }
            self.held.remove(&(stream.0, seq));
            any = true;
            self.begin(engine, stream, device, role);
        }
    }

    fn begin(&mut self, engine: &mut Engine, stream: StreamHandle, device: DeviceId, role: Role) {
        let Some(queue) = engine.streams.get_mut(&stream.0) else { return };
        queue.running = true;
        let Some(entry) = queue.queue.front() else { return };
        let units = exec::units(&entry.work);
        let mut parts: Vec<u64> = (0..units.min(PARTS)).collect();
        self.policy.arrange(&mut parts);
        let first = self.part_time(&entry.work, units, parts.len() as u64, role, device);
        let latency = match role {
            Role::Upload | Role::Download | Role::Peer => self.cost.copy_latency,
            _ => Nanos(0),
        };
        let until = Nanos(self.now.0 + latency.0 + self.policy.stretch(first).0);
        self.running.push(Running { stream, device, role, parts, units, at: 0, until });
    }

    /// The model's time for one of `parts` parts of an operation, if it starts now.
    fn part_time(
        &self,
        work: &Work,
        units: u64,
        parts: u64,
        role: Role,
        device: DeviceId,
    ) -> Nanos {
        let busy = |role| self.running.iter().any(|r| r.device == device && r.role == role);
        match (work, role) {
            (_, Role::Upload) => self.cost.link(units / parts, busy(Role::Download)),
            (_, Role::Download) => self.cost.link(units / parts, busy(Role::Upload)),
            (_, Role::Peer) => self.cost.link(units / parts, false),
            (Work::Kernel(kernel), _) => Nanos(self.cost.kernel(kernel.cost).0 / parts),
            (Work::HostFn(_), _) => Nanos(1_800),
            _ => Nanos(self.cost.on_device(units).0 / parts),
        }
    }

    fn finish_part(&mut self, engine: &mut Engine, index: usize) -> Step {
        let run = &self.running[index];
        let (stream, device, role) = (run.stream, run.device, run.role);
        let (units, parts, part) = (run.units, run.parts.len() as u64, run.parts[run.at]);
        let Some(queue) = engine.streams.get_mut(&stream.0) else {
            self.running.swap_remove(index);
            return Step::Moved;
        };
        let Some(entry) = queue.queue.front_mut() else {
            // The device was lost while the operation ran.
            self.running.swap_remove(index);
            return Step::Moved;
        };
        if let Work::HostFn(function) = &mut entry.work
            && let Some(function) = function.take()
        {
            return Step::Call(stream, function);
        }
        let range: Range<u64> = part * units / parts..(part + 1) * units / parts;
        if let Err(error) = exec::run(&entry.work, range, self.threads) {
            self.running.swap_remove(index);
            // Whoever advances the simulation may wait for another device, which is not lost: those
            // who wait for this one ask the engine (law A10).
            engine.lose(device, error.on(device));
            return Step::Moved;
        }
        if self.running[index].at + 1 < self.running[index].parts.len() {
            let nominal = self.part_time(&entry.work, units, parts, role, device);
            let time = self.policy.stretch(nominal);
            self.running[index].at += 1;
            self.running[index].until = Nanos(self.now.0 + time.0);
        } else {
            self.running.swap_remove(index);
            engine.complete(stream, self.now);
        }
        Step::Moved
    }

    /// The host function of `stream` returned.
    pub(super) fn host_fn_done(&mut self, engine: &mut Engine, stream: StreamHandle) {
        self.running.retain(|r| r.stream != stream);
        engine.complete(stream, self.now);
    }
}
