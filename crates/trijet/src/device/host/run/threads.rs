//! The executor on CPU threads, which users without a GPU use. A worker thread for each engine runs
//! the oldest operation that is ready and conflicts with no running operation.
#![forbid(unsafe_code)]

use super::HostRun;
use crate::base::ledger::{Engine, Mode};
use crate::base::units::Nanos;
use crate::device::host::engine::exec;
use crate::device::host::engine::ids::NodeId;
use crate::device::host::engine::work::OpWork;
use crate::device::host::shared::{Guard, HostShared};
use crate::device::host::state::State;
use crate::device::memory::Span;
use std::sync::Arc;

/// The engine of each worker.
const ENGINES: [Engine; 5] =
    [Engine::Upload, Engine::Download, Engine::Peer, Engine::Compute, Engine::Host];

impl State {
    /// Completes operations that need no engine, and accounts for freed memory. Returns false if no
    /// operation arrived.
    pub(in crate::device::host) fn retire(&mut self, now: Nanos) -> bool {
        let HostRun::Threads(workers) = &mut self.run else { return false };
        let moved = !self.queues.arrived.is_empty();
        self.queues.settle(now, |node| {
            workers.ready.insert((node.priority, node.id), node.engine);
        });
        self.account_freed();
        moved
    }

    /// Whether no operation runs and no operation can start. Then no pending operation will ever
    /// complete.
    pub(super) fn is_idle(&mut self) -> bool {
        let HostRun::Threads(workers) = &mut self.run else { return false };
        workers.ready.retain(|(_, id), _| self.queues.node(*id).is_some());
        workers.running.is_empty() && workers.ready.is_empty()
    }
}

/// Starts the workers. They share the state of the driver. When the driver drops, each worker ends
/// after the operation that it runs.
///
/// # Errors
/// When the system does not start a thread.
pub(in crate::device::host) fn spawn(shared: &Arc<HostShared>) -> std::io::Result<()> {
    let names = ["upload", "download", "peer", "compute", "host-fn"];
    for (engine, name) in ENGINES.into_iter().zip(names) {
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name(format!("trijet-{name}"));
        thread.spawn(move || worker(&shared, engine))?;
    }
    Ok(())
}

fn worker(shared: &HostShared, engine: Engine) {
    let mut state = shared.lock();
    while !state.shutdown {
        if state.retire(shared.clock.now()) {
            shared.changed.notify_all();
        }
        match state.next_for(engine) {
            Some(id) => state = run(shared, state, id),
            None => state = shared.wait(state),
        }
    }
}

impl State {
    /// Takes the first operation of this engine that conflicts with no running operation.
    fn next_for(&mut self, engine: Engine) -> Option<NodeId> {
        let HostRun::Threads(workers) = &mut self.run else { return None };
        let queues = &self.queues;
        let mut ready = workers.ready.iter().filter(|(_, of)| **of == engine);
        let found = ready.find(|((_, id), _)| {
            // An operation of a lost device no longer has an engine; `retire` completes it.
            let live = queues.node(*id).filter(|node| node.engine != Engine::None);
            live.is_some_and(|node| !excluded(&workers.running, &node.work))
        });
        let key = *found?.0;
        workers.ready.remove(&key);
        Some(key.1)
    }
}

/// Whether a running operation conflicts with `work`. The laws allow both to run at the same time.
/// Here `work` waits, so that a program with a race gets a wrong result and not undefined
/// behaviour.
fn excluded(running: &[(NodeId, Vec<(Span, Mode)>)], work: &OpWork) -> bool {
    let held = || running.iter().flat_map(|(_, accesses)| accesses);
    work.accesses().iter().any(|(span, mode)| {
        held().any(|(held, held_mode)| (mode.writes() || held_mode.writes()) && held.overlaps(span))
    })
}

/// Runs an operation without the lock.
fn run<'a>(shared: &'a HostShared, mut guard: Guard<'a>, id: NodeId) -> Guard<'a> {
    let state = &mut *guard;
    let HostRun::Threads(workers) = &mut state.run else { return guard };
    let Some(node) = state.queues.node(id) else { return guard };
    let fault = state.faults.outcome(node);
    let Some(work) = state.queues.lend(id) else { return guard };
    workers.running.push((id, work.accesses()));
    state.queues.collector.began(id, shared.clock.now());
    drop(guard);
    let outcome = fault.and_then(|()| {
        if let OpWork::HostFn(called) = work {
            called.call();
            return Ok(());
        }
        exec::run(&work, 0..work.units(), shared.threads)
    });
    let mut guard = shared.lock();
    let state = &mut *guard;
    if let HostRun::Threads(workers) = &mut state.run {
        workers.running.retain(|(running, _)| *running != id);
    }
    let now = shared.clock.now();
    match outcome {
        Ok(()) => state.queues.complete(id, now),
        Err(error) => state.queues.fail(id, error, now),
    }
    shared.changed.notify_all();
    guard
}
