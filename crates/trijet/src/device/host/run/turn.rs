//! The turns of host threads and of the device. With the executor on CPU threads, a call only takes
//! the lock. In the virtual executor with modelled time, operations run while a call waits. In an
//! executor of single steps, a call is itself a step. Before this step, other threads and streams
//! may take steps. Of the threads of a script, only the holder of the baton runs.
#![forbid(unsafe_code)]

use super::HostRun;
use super::baton::{self, Baton, Scripted};
use super::simulate::Step;
use super::step::{Actors, Stepped};
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::Script;
use crate::device::host::HostDriver;
use crate::device::host::engine::ids::{NodeId, Point, Points, SlotId};
use crate::device::host::engine::touches::Object;
use crate::device::host::engine::work::HostFnCall;
use crate::device::host::explore::races::Actor;
use crate::device::host::order::StepPolicy;
use crate::device::host::shared::Guard;
use crate::device::host::state::State;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether another thread of the script may run before the call continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::device::host) enum Switch {
    /// Another thread may run: the caller holds no lock of the layers above.
    Threads,
    /// Only the device may take steps: the caller may hold a lock.
    Never,
}

impl State {
    fn reached(&self, points: &[Point]) -> bool {
        points.iter().all(|point| self.queues.completed(*point))
    }

    /// The first of `points` whose operations are not all complete.
    fn unreached(&self, points: &[Point]) -> Option<Point> {
        points.iter().find(|point| !self.queues.completed(**point)).copied()
    }

    /// Whether only the thread that runs the program makes calls.
    pub(super) fn is_alone(&self) -> bool {
        !self.baton.has_script() && !self.calling
    }

    fn runnable(&self, thread: u32) -> bool {
        let found = &self.baton.threads[thread as usize - 1];
        !found.finished && self.reached(&found.waits)
    }

    fn runnable_threads(&self) -> Vec<u32> {
        let all = 1..=u32::try_from(self.baton.threads.len()).unwrap_or(0);
        all.filter(|thread| self.runnable(*thread)).collect()
    }

    fn unfinished(&self) -> Option<u32> {
        let index = self.baton.threads.iter().position(|thread| !thread.finished)?;
        u32::try_from(index + 1).ok()
    }
}

