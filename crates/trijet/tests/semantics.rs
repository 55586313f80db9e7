//! The cases on every executor of the host device, and the outcomes that the laws leave open.

mod cases;
mod litmus;

use cases::default_streams::{KINDS, Second, must_wait, second_of_two};
use std::collections::BTreeSet;
use trijet::explore::{Strategy, explore};
use trijet::sim::{CostModel, Executor, HostConfig, Order};
use trijet::{Device, Nanos, Result};

/// The number of drawn orders.
const SEEDS: u64 = 20;

/// Prints the seed of a case that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the order was Order::Seeded({})", self.0);
        }
    }
}

/// One host device. Its host functions are slow, so that a `Gate` holds for long.
fn open(executor: Executor) -> Device {
    let cost = CostModel { host_fn: Nanos(20_000_000), ..CostModel::default() };
    let config = HostConfig::new().executor(executor).cost(cost);
    Device::host(config).expect("the machine starts a few threads").remove(0)
}

fn check_seeds(case: fn(&Device) -> Result<()>) {
    for seed in 0..SEEDS {
        let _seed = Seed(seed);
        cases::check(open(Executor::Virtual(Order::Seeded(seed))), case);
    }
}

macro_rules! tests {
    ($($file:ident::$name:ident)*) => {
        mod threads {
            $(#[test]
            fn $name() {
                crate::cases::check(
                    crate::open(trijet::sim::Executor::Threads),
                    crate::cases::$file::$name,
                );
            })*
        }

        mod greedy {
            $(#[test]
            fn $name() {
                let order = trijet::sim::Order::Greedy;
                crate::cases::check(
                    crate::open(trijet::sim::Executor::Virtual(order)),
                    crate::cases::$file::$name,
                );
            })*
        }

        mod seeded {
            $(#[test]
            fn $name() {
                crate::check_seeds(crate::cases::$file::$name);
            })*
        }
    };
}
cases::for_each_case!(tests);

/// Laws A1, A13 and A15: the second operation always waits where a law demands it. Everywhere else
/// both outcomes are possible.
#[test]
fn every_order_that_the_matrix_of_default_streams_leaves_open_is_possible() {
    for first in KINDS {
        for second in KINDS {
            let strategies =
                [Strategy::Seeded { runs: 200, seed: 0 }, Strategy::Exhaustive { runs_max: 300 }];
            let mut possible = BTreeSet::new();
            for strategy in strategies {
                let found = explore(&HostConfig::default(), strategy, |devices| {
                    second_of_two(&devices[0], first, second).expect("nothing fails")
                });
                let found = found.expect("the machine starts a few threads");
                let exhaustive = matches!(strategy, Strategy::Exhaustive { .. });
                assert!(found.complete || !exhaustive, "{second:?} after {first:?}");
                possible.extend(found.outcomes.into_iter().map(|outcome| outcome.value));
            }
            let expected = if must_wait(first, second) {
                BTreeSet::from([Second::Waited])
            } else {
                BTreeSet::from([Second::Waited, Second::Overtook])
            };
            assert_eq!(possible, expected, "{second:?} after {first:?}");
        }
    }
}

/// The outcomes that were measured on a GPU: the program, the outcome, and its count.
fn recorded() -> Vec<(&'static str, &'static str, u64)> {
    let text = include_str!("golden/litmus-h200-driver-580.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let fields = lines.map(|line| line.split(' ').collect::<Vec<_>>());
    let count = |text: &str| text.parse().expect("the last field is a count");
    fields.map(|fields| (fields[0], fields[1], count(fields[2]))).collect()
}

#[test]
fn the_host_device_can_do_what_the_gpu_did() {
    let recorded = recorded();
    let how = "TRIJET_LITMUS=FILE cargo test --test gpu records one on a machine with a GPU";
    assert!(!recorded.is_empty(), "no run on a GPU is recorded; {how}");
    for litmus in litmus::ALL {
        let on_gpu = || recorded.iter().filter(|(name, ..)| *name == litmus.name);
        let runs: u64 = on_gpu().map(|(.., count)| count).sum();
        assert_eq!(runs, litmus.runs, "runs of {} on the GPU; {how}", litmus.name);
        let possible = litmus::possible(litmus);
        println!("{}: {possible:?}", litmus.name);
        litmus::demand_among(litmus, on_gpu().map(|(_, outcome, _)| *outcome), &possible);
    }
}

/// The host device draws the choices that the laws leave open, so every outcome occurs.
#[test]
fn litmus_programs_have_more_than_one_outcome() {
    // The host engine has one queue depth, and one thread calls its host functions.
    let single_outcome = ["many-operations-behind-a-busy-stream"];
    for litmus in litmus::ALL.iter().filter(|litmus| !single_outcome.contains(&litmus.name)) {
        let possible = litmus::possible(litmus);
        println!("{}: {possible:?}", litmus.name);
        assert!(possible.len() > 1, "{}: {possible:?}", litmus.name);
    }
}
