//! Runs many programs, compares their bytes with the serial run and has their records judged.

use crate::checked::finds_nothing;
use crate::draw::draw;
use crate::ledger::history;
use crate::program::Program;
use crate::run::run;
use crate::serial::interpret;
use crate::shrink::shrink;
use crate::verdict::{Report, Seen, judge};
use std::fmt;
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::{Device, Executor, HostConfig, Order};

/// What was run and judged.
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

/// Host devices for a program.
pub(crate) fn open(executor: Executor, program: &Program) -> Vec<Device> {
    let devices = u32::try_from(program.devices).expect("one or two");
    let config = HostConfig { executor, devices, ..HostConfig::default() };
    Device::host(config).expect("the machine starts a few threads")
}

pub(crate) fn seeded(program: &Program, seed: u64) -> Vec<Device> {
    open(Executor::Virtual(Order::Seeded(seed)), program)
}

pub(crate) fn close(devices: Vec<Device>) -> Result<(), String> {
    devices.into_iter().try_for_each(|device| device.close().map_err(|error| error.to_string()))
}

/// One run with its record.
fn recorded(program: &Program, order: u64) -> Result<Seen, String> {
    let devices = seeded(program, order);
    let zero = devices[0].stream().map_err(|error| error.to_string())?;
    devices[0].record(&zero).map_err(|error| error.to_string())?;
    let found = run(&devices, program)?;
    let counts = devices[0].ordering();
    let ops = devices[0].take_record().map_err(|error| error.to_string())?;
    drop(zero);
    close(devices)?;
    if let Some(difference) = interpret(program).difference(&found) {
        return Err(difference);
    }
    let history = history(&ops);
    let lines = || -> String {
        (0..history.calls.len()).map(|call| format!("\n    {}", history.line(call))).collect()
    };
    let seen =
        judge(&history).map_err(|wrong| format!("{}\n  in{}", Report(&history, wrong), lines()))?;
    finds_nothing(&ops)?;
    // Work that the wait need not name, because later work that it does name follows it, is more
    // than it must to the ordering and not to the judge.
    let judged = (seen.waits, seen.over_waits);
    let counted = (counts.waits, counts.over_waits);
    // A stream that took another one's place records for both, which the judge finds too much.
    let replaced = history.lanes.iter().any(|lane| lane.follows.is_some());
    if judged.0 != counted.0 || (judged.1 > counted.1 && !replaced) {
        let calls = lines();
        return Err(format!("{judged:?} waits and over-waits, {counted:?} counted in{calls}"));
    }
    Ok(seen)
}

/// One run for its bytes.
pub(crate) fn computed(program: &Program, devices: Vec<Device>) -> Result<(), String> {
    let found = run(&devices, program)?;
    close(devices)?;
    interpret(program).difference(&found).map_or(Ok(()), Err)
}

/// Runs a program in a few orders that the laws allow.
pub(crate) fn examine(program: &Program, seed: u64) -> Result<Tally, String> {
    let seen = recorded(program, seed)?;
    let orders = 1..=2;
    for order in orders.clone() {
        computed(program, seeded(program, seed ^ order << 32))?;
    }
    Ok(Tally { programs: 1, runs: 1 + orders.count() as u64, seen })
}

/// A program that fails and what it did.
struct Failure {
    seed: u64,
    why: String,
}

/// Examines the program of every seed on all cores.
///
/// # Panics
/// When one fails, with its seed and the smallest program that still fails.
pub(crate) fn explore(
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
                    *failure.lock().expect("nobody panics here") = Some(Failure { seed, why });
                }
            }
        }
        *total.lock().expect("nobody panics here") += mine;
    };
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    if let Some(Failure { seed, why }) = failure.into_inner().expect("nobody panics here") {
        let mut last = why.clone();
        let small = shrink(draw(seed), &mut |program| match examine(program, seed) {
            Ok(_) => false,
            Err(why) => {
                last = why;
                true
            }
        });
        panic!("seed {seed}: {why}\ncut down: {last}\n{small}");
    }
    total.into_inner().expect("nobody panics here")
}
