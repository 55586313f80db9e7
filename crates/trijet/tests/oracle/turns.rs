//! Turns of the scripts of a phase, and the buffers and signals that scripts wait for.
//!
//! By turns, one script at a time takes a step, in an order that a seed draws. So threads may end
//! and start at any step, and a run can be repeated. Without turns, scripts wait for buffers and
//! signals only.

use crate::program::{Phase, Step};
use crate::valid::Gates;
use std::sync::{Condvar, Mutex, MutexGuard};
use trijet::testing::Prng;

/// How the scripts of a phase run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turns {
    /// If scripts wait for the device only, the executor runs their threads one at a time, and may
    /// switch in the middle of calls. Otherwise by turns.
    Executor,
    /// By turns that the seed draws.
    Drawn(u64),
    /// Concurrently.
    Free,
}

struct State<'a> {
    /// `None` if scripts run concurrently.
    prng: Option<Prng>,
    turn: Option<usize>,
    next: Vec<Option<&'a Step>>,
    gates: Gates,
    /// Whether a script failed: the others need not wait for it.
    failed: bool,
}

/// The turns of one phase.
pub(crate) struct Table<'a> {
    phase: &'a Phase,
    state: Mutex<State<'a>>,
    changed: Condvar,
}

impl<'a> Table<'a> {
    pub(crate) fn new(phase: &'a Phase, mut gates: Gates, seed: Option<u64>) -> Self {
        gates.enter(phase);
        let next: Vec<_> = phase.scripts.iter().map(|script| script.first()).collect();
        let prng = seed.map(Prng::new);
        let state = State { prng, turn: None, next, gates, failed: false };
        let table = Self { phase, state: Mutex::new(state), changed: Condvar::new() };
        table.lock().pass();
        table
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().expect("no code panics under the lock of turns")
    }

    /// Waits until the script may take its next step; false if another script failed.
    pub(crate) fn may_go(&self, script: usize) -> bool {
        let waits = |state: &mut State<'_>| {
            let is_open = state.next[script].is_none_or(|step| state.gates.is_open(step));
            let is_mine = state.prng.is_none() || state.turn == Some(script);
            !(state.failed || is_open && is_mine)
        };
        let state = self.changed.wait_while(self.lock(), waits);
        !state.expect("no code panics under the lock of turns").failed
    }

    /// Notes that the script took the step with this number.
    pub(crate) fn took(&self, script: usize, step: usize) {
        let steps = &self.phase.scripts[script];
        let mut state = self.lock();
        state.gates.pass(script, &steps[step]);
        state.next[script] = steps.get(step + 1);
        state.pass();
        self.changed.notify_all();
    }

    pub(crate) fn fail(&self) {
        self.lock().failed = true;
        self.changed.notify_all();
    }
}

impl State<'_> {
    fn pass(&mut self) {
        let Some(prng) = &mut self.prng else { return };
        let open = |step: &&Step| self.gates.is_open(step);
        let scripts = self.next.iter().enumerate();
        let ready: Vec<usize> =
            scripts.filter(|(_, step)| step.as_ref().is_some_and(open)).map(|(n, _)| n).collect();
        let bound = ready.len() as u64;
        let drawn = if bound == 0 { 0 } else { prng.below(bound) };
        self.turn = ready.get(usize::try_from(drawn).expect("a few scripts")).copied();
    }
}
