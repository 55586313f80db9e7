//! Runs many programs, compares their bytes with a serial run, and lets the judge check their
//! ledgers.

use crate::clean::finds_nothing;
use crate::draw::draw;
use crate::ledger::history;
use crate::program::{Phase, Program};
use crate::run::{again, run, run_by};
use crate::serial::{Outcome, interpret_without};
use crate::shrink::shrink;
use crate::switches::{Switch, on};
use crate::turns::Turns;
use crate::verdict::{Report, Seen, Wrong, judge};
use std::fmt;
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::Device;
use trijet::explore::Strategy;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};

/// Counts of the programs and runs that were judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) programs: u64,
    pub(crate) runs: u64,
    pub(crate) seen: Seen,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.programs += other.programs;
        self.runs += other.runs;
        self.seen.conflicts += other.seen.conflicts;
        self.seen.waits += other.seen.waits;
        self.seen.over_waits += other.seen.over_waits;
        self.seen.subsumed += other.seen.subsumed;
        self.seen.idle += other.seen.idle;
        self.seen.claims += other.seen.claims;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { programs, runs, seen } = self;
        let Seen { conflicts, waits, over_waits, subsumed, idle, claims } = seen;
        write!(f, "programs={programs} runs={runs} conflicts={conflicts} waits={waits} ")?;
        write!(f, "over_waits={over_waits} subsumed={subsumed} idle={idle} claims={claims}")
    }
}

/// The configuration of the host devices of a program.
pub(crate) fn config(program: &Program) -> HostConfig {
    let devices = u32::try_from(program.devices).expect("a few");
    let refused =
        |(verb, nth): &(Verb, u64)| Fault { verb: *verb, nth: *nth, kind: FaultKind::Refused };
    let faults = program.refusals.iter().map(refused).collect();
    // Half of the programs allocate from heaps, and the others from pools.
    let steps: usize = program.phases.iter().flat_map(|phase| &phase.scripts).map(Vec::len).sum();
    let config = HostConfig::new().devices(devices).faults(faults);
    if steps.is_multiple_of(2) { config } else { config.without_ranges() }
}

/// Host devices for a program.
pub(crate) fn open(executor: Executor, program: &Program) -> Vec<Device> {
    Device::host(config(program).executor(executor)).expect("the machine starts a few threads")
}

pub(crate) fn seeded(program: &Program, seed: u64) -> Vec<Device> {
    open(Executor::Virtual(Order::Seeded(seed)), program)
}

pub(crate) fn close(devices: Vec<Device>) -> Result<(), String> {
    devices.into_iter().try_for_each(|device| device.close().map_err(|error| error.to_string()))
}

/// Compares an outcome with the serial results of the program.
fn compare(program: &Program, found: &Outcome) -> Result<(), String> {
    let mut expected = interpret_without(program, &found.failed);
    expected.refuses = !program.refusals.is_empty();
    expected.difference(found).map_or(Ok(()), Err)
}

/// Closes the devices. After refused calls, closing may report an error.
fn close_after(program: &Program, devices: Vec<Device>) -> Result<(), String> {
    let closed = close(devices);
    if program.refusals.is_empty() { closed } else { Ok(()) }
}

/// Makes a traced run and judges it.
fn recorded(program: &Program, order: u64, turns: Turns) -> Result<Seen, String> {
    let devices = seeded(program, order);
    let plain = |error: trijet::Error| error.to_string();
    let zero = again(program, || devices[0].stream()).map_err(plain)?;
    again(program, || devices[0].start_trace(&zero)).map_err(plain)?;
    let found = run_by(&devices, program, turns)?;
    let counts = devices[0].ordering();
    let ops = again(program, || devices[0].take_trace().map(|trace| trace.ops)).map_err(plain)?;
    drop(zero);
    close_after(program, devices)?;
    compare(program, &found)?;
    let history = history(&ops);
    let lines = || -> String {
        (0..history.calls.len()).map(|call| format!("\n    {}", history.line(call))).collect()
    };
    let wrong = |wrong| format!("{}\n  in{}", Report(&history, wrong), lines());
    let seen = match judge(&history) {
        // If a call was refused after it left a mark, a wait for this mark may be unnecessary.
        Err(Wrong::Implied(_) | Wrong::Needless(_)) if !program.refusals.is_empty() => {
            Seen::default()
        }
        seen => seen.map_err(wrong)?,
    };
    if on(Switch::Apart) || !program.phases.iter().any(Phase::needs_turns) {
        finds_nothing(&ops)?;
    }
    // The library counts a wait as an over-wait if the wait also covers work that it need not
    // cover, because needed work follows. The judge does not, so it may count fewer over-waits.
    let judged = (seen.waits, seen.over_waits);
    let counted = (counts.waits, counts.over_waits);
    // A new stream of a lane also records for the earlier stream. The judge counts this as an
    // over-wait.
    let replaced = history.lanes.iter().any(|lane| lane.follows.is_some());
    let is_off = judged.0 != counted.0 || (judged.1 > counted.1 && !replaced);
    if is_off && program.refusals.is_empty() {
        let calls = lines();
        return Err(format!("{judged:?} waits and over-waits, {counted:?} counted in{calls}"));
    }
    Ok(seen)
}