impl HostDriver {
    /// Begins a call whose result does not depend on the progress of the device. If only one thread
    /// makes calls and no host function was enqueued, such a call is independent of every step of
    /// the device. Then the call joins the last step of its thread, and is no separate step.
    pub(in crate::device::host) fn enter(&self) -> Guard<'_> {
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        let quiet = state.is_alone() && state.queues.last_host_fn.is_none();
        match &mut state.run {
            HostRun::Stepped(stepper) if quiet && stepper.joins_next_call => {
                stepper.settle(&mut state.queues);
                guard
            }
            HostRun::Threads(_) | HostRun::Timed(_) | HostRun::Stepped(_) => self.turn_of(guard),
        }
    }

    /// Begins a call. In an executor of single steps, the device may take steps before the call.
    pub(in crate::device::host) fn turn(&self) -> Guard<'_> {
        self.turn_of(self.shared.lock())
    }

    fn turn_of<'a>(&'a self, state: Guard<'a>) -> Guard<'a> {
        match &state.run {
            HostRun::Stepped(stepper) if !(stepper.program_ended && state.is_alone()) => {}
            HostRun::Threads(_) | HostRun::Timed(_) | HostRun::Stepped(_) => return state,
        }
        match self.wait_turn("call", state, &Points::new(), Switch::Never) {
            Ok(state) => state,
            // This does not happen: the call waits for no points.
            Err(_) => self.shared.lock(),
        }
    }

    /// Lets another thread of the script run before the caller continues.
    pub(in crate::device::host) fn pause_thread(&self) {
        // Threads without a script call this for every operation, and take no lock.
        if !baton::is_scripted() {
            return;
        }
        let state = self.shared.lock();
        if state.baton.caller() != 0 {
            drop(self.wait_turn("pause", state, &Points::new(), Switch::Threads));
        }
    }

    /// Lets operations run until all points are complete. Afterwards everything in `clock` counts
    /// as seen complete by the host.
    pub(in crate::device::host) fn wait_for<'a>(
        &'a self,
        op: &'static str,
        state: Guard<'a>,
        points: &Points,
        clock: &VectorClock,
        switch: Switch,
    ) -> Result<Guard<'a>> {
        let mut state = self.wait_until(op, state, points, switch)?;
        let found = &mut *state;
        found.queues.see(points, clock);
        found.pools.synchronised(&found.queues);
        Ok(state)
    }

    /// Lets operations run until all points are complete. This is no synchronisation: no operation
    /// counts as seen complete by the host because of this wait (law A20).
    pub(in crate::device::host) fn wait_until<'a>(
        &'a self,
        op: &'static str,
        state: Guard<'a>,
        points: &Points,
        switch: Switch,
    ) -> Result<Guard<'a>> {
        let scripted = state.baton.caller() != 0 && switch == Switch::Threads;
        let mut state = if state.explores() || scripted {
            self.wait_turn(op, state, points, switch)?
        } else {
            let mut state = state;
            while let Some(target) = state.unreached(points) {
                state = self.progress(op, state, Some(target), Nanos(u64::MAX))?.0;
            }
            state
        };
        if let HostRun::Timed(simulation) = &mut state.run {
            simulation.host_waited();
        }
        Ok(state)
    }

    /// Waits until it is the caller's turn and everything up to `points` is complete.
    fn wait_turn<'a>(
        &'a self,
        op: &'static str,
        mut state: Guard<'a>,
        points: &Points,
        switch: Switch,
    ) -> Result<Guard<'a>> {
        let me = state.baton.caller();
        if me != 0 {
            state.baton.threads[me as usize - 1].waits.clone_from(points);
        }
        let mut state = if state.explores() {
            self.step_until(op, state, Some((me, switch)), points)?
        } else {
            self.pass_until(op, state, me, points)?
        };
        Self::begin_step(&mut state, points);
        Ok(state)
    }

    /// Begins a step of the calling thread.
    fn begin_step(state: &mut State, points: &Points) {
        let state = &mut *state;
        let HostRun::Stepped(stepper) = &mut state.run else { return };
        stepper.touch(Object::Host, false);
        if let Some(trail) = &state.queues.trail {
            for point in points {
                stepper.follow(trail.causes_of(*point));
            }
        }
        // A step of a thread in a script comes after the last step before the script. A step of any
        // other thread comes after the last steps of the script.
        stepper.follow(&state.baton.follows);
    }

    /// Takes steps until a step of the caller is chosen. If the calling thread has ended or waits
    /// for its script, `caller` is `None`. Then this function takes steps until a step of any
    /// thread is chosen.
    fn step_until<'a>(
        &'a self,
        op: &'static str,
        mut guard: Guard<'a>,
        caller: Option<(u32, Switch)>,
        points: &Points,
    ) -> Result<Guard<'a>> {
        let me = caller.map(|(me, _)| me);
        loop {
            let scripted = guard.baton.script != 0;
            let alone =
                caller.is_some_and(|(me, switch)| switch == Switch::Never || (scripted && me == 0));
            // A thread outside of the script has the number 0 and gets no turn in the script. It
            // does not wait for the end of the script here. Otherwise it could hold locks that the
            // script needs, or the script could wait for this thread.
            let waits = me.is_some_and(|me| me != 0 && me != guard.baton.holder);
            if guard.calling || (scripted && waits) {
                guard = self.shared.wait(guard);
                let chosen = scripted && me == Some(guard.baton.holder);
                if chosen && !guard.calling && guard.reached(points) {
                    return Ok(guard);
                }
                continue;
            }
            let state = &mut *guard;
            let HostRun::Stepped(stepper) = &mut state.run else { return Ok(guard) };
            stepper.settle(&mut state.queues);
            // Host threads come before streams. So a run that always takes the first possibility
            // enqueues all operations before it runs them.
            let mut enabled = Actors::new();
            if let (true, Some(me)) = (alone, me) {
                if state.reached(points) {
                    enabled.push(Actor::Thread(me));
                }
            } else if scripted {
                enabled.extend(state.runnable_threads().into_iter().map(Actor::Thread));
            } else if state.reached(points) {
                enabled.push(Actor::Thread(0));
            }
            let HostRun::Stepped(stepper) = &mut state.run else { return Ok(guard) };
            stepper.streams(&state.queues, &mut enabled);
            if enabled.is_empty() {
                if me.is_none() {
                    self.hand_over(&mut guard);
                    return Ok(guard);
                }
                let target = guard.unreached(points);
                return Err(guard.queues.stalled(op, target));
            }
            let state = &mut *guard;
            let HostRun::Stepped(stepper) = &mut state.run else { return Ok(guard) };
            let choice = stepper.choose(&enabled, &mut state.queues);
            match enabled[choice.index] {
                Actor::Thread(thread) => {
                    if Some(thread) == me {
                        return Ok(guard);
                    }
                    state.baton.holder = thread;
                    self.shared.changed.notify_all();
                    if me.is_none() {
                        return Ok(guard);
                    }
                }
                Actor::Stream(slot) => {
                    let torn_by = choice.torn_by.map(|other| enabled[other]);
                    guard = self.step_stream(guard, SlotId(slot), torn_by);
                }
            }
        }
    }

    /// Called when no step is possible. Passes the baton to a thread that has not ended. The wait
    /// of this thread then returns an error.
    fn hand_over(&self, state: &mut State) {
        state.baton.holder = state.unfinished().unwrap_or(0);
        self.shared.changed.notify_all();
    }

    fn step_stream<'a>(
        &'a self,
        mut guard: Guard<'a>,
        slot: SlotId,
        torn_by: Option<Actor>,
    ) -> Guard<'a> {
        let state = &mut *guard;
        let HostRun::Stepped(stepper) = &mut state.run else { return guard };
        let (queues, faults) = (&mut state.queues, &state.faults);
        let stepped = match torn_by {
            Some(Actor::Stream(inner)) => stepper.step_torn(queues, faults, slot, SlotId(inner)),
            Some(Actor::Thread(_)) | None => stepper.step(queues, faults, slot),
        };
        match stepped {
            Stepped::Moved => {
                state.account_freed();
                guard
            }
            Stepped::Call(node, called) => self.call(guard, node, called),
        }
    }

    /// Calls a host function without the lock.
    fn call<'a>(&'a self, mut guard: Guard<'a>, node: NodeId, called: HostFnCall) -> Guard<'a> {
        guard.calling = true;
        drop(guard);
        called.call();
        let mut guard = self.shared.lock();
        let state = &mut *guard;
        state.calling = false;
        match &mut state.run {
            HostRun::Timed(simulation) => simulation.host_fn_done(&mut state.queues, node),
            HostRun::Stepped(stepper) => {
                let now = stepper.tick();
                state.queues.complete(node, now);
                stepper.end_torn(&mut state.queues);
            }
            HostRun::Threads(_) => {}
        }
        state.account_freed();
        self.shared.changed.notify_all();
        guard
    }

    /// In a simulation, passes the baton to other threads while the caller has to wait. If every
    /// thread waits, lets operations run.
    fn pass_until<'a>(
        &'a self,
        op: &'static str,
        mut state: Guard<'a>,
        me: u32,
        points: &Points,
    ) -> Result<Guard<'a>> {
        let mut may_pass = points.is_empty();
        loop {
            if state.baton.holder != me {
                state = self.shared.wait(state);
                continue;
            }
            let mut others = state.runnable_threads();
            if state.reached(points) {
                let pass = std::mem::replace(&mut may_pass, false);
                let HostRun::Timed(simulation) = &mut state.run else { return Ok(state) };
                let next = others[simulation.policy.pick(others.len())];
                // In the greedy order a thread keeps the baton until it waits.
                let greedy = matches!(simulation.policy, StepPolicy::Greedy);
                if !pass || greedy || next == me {
                    return Ok(state);
                }
                self.pass(&mut state, next);
                continue;
            }
            others.retain(|other| *other != me);
            let HostRun::Timed(simulation) = &mut state.run else { return Ok(state) };
            if others.is_empty() {
                let target = state.unreached(points);
                state = self.progress(op, state, target, Nanos(u64::MAX))?.0;
            } else {
                let next = others[simulation.policy.pick(others.len())];
                self.pass(&mut state, next);
            }
        }
    }

    fn pass(&self, state: &mut State, next: u32) {
        state.baton.holder = next;
        self.shared.changed.notify_all();
    }

    /// Lets operations run up to the time of the host. Only a simulation needs this.
    pub(in crate::device::host) fn catch_up<'a>(
        &'a self,
        mut state: Guard<'a>,
    ) -> Result<Guard<'a>> {
        let HostRun::Timed(simulation) = &mut state.run else {
            let now = self.shared.clock.now();
            if state.retire(now) {
                self.shared.changed.notify_all();
            }
            return Ok(state);
        };
        let event_call = simulation.cost().event_call;
        let limit = simulation.host_call(event_call);
        // A query never blocks, so it does not wait while another thread calls a host function.
        while !state.calling {
            let (next, moved) = self.progress("query", state, None, limit)?;
            state = next;
            if !moved {
                break;
            }
        }
        Ok(state)
    }

    /// Lets operations run for one poll of a loop that polls until `target` is complete.
    pub(in crate::device::host) fn advance<'a>(
        &'a self,
        op: &'static str,
        mut state: Guard<'a>,
        target: Point,
    ) -> Result<()> {
        if !state.explores() {
            return self.progress(op, state, Some(target), Nanos(u64::MAX)).map(drop);
        }
        // Only the device takes steps here. If a poll could be chosen as a step, it could be chosen
        // for ever.
        let found = &mut *state;
        let HostRun::Stepped(stepper) = &mut found.run else { return Ok(()) };
        stepper.settle(&mut found.queues);
        let mut streams = Actors::new();
        stepper.streams(&found.queues, &mut streams);
        if streams.is_empty() {
            return Err(found.queues.stalled(op, Some(target)));
        }
        let choice = stepper.choose(&streams, &mut found.queues);
        if let Actor::Stream(slot) = streams[choice.index] {
            drop(self.step_stream(state, SlotId(slot), None));
        }
        Ok(())
    }

    /// Takes one step of the simulation, or waits for the worker threads. Returns false if a
    /// simulation has nothing to do until `limit`.
    pub(super) fn progress<'a>(
        &'a self,
        op: &'static str,
        mut guard: Guard<'a>,
        target: Option<Point>,
        limit: Nanos,
    ) -> Result<(Guard<'a>, bool)> {
        if guard.calling {
            return Ok((self.shared.wait(guard), true));
        }
        let state = &mut *guard;
        let step = match &mut state.run {
            HostRun::Timed(simulation) => simulation.step(&mut state.queues, &state.faults, limit),
            HostRun::Stepped(_) => return Ok((guard, false)),
            HostRun::Threads(_) => {
                if state.retire(self.shared.clock.now()) {
                    self.shared.changed.notify_all();
                } else if state.is_idle() {
                    return Err(state.queues.stalled(op, target));
                } else {
                    guard = self.shared.wait(guard);
                }
                return Ok((guard, true));
            }
        };
        state.account_freed();
        match step {
            Step::Moved => Ok((guard, true)),
            Step::Quiet => Ok((guard, false)),
            Step::Idle if limit < Nanos(u64::MAX) => Ok((guard, false)),
            Step::Idle => Err(state.queues.stalled(op, target)),
            Step::Call(node, called) => Ok((self.call(guard, node, called), true)),
        }
    }

    /// Runs scripted host threads to their ends.
    pub(in crate::device::host) fn run_script(&self, threads: Vec<Script<'_>>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        if matches!(self.shared.lock().run, HostRun::Threads(_)) || threads.is_empty() {
            std::thread::scope(|scope| {
                for thread in threads {
                    scope.spawn(thread);
                }
            });
            return;
        }
        let script = NEXT.fetch_add(1, Ordering::Relaxed);
        self.begin_script(script, threads.len());
        let _end = EndOfScript(self);
        std::thread::scope(|scope| {
            for (number, thread) in (1u32..).zip(threads) {
                scope.spawn(move || {
                    baton::join_script(script, number);
                    let _end = EndOfThread { driver: self, number };
                    self.begin_thread(number);
                    thread();
                });
            }
            self.choose_first();
        });
    }

    /// Waits for the first turn of a thread.
    fn begin_thread(&self, number: u32) {
        let mut state = self.shared.lock();
        while state.baton.holder != number {
            state = self.shared.wait(state);
        }
        Self::begin_step(&mut state, &Points::new());
    }

    fn begin_script(&self, script: u64, count: usize) {
        let mut state = self.turn();
        let step = state.queues.trail.as_ref().map(|trail| trail.step);
        let threads = vec![Scripted::default(); count];
        state.baton = Baton {
            script,
            holder: 0,
            threads,
            follows: step.into_iter().collect(),
            ends: SmallVec::new(),
        };
    }

    /// Chooses the thread of the script that runs first, and passes the baton to this thread.
    fn choose_first(&self) {
        let mut state = self.shared.lock();
        if state.explores() {
            // The threads wait for their turn in `begin_thread`.
            drop(self.step_until("script", state, None, &Points::new()));
            return;
        }
        let count = state.baton.threads.len();
        let next = match &mut state.run {
            HostRun::Timed(simulation) => 1 + simulation.policy.pick(count),
            HostRun::Threads(_) | HostRun::Stepped(_) => 1,
        };
        self.pass(&mut state, u32::try_from(next).unwrap_or(1));
    }

    fn end_thread(&self, number: u32) {
        let mut state = self.shared.lock();
        state.baton.threads[number as usize - 1].finished = true;
        if let Some(trail) = &state.queues.trail {
            let step = trail.step;
            state.baton.ends.push(step);
        }
        if state.unfinished().is_none() {
            state.baton.holder = 0;
        } else if state.explores() {
            drop(self.step_until("script", state, None, &Points::new()));
        } else {
            let runnable = state.runnable_threads();
            let next = runnable.first().copied().or(state.unfinished());
            self.pass(&mut state, next.unwrap_or(0));
        }
    }
}

/// A guard: its drop ends a script, even after a panic of one of its threads.
struct EndOfScript<'a>(&'a HostDriver);

impl Drop for EndOfScript<'_> {
    fn drop(&mut self) {
        let mut state = self.0.shared.lock();
        state.baton.script = 0;
        state.baton.threads.clear();
        let ends = std::mem::take(&mut state.baton.ends);
        state.baton.follows = ends;
    }
}

/// A guard: its drop ends a thread of a script, even after a panic of that thread.
struct EndOfThread<'a> {
    driver: &'a HostDriver,
    number: u32,
}

impl Drop for EndOfThread<'_> {
    fn drop(&mut self) {
        self.driver.end_thread(self.number);
    }
}
