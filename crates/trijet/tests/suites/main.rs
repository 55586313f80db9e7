//! The cases of other projects' suites on every executor of the host device, and in every explored
//! order.

#[path = "../cases/reference.rs"]
mod reference;
#[path = "mod.rs"]
mod suites;

use reference::{mix, words};
use std::collections::BTreeSet;
use suites::twins::{Case, Seen, Twin};
use trijet::Device;
use trijet::check::CheckOptions;
use trijet::explore::{Strategy, explore};
use trijet::sim::{Executor, HostConfig, Order};

/// Orders drawn from these seeds.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;

/// A host device with a checker that reads its calls while they are made.
fn open(executor: &Executor) -> Device {
    let config = HostConfig::new().executor(executor.clone());
    let opened = Device::builder().host(config).check(CheckOptions::default()).open();
    opened.expect("the machine starts a few threads")
}

fn check_on(executor: Executor, case: fn() -> Case) {
    suites::check(|| open(&executor), case);
}

fn check_seeds(case: fn() -> Case) {
    for seed in SEEDS {
        println!("the order is Order::Seeded({seed})");
        check_on(Executor::Virtual(Order::Seeded(seed)), case);
    }
}

/// The values that a twin can see.
fn possible(case: &Case, twin: Twin) -> BTreeSet<Seen> {
    let strategies =
        [Strategy::Seeded { runs: 60, seed: 0 }, Strategy::Exhaustive { runs_max: 60 }];
    let run = |devices: &[Device]| (case.program)(&devices[0], twin).expect("no call fails");
    let mut possible = BTreeSet::new();
    for strategy in strategies {
        let found = explore(&HostConfig::default(), strategy, run);
        let found = found.expect("the machine starts a few threads");
        possible.extend(found.outcomes.into_iter().map(|outcome| outcome.value));
    }
    possible
}

/// The faulty twin sees different values in different orders. Each other twin sees the same values
/// in all orders.
fn check_outcomes(case: fn() -> Case) {
    let case = case();
    for twin in case.twins() {
        let possible = possible(&case, twin);
        if twin == Twin::Faulty {
            assert!(possible.len() > 1, "in all orders it saw {possible:?}");
        } else {
            assert_eq!(possible, BTreeSet::from([case.sees.clone()]), "{twin:?}");
        }
    }
}

macro_rules! tests {
    ($($file:ident::$name:ident)*) => {
        mod threads {
            $(#[test]
            fn $name() {
                crate::check_on(trijet::sim::Executor::Threads, crate::suites::$file::$name);
            })*
        }

        mod greedy {
            $(#[test]
            fn $name() {
                let order = trijet::sim::Order::Greedy;
                crate::check_on(trijet::sim::Executor::Virtual(order), crate::suites::$file::$name);
            })*
        }

        mod seeded {
            $(#[test]
            fn $name() {
                crate::check_seeds(crate::suites::$file::$name);
            })*
        }

        mod explored {
            $(#[test]
            fn $name() {
                crate::check_outcomes(crate::suites::$file::$name);
            })*
        }
    };
}
suites::for_each_case!(tests);
