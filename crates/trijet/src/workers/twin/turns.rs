//! Workers that take turns in a random order, which the seed determines. In its turn, a worker
//! searches for a task, and runs the task if it finds one.
#![forbid(unsafe_code)]
#![expect(
    clippy::cast_possible_truncation,
    reason = "numbers of workers and of tasks are words of the kernel"
)]

use super::credits::Credits;
use super::deque::Deque;
use super::host;
use super::range::Range;
use super::ring::Ring;
use super::run::{State, TwinGraph, TwinRun, count};
use super::shared::Memory;
use super::worker::{Body, Kinds, Worker};
use crate::base::prng::Prng;
use crate::device::twin::Tile;
use crate::workers::end::{self, EndReport, StopCause};
use crate::workers::options::Policy;
use crate::workers::setup::{COUNTS, SPAN, STATS, Setup};
use crate::workers::task::PAYLOAD;
use std::cell::Cell;
use std::sync::atomic::AtomicU32;

/// The number of arguments that follow the arguments of the program: the setup, five spans with
/// their lengths, and the address of the host words.
const ARGUMENTS: usize = 12;

/// Runs a task from its start to its end.
fn perform(run: &TwinRun<'_>, worker: usize, state: &mut State, task: u64, kinds: &[(&str, Body)]) {
    run.in_vain.set(0);
    if state.counts[count::RAN].is_multiple_of(16) && host::is_asked(run.host) {
        run.stop(end::ABORTED, worker, 0);
        return;
    }
    run.begun.set(run.begun.get() + 1);
    if run.setup.traced > 0 {
        if state.spans.len() == run.setup.traced as usize {
            state.spans.pop_front();
        }
        state.spans.push_back((task, run.begun.get()));
    }
    let (_, body) = kinds[(task >> 56) as usize - 1];
    body(&mut Worker::new(run, worker, state, task), task & PAYLOAD);
    state.counts[count::RAN] += 1;
    if run.setup.is_graph == 1 && run.policy != Policy::Levels {
        run.release(worker, state, task as u32 as usize);
    }
    state.purse.add();
}

/// Lets the workers take turns until all workers have left or the run ends.
fn take_turns(run: &TwinRun<'_>, states: &mut [State], kinds: &[(&str, Body)]) {
    let mut random = Prng::new(u64::from(run.setup.seed));
    let mut there: Vec<usize> = (0..states.len()).collect();
    while run.end.get().is_none() && !there.is_empty() {
        let place = random.below(there.len() as u64) as usize;
        let worker = there[place];
        let state = &mut states[worker];
        if let Some(task) = run.search(worker, state, random.next_u64() >> 8) {
            perform(run, worker, state, task, kinds);
        }
        if state.is_done {
            there.swap_remove(place);
        }
    }
}

/// Runs the levels of a graph one after another. The nodes of a level are dealt to all workers.
fn take_levels(run: &TwinRun<'_>, states: &mut [State], kinds: &[(&str, Body)]) {
    let bounds = &run.graph.words[run.setup.level as usize..][..=run.setup.levels as usize];
    for level in bounds.windows(2) {
        for number in level[0]..level[1] {
            if run.end.get().is_some() {
                return;
            }
            let worker = (number - level[0]) as usize % states.len();
            perform(run, worker, &mut states[worker], run.initial(number), kinds);
        }
    }
}

fn initial_state(setup: &Setup, policy: Policy, worker: u32) -> (State, Range) {
    let (each, more) = (setup.initial / setup.workers, setup.initial % setup.workers);
    let begin = each * worker + worker.min(more);
    let end = begin + each + u32::from(worker < more);
    let mut state = State::default();
    match policy {
        Policy::Static => (state.next, state.last) = (worker, setup.initial),
        Policy::Hybrid => {
            let dealt = setup.initial / 4 * 3 / setup.workers;
            (state.next, state.last) = (dealt * worker, dealt * (worker + 1));
        }
        Policy::Stealing => return (state, Range::new(begin, end)),
        Policy::Sharing | Policy::Levels => (),
    }
    (state, Range::new(0, 0))
}

/// Runs a program on the host device, as the twin of its kernel.
pub(in crate::workers) fn run<K: Kinds>(tile: &mut Tile<'_>) {
    let first = tile.inputs().count() - ARGUMENTS;
    let setup: Setup = tile.scalar(first);
    let host: u64 = tile.scalar(first + 11);
    let stats = &mut tile.write::<u64>(first + 3)[setup.stats as usize..];
    let counters = Cell::from_mut(tile.write::<u32>(first + 9)).as_slice_of_cells();
    let (list, words) = (tile.read::<u64>(first + 5), tile.read::<u32>(first + 7));
    let policy = Policy::ALL.into_iter().find(|policy| policy.number() == setup.policy);
    let policy = policy.expect("the library wrote the setup");
    let memory = Memory::of(tile, first);
    let workers = setup.workers;
    let dealt = setup.initial / 4 * 3 / workers * workers;
    let (mut states, ranges): (Vec<_>, _) =
        (0..workers).map(|worker| initial_state(&setup, policy, worker)).unzip();
    let run = TwinRun {
        setup,
        host,
        policy,
        memory: &memory,
        list,
        graph: TwinGraph { words, counters },
        next: AtomicU32::new(if policy == Policy::Hybrid { dealt } else { 0 }),
        credits: Credits::new(setup.initial),
        ring: Ring::new(setup.ring_bits),
        deques: (0..workers).map(|_| Deque::new(setup.deque_bits)).collect(),
        ranges,
        end: Cell::new(None),
        in_vain: Cell::new(0),
        begun: Cell::new(0),
    };
    if setup.initial == 0 {
        // A run without tasks ends at once, because it has no credit that a worker could give back.
    } else if policy == Policy::Levels {
        take_levels(&run, &mut states, K::KINDS);
    } else {
        take_turns(&run, &mut states, K::KINDS);
    }
    let (stats, spans) = stats.split_at_mut(setup.stats_len());
    for (stats, state) in stats.chunks_exact_mut(STATS).zip(&states) {
        stats[..COUNTS].copy_from_slice(&state.counts);
        stats[COUNTS..].fill(0);
    }
    let each = SPAN * setup.traced as usize;
    for (place, state) in spans.chunks_exact_mut(each.max(1)).zip(&states) {
        for (words, (task, number)) in place.chunks_exact_mut(SPAN).zip(&state.spans) {
            words.copy_from_slice(&[*task, number - 1, *number]);
        }
    }
    finish(&run, states);
}

/// The stop cause of a run without initial tasks. No worker sets a cause in such a run.
const NO_END: StopCause = StopCause { code: 0, worker: 0, task: 0 };

/// Reports the end of the run to the host.
fn finish(run: &TwinRun<'_>, mut states: Vec<State>) {
    for state in &mut states {
        if run.credits.give_back(&mut state.purse) {
            run.stop(end::DRAINED, 0, 0);
        }
    }
    let initial = run.setup.initial;
    let credits = if run.credits.are_back() { initial } else { !initial };
    let StopCause { code, worker, task } = run.end.get().unwrap_or(NO_END);
    let totals = std::array::from_fn(|at| states.iter().map(|state| state.counts[at]).sum());
    host::ended(run.host, EndReport { code, worker, credits, task, totals });
}
