//! A run on the host device: the state that its workers share, and the functions by which a worker
//! finds and makes tasks.
#![forbid(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of workers and of tasks are words of the kernel"
)]

use super::credits::{Credits, Purse};
use super::deque::Deque;
use super::range::Range;
use super::ring::Ring;
use super::shared::Memory;
use crate::workers::end::{self, StopCause};
use crate::workers::graph::FIELDS;
use crate::workers::options::Policy;
use crate::workers::setup::{COUNTS, Setup};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};

/// The memory of a graph of tasks.
pub(super) struct TwinGraph<'a> {
    pub(super) words: &'a [u32],
    /// For each node, the number of predecessors that have not run.
    pub(super) counters: &'a [Cell<u32>],
}

/// The state that the workers of a run share.
pub(super) struct TwinRun<'a> {
    pub(super) setup: Setup,
    /// The address of the words in host memory, which identifies the run.
    pub(super) host: u64,
    pub(super) policy: Policy,
    pub(super) memory: &'a Memory<'a>,
    pub(super) list: &'a [u64],
    pub(super) graph: TwinGraph<'a>,
    pub(super) next: AtomicU32,
    pub(super) credits: Credits,
    pub(super) ring: Ring,
    pub(super) deques: Vec<Deque>,
    pub(super) ranges: Vec<Range>,
    pub(super) end: Cell<Option<StopCause>>,
    /// The number of searches of all workers that found no task, since a task was last found or
    /// made.
    pub(super) in_vain: Cell<u64>,
    /// The number of tasks that have started.
    pub(super) begun: Cell<u64>,
}

/// The state of one worker.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) kept: Option<u64>,
    pub(super) next: u32,
    pub(super) last: u32,
    pub(super) purse: Purse,
    pub(super) counts: [u64; COUNTS],
    /// For a trace, the last tasks of the worker. Each entry has the task and its number in the
    /// run, counted from 1.
    pub(super) spans: VecDeque<(u64, u64)>,
    /// Whether the worker has left.
    pub(super) is_done: bool,
}

/// The indices of the counts of a worker.
pub(super) mod count {
    pub(in crate::workers::twin) const RAN: usize = 0;
    pub(in crate::workers::twin) const SPAWNED: usize = 1;
    pub(in crate::workers::twin) const STOLEN: usize = 2;
    pub(in crate::workers::twin) const REFUSED: usize = 3;
    pub(in crate::workers::twin) const MISSED: usize = 4;
}

