//! The executor with real work on CPU threads: what a user without a GPU gets. One thread per
//! engine role starts the oldest operation that may run and whose bytes no other one holds.
#![forbid(unsafe_code)]

use super::engine::Work;
use super::{Shared, State, exec};
use crate::base::ledger::Engine as Role;
use crate::base::units::Nanos;
use crate::device::driver::StreamHandle;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

/// The roles that a worker serves. Copies between host devices share a thread with uploads.
const ROLES: [&[Role]; 4] =
    [&[Role::Upload, Role::Peer], &[Role::Download], &[Role::Compute], &[Role::Host]];

/// The processor's clock since the driver opened.
#[derive(Debug)]
pub(super) struct WallClock(Instant);

impl WallClock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Starts one worker per role. They own a share of the queues and end by themselves, after what
/// they run at the moment, when the driver drops.
///
/// # Errors
/// When the system starts no more threads.
pub(super) fn spawn(shared: &Arc<Shared>) -> std::io::Result<()> {
    let names = ["trijet-upload", "trijet-download", "trijet-compute", "trijet-host-fn"];
    for (roles, name) in ROLES.iter().zip(names) {
        let shared = Arc::clone(shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(move || worker(&shared, roles))?;
    }
    Ok(())
}

fn worker(shared: &Shared, roles: &[Role]) {
    let mut state = shared.lock();
    while !state.shutdown {
        let now = shared.clock.now();
        if state.retire(now) {
            shared.changed.notify_all();
        }
        let ready = state.engine.startable(now);
        let mine = ready.into_iter().find(|(stream, _, role)| {
            let head = state.engine.streams[&stream.0].queue.front();
            roles.contains(role) && head.is_some_and(|entry| !excluded(&state, &entry.work))
        });
        match mine {
            Some((stream, device, _)) => state = run(shared, state, stream, device),
            None => state = shared.wait(state),
        }
    }
}

/// Whether a running operation holds bytes that `work` must not touch meanwhile. The laws allow
/// such a pair to run at once; here it waits, so that a racy program is only a wrong result.
fn excluded(state: &State, work: &Work) -> bool {
    let running = || state.running.iter().flat_map(|(_, accesses)| accesses);
    exec::accesses(work).iter().any(|(span, mode)| {
        running()
            .any(|(held, held_mode)| (mode.writes() || held_mode.writes()) && held.overlaps(span))
    })
}

/// Runs the head of `stream` without the lock.
fn run<'a>(
    shared: &'a Shared,
    mut state: MutexGuard<'a, State>,
    stream: StreamHandle,
    device: crate::base::id::DeviceId,
) -> MutexGuard<'a, State> {
    let Some(queue) = state.engine.streams.get_mut(&stream.0) else { return state };
    let Some(entry) = queue.queue.front_mut() else { return state };
    // The entry stays in the queue, so that the stream's order holds; its work is lent out.
    let placeholder = Work::HostFn(None);
    let mut work = std::mem::replace(&mut entry.work, placeholder);
    queue.running = true;
    state.running.push((stream, exec::accesses(&work)));
    drop(state);
    let outcome = match &mut work {
        Work::HostFn(function) => {
            if let Some(function) = function.take() {
                function();
            }
            Ok(())
        }
        other => exec::run(other, 0..exec::units(other), shared.threads),
    };
    drop(work);
    let mut state = shared.lock();
    state.running.retain(|(running, _)| *running != stream);
    match outcome {
        Ok(()) => state.engine.complete(stream, shared.clock.now()),
        Err(error) => state.engine.lose(device, error.on(device)),
    }
    shared.changed.notify_all();
    state
}
