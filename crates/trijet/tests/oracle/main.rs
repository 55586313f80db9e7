//! Random programs on several streams compute what they compute one call after the other, under
//! every order that the laws allow. And the record of the driver calls shows why: each conflict is
//! ordered, and no wait is idle.
//!
//! `TRIJET_SEED=7 cargo test --test oracle` runs one program again.

mod closure;
mod fuzzed;
mod program;
#[path = "../cases/reference.rs"]
mod reference;
#[path = "../../../../fuzz/replay.rs"]
mod replay;

use program::{Program, run};
use std::ops::Range;
use trijet::{Device, Executor, HostConfig, Order};

/// Prints the seed of a program that fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("replay with TRIJET_SEED={}", self.0);
        }
    }
}

/// The programs of a test, or the one that was asked for.
fn seeds(all: Range<u64>) -> Range<u64> {
    match std::env::var("TRIJET_SEED").map(|seed| seed.parse::<u64>()) {
        Ok(seed) => {
            let seed = seed.expect("TRIJET_SEED is a number");
            seed..seed + 1
        }
        Err(_) => match std::env::var("TRIJET_PROGRAMS").map(|most| most.parse::<u64>()) {
            Ok(most) => all.start..all.end.min(most.expect("TRIJET_PROGRAMS is a number")),
            Err(_) => all,
        },
    }
}

/// One device for even seeds, two for odd ones.
fn open(executor: Executor, seed: u64) -> Vec<Device> {
    let devices = if seed.is_multiple_of(2) { 1 } else { 2 };
    let config = HostConfig { executor, devices, ..HostConfig::default() };
    Device::host(config).expect("the machine starts a few threads")
}

fn seeded(seed: u64) -> Vec<Device> {
    open(Executor::Virtual(Order::Seeded(seed)), seed)
}

fn close(devices: Vec<Device>) {
    for device in devices {
        device.close().expect("no drop failed");
    }
}

#[test]
fn programs_compute_what_they_compute_serially_in_every_order() {
    for seed in seeds(0..2000) {
        let _seed = Seed(seed);
        let program = Program::random(seed);
        let expected = program.serial();
        for order in 0..3 {
            let devices = seeded(seed + 1000 * order);
            let found = run(&devices, &program, false).expect("no call fails");
            assert_eq!(found, expected, "order {order} of {program:?}");
            close(devices);
        }
    }
}

#[test]
fn programs_compute_what_they_compute_serially_on_threads() {
    for seed in seeds(0..2000) {
        let _seed = Seed(seed);
        let program = Program::random(seed);
        let devices = open(Executor::Threads, seed);
        let found = run(&devices, &program, false).expect("no call fails");
        assert_eq!(found, program.serial(), "{program:?}");
        close(devices);
    }
}

/// A fuzzer finds programs that no seed draws: `cargo xtask fuzz`.
#[test]
fn programs_that_bytes_choose_compute_what_they_compute_serially() {
    replay::replay("program", 3000, fuzzed::check);
}

#[test]
fn every_conflict_is_ordered_and_no_wait_is_idle() {
    let (mut conflicts, mut waits) = (0, 0);
    for seed in seeds(0..2000) {
        let _seed = Seed(seed);
        let program = Program::random(seed);
        let devices = seeded(seed);
        run(&devices, &program, true).expect("no call fails");
        let counts = devices[0].ordering();
        let ops = devices[0].take_record().expect("everything is complete");
        let seen = closure::check(&ops, program.events).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(seen.waits as u64, counts.waits, "the ledger has every wait that was counted");
        conflicts += seen.conflicts;
        waits += seen.waits;
    }
    assert!(conflicts > 0 && waits > 0, "{conflicts} conflicts and {waits} waits were looked at");
}

/// The tests above can fail: without one wait some program computes something else. And nothing
/// hangs for want of a wait.
#[test]
fn leaving_out_any_wait_never_hangs_and_sometimes_shows() {
    let (mut left_out, mut shown) = (0, 0);
    for seed in seeds(0..100) {
        let _seed = Seed(seed);
        let program = Program::random(seed);
        let expected = program.serial();
        let whole = seeded(seed);
        run(&whole, &program, false).expect("no call fails");
        for number in 1..=whole[0].ordering().waits {
            let devices = seeded(seed);
            devices[0].drop_wait(number);
            let found = run(&devices, &program, false).expect("no call fails");
            // The waits of frees are never left out, and after these there may be no other.
            left_out += u64::from(devices[0].dropped_wait().is_some());
            shown += u64::from(found != expected);
        }
    }
    assert!(shown > 0, "{left_out} waits were left out, and nothing showed");
}

/// Leaving out the only wait of a program is wrong in some order, and the closure says so at once.
#[test]
fn a_missing_wait_is_found_by_the_bytes_and_by_the_closure() {
    let program = Program::one_crossing();
    let expected = program.serial();
    let damaged = |seed: &u64| {
        let devices = seeded(*seed);
        devices[0].drop_wait(1);
        let found = run(&devices, &program, true).expect("no call fails");
        let dropped = devices[0].dropped_wait().expect("there is one wait");
        assert_eq!(dropped.waiter, "mix_u64");
        let ops = devices[0].take_record().expect("everything is complete");
        closure::check(&ops, program.events).expect_err("the two launches race");
        found != expected
    };
    let shown = (0..50).filter(damaged).count();
    assert!(shown > 0, "none of 50 orders showed it");
    for seed in 0..50 {
        let found = run(&seeded(seed), &program, false).expect("no call fails");
        assert_eq!(found, expected, "with its wait, seed {seed}");
    }
}