impl TwinRun<'_> {
    pub(super) fn stop(&self, code: u32, worker: usize, task: u64) {
        if self.end.get().is_none() {
            self.end.set(Some(StopCause { code, worker: worker as u32, task }));
        }
    }

    pub(super) fn initial(&self, number: u32) -> u64 {
        let number = number as usize;
        match self.list {
            list if self.setup.is_graph == 1 => {
                list[self.graph.words[self.setup.order as usize + number] as usize]
            }
            [] => self.setup.first + number as u64,
            list => list[number],
        }
    }

    pub(super) fn fields(&self, payload: u64) -> [u64; FIELDS] {
        let mut fields = [0; FIELDS];
        if payload < u64::from(self.setup.with_fields) {
            let at = self.setup.fields as usize + 2 * FIELDS * payload as usize;
            let words = &self.graph.words[at..at + 2 * FIELDS];
            bytemuck::bytes_of_mut(&mut fields).copy_from_slice(bytemuck::cast_slice(words));
        }
        fields
    }

    pub(super) fn at_once(&self, left: u64) -> u32 {
        let share = left / (u64::from(self.setup.workers) * 16) + 1;
        share.min(u64::from(self.setup.chunk)) as u32
    }

    /// Makes a task for a body. Returns false if the queues have no room.
    pub(super) fn spawn(&self, worker: usize, state: &mut State, task: u64) -> bool {
        if self.policy == Policy::Levels {
            state.counts[count::REFUSED] += 1;
            return false;
        }
        self.credits.take(&mut state.purse);
        if let Some(kept) = state.kept
            && !self.queue(worker, kept)
        {
            state.purse.add();
            state.counts[count::REFUSED] += 1;
            return false;
        }
        state.kept = Some(task);
        state.counts[count::SPAWNED] += 1;
        self.in_vain.set(0);
        true
    }

    /// Adds a task to the queues. Returns false if the queues have no room.
    pub(super) fn queue(&self, worker: usize, task: u64) -> bool {
        let deque = &self.deques[worker];
        match self.policy {
            Policy::Sharing => self.ring.push(task) || deque.push(task),
            Policy::Static => deque.push(task),
            Policy::Stealing | Policy::Hybrid => deque.push(task) || self.ring.push(task),
            Policy::Levels => false,
        }
    }

    /// Returns a task that the bodies of this worker made, or else an initial task that this worker
    /// takes.
    pub(super) fn own_task(&self, worker: usize, state: &mut State) -> Option<u64> {
        if let Some(task) = state.kept.take() {
            return Some(task);
        }
        if let Some(task) = self.deques[worker].take() {
            return Some(task);
        }
        if state.next >= state.last {
            match self.policy {
                Policy::Stealing => {
                    let count =
                        |left: u32| self.at_once(u64::from(left) * u64::from(self.setup.workers));
                    if let Some(taken) = self.ranges[worker].take(count) {
                        (state.next, state.last) = taken;
                    }
                }
                Policy::Sharing | Policy::Hybrid => self.counter_take(state),
                Policy::Static | Policy::Levels => (),
            }
        }
        if state.next >= state.last {
            return None;
        }
        let task = self.initial(state.next);
        state.next += if self.policy == Policy::Static { self.setup.workers } else { 1 };
        Some(task)
    }

    pub(super) fn counter_take(&self, state: &mut State) {
        let (all, seen) = (self.setup.initial, self.next.load(Ordering::Relaxed));
        if seen >= all {
            return;
        }
        let count = self.at_once(u64::from(all - seen));
        let first = self.next.fetch_add(count, Ordering::Relaxed);
        if first < all {
            (state.next, state.last) = (first, all.min(first + count));
        }
    }

    /// Returns a task from another worker, or else from the common queue. `drawn` is a random
    /// number that selects the first worker to try.
    pub(super) fn look_around(&self, worker: usize, state: &mut State, drawn: u64) -> Option<u64> {
        let mut found = None;
        if self.policy != Policy::Sharing {
            let workers = self.setup.workers as usize;
            let victims = (0..workers).map(|at| (at + drawn as usize) % workers);
            let mut others = victims.filter(|victim| *victim != worker);
            let has =
                |victim: usize| self.deques[victim].has_tasks() || self.ranges[victim].len() > 0;
            if let Some(victim) = others.find(|victim| has(*victim)) {
                found = self.deques[victim].steal();
                if found.is_none() {
                    found = self.ranges[victim]
                        .steal(&self.ranges[worker])
                        .map(|number| self.initial(number));
                }
            }
            state.counts[if found.is_some() { count::STOLEN } else { count::MISSED }] += 1;
        }
        found.or_else(|| self.ring.pop())
    }

    /// Searches once for a task. If the worker has no task of its own, it gives back its credits.
    /// If these were the last credits of the run, the run ends. With the policy `Static`, a worker
    /// without a task of its own then leaves.
    pub(super) fn search(&self, worker: usize, state: &mut State, drawn: u64) -> Option<u64> {
        if let Some(task) = self.own_task(worker, state) {
            return Some(task);
        }
        if self.credits.give_back(&mut state.purse) {
            self.stop(end::DRAINED, worker, 0);
        }
        if self.policy == Policy::Static {
            state.is_done = true;
            return None;
        }
        let found = self.look_around(worker, state, drawn);
        if found.is_none() {
            self.in_vain.set(self.in_vain.get() + 1);
            // On average, each worker has searched several times, and no task ran in the meantime.
            // So a credit is lost.
            if self.in_vain.get() > 8 * u64::from(self.setup.workers) + 64 {
                self.stop(end::LOST, worker, 0);
            }
        }
        found
    }

    /// Makes a task for each successor of this node whose predecessors have all run.
    pub(super) fn release(&self, worker: usize, state: &mut State, node: usize) {
        let TwinGraph { words, counters } = &self.graph;
        for edge in words[node]..words[node + 1] {
            let next = words[(self.setup.successors + edge) as usize] as usize;
            let left = counters[next].get() - 1;
            counters[next].set(left);
            if left == 0 && !self.spawn(worker, state, self.list[next]) {
                self.stop(end::FULL, worker, self.list[next]);
            }
        }
    }
}