/// Makes one run without a trace, and compares its bytes.
pub(crate) fn computed(
    program: &Program,
    devices: Vec<Device>,
    turns: Turns,
) -> Result<(), String> {
    let found = run_by(&devices, program, turns)?;
    close_after(program, devices)?;
    compare(program, &found)
}

/// Runs a program in a few orders that the laws allow.
pub(crate) fn examine(program: &Program, seed: u64) -> Result<Tally, String> {
    let mut seen = recorded(program, seed, Turns::Executor)?;
    let orders = 1..=2;
    for order in orders.clone() {
        computed(program, seeded(program, seed ^ order << 32), Turns::Executor)?;
    }
    let mut runs = 1 + orders.count() as u64;
    if on(Switch::Orders) {
        let in_order = |how: String| move |why: String| format!("{how}: {why}");
        let turns = Turns::Drawn(seed);
        seen = recorded(program, seed, turns).map_err(in_order("by turns".to_owned()))?;
        let others = [
            Order::Greedy,
            Order::Pct { seed, depth: 3, steps: 200 },
            Order::Pct { seed: seed + 1, depth: 2, steps: 100 },
            Order::Seeded(!seed),
        ];
        for order in others {
            let devices = open(Executor::Virtual(order.clone()), program);
            computed(program, devices, turns).map_err(in_order(format!("{order}, by turns")))?;
            runs += 1;
        }
    }
    Ok(Tally { programs: 1, runs, seen })
}

/// Searches all orders of a small program that can make a difference, in at most `runs_max` runs.
/// Returns the outcomes, the number of runs, and whether the search was complete.
pub(crate) fn exhausted(
    program: &Program,
    runs_max: u64,
) -> Result<(Vec<Outcome>, u64, bool), String> {
    let strategy = Strategy::Exhaustive { runs_max };
    let found =
        trijet::explore::explore(&config(program), strategy, |devices| run(devices, program));
    let found = found.map_err(|error| error.to_string())?;
    let outcomes = found.outcomes.into_iter().map(|outcome| outcome.value);
    Ok((outcomes.collect::<Result<_, _>>()?, found.runs, found.complete))
}

/// The seed of a program that fails, and its error.
struct Failure {
    seed: u64,
    why: String,
}

/// Examines the program of every seed, on `workers` threads.
///
/// # Panics
/// If a program fails, with its seed and the smallest program that still fails.
pub(crate) fn explore(
    seeds: Range<u64>,
    workers: usize,
    examine: &(dyn Fn(&Program, u64) -> Result<Tally, String> + Sync),
) -> Tally {
    explore_drawn(&draw, seeds, workers, examine)
}

/// Does the same as [`explore`], with programs of another generator.
pub(crate) fn explore_drawn(
    draw: &(dyn Fn(u64) -> Program + Sync),
    seeds: Range<u64>,
    workers: usize,
    examine: &(dyn Fn(&Program, u64) -> Result<Tally, String> + Sync),
) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let failure: Mutex<Option<Failure>> = Mutex::new(None);
    let total = Mutex::new(Tally::default());
    let work = || {
        let mut mine = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            match examine(&draw(seed), seed) {
                Ok(tally) => mine += tally,
                Err(why) => {
                    next.store(seeds.end, Ordering::Relaxed);
                    *failure.lock().expect("no thread panics under this lock") =
                        Some(Failure { seed, why });
                }
            }
        }
        *total.lock().expect("no thread panics under this lock") += mine;
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    if let Some(Failure { seed, why }) =
        failure.into_inner().expect("no thread panics under this lock")
    {
        let mut last = why.clone();
        let small = shrink(draw(seed), &mut |program| match examine(program, seed) {
            Ok(_) => false,
            Err(why) => {
                last = why;
                true
            }
        });
        let chosen = std::env::var("TRIJET_ORACLE").unwrap_or_default();
        panic!("TRIJET_ORACLE={chosen} seed {seed}: {why}\ncut down: {last}\n{small}");
    }
    total.into_inner().expect("no thread panics under this lock")
}
