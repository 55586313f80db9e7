//! Random programs on several streams, devices and threads compute the same, in every order that
//! the laws allow, as when they make one call after the other. The ledger of the driver calls shows
//! why: each conflict is ordered, and no wait is unnecessary.
//!
//! The laws are written here a second time, independently of the library, as a relation over calls.
//!
//! `TRIJET_SEEDS=7 cargo test --test oracle` runs one program again, and `TRIJET_SEEDS=0..100` a
//! hundred; `cargo xtask explore` runs many.

mod calls;
mod checked;
mod clean;
mod closure;
mod draw;
mod explore;
mod fuzzed;
mod kept;
mod laws;
mod ledger;
mod program;
#[path = "../cases/reference.rs"]
mod reference;
#[path = "../../../../fuzz/replay.rs"]
mod replay;
mod run;
mod search;
mod seeds;
mod serial;
mod shrink;
mod switches;
mod text;
mod turns;
mod valid;
mod verdict;

use explore::{Tally, close, computed, examine, explore, open, seeded};
use program::Program;
use run::run;
use seeds::asked_or;
use trijet::sim::Executor;
use trijet::testing;

fn kept() -> Vec<Program> {
    let parse = |text: &&str| text::parse(text).unwrap_or_else(|why| panic!("{why}: {text}"));
    kept::ALL.iter().map(parse).collect()
}

/// `cargo xtask explore` knows this test by its name, and reads the line that it prints.
#[test]
fn programs_compute_what_they_compute_serially_and_each_conflict_is_ordered() {
    let (seeds, workers) = asked_or(0..200);
    let tally = explore(seeds.clone(), workers, &examine);
    println!("explored seeds={}..{} {tally}", seeds.start, seeds.end);
    if seeds.end - seeds.start >= 100 {
        assert!(tally.seen.conflicts > 0 && tally.seen.waits > 0, "nothing was judged: {tally}");
    }
}

/// `cargo xtask explore` knows this test as well. `TRIJET_ORDERS` is the number of orders that are
/// drawn for each program.
#[test]
fn a_search_finds_whatever_drawn_orders_lead_to() {
    let orders = std::env::var("TRIJET_ORDERS").map(|orders| orders.parse::<u64>());
    let orders = orders.map_or(60, |orders| orders.expect("TRIJET_ORDERS is a number"));
    let seeds = asked_or(0..60).0;
    let tally = search::compare(seeds.clone(), orders);
    println!("explored seeds={}..{} {tally}", seeds.start, seeds.end);
}

#[test]
fn programs_compute_what_they_compute_serially_on_threads() {
    let (seeds, workers) = asked_or(0..120);
    explore(seeds, workers, &|program, _| {
        computed(program, open(Executor::Threads, program), turns::Turns::Free)?;
        Ok(Tally { programs: 1, runs: 1, ..Tally::default() })
    });
}

#[test]
fn kept_programs_go_well_in_many_orders() {
    for program in kept() {
        for seed in 0..50 {
            examine(&program, seed).unwrap_or_else(|why| panic!("order {seed}: {why}\n{program}"));
        }
    }
}

/// Programs in which lanes pass from stream to stream, in many orders, and with a record refused.
#[test]
fn kept_programs_of_lanes_go_well_in_many_orders() {
    if !switches::on(switches::Switch::Threads) {
        println!("left out: TRIJET_ORACLE has no `threads`");
        return;
    }
    let mut wrong = Vec::new();
    for (number, text) in kept::OF_LANES.iter().enumerate() {
        let mut program = text::parse(text).unwrap_or_else(|why| panic!("{why}: {text}"));
        for refused in 0..10 {
            let refusal = (refused > 0).then_some((trijet::sim::Verb::EventRecord, refused));
            program.refusals = refusal.into_iter().collect();
            let failed = (0..6).find_map(|seed| Some((seed, examine(&program, seed).err()?)));
            wrong.extend(failed.map(|(seed, why)| {
                format!("program {number}, record {refused} refused, order {seed}: {why}")
            }));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Shows that the tests above can fail: without one wait, some program computes another result. No
/// program hangs when a wait is missing.
#[test]
fn leaving_out_any_wait_never_hangs_and_sometimes_shows() {
    let (mut left_out, mut shown) = (0, 0);
    for seed in asked_or(0..100).0 {
        let program = draw::draw(seed);
        let expected = serial::interpret(&program);
        let whole = seeded(&program, seed);
        run(&whole, &program).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        for number in 1..=whole[0].ordering().waits {
            let devices = seeded(&program, seed);
            testing::drop_wait(&devices[0], number);
            let found = run(&devices, &program);
            let found = found.unwrap_or_else(|why| panic!("seed {seed}, wait {number}: {why}"));
            // The waits of frees are never left out, and there may be no other wait after them.
            left_out += u64::from(testing::dropped_wait(&devices[0]).is_some());
            shown += u64::from(expected.difference(&found).is_some());
        }
    }
    assert!(shown > 0, "{left_out} waits were left out, and nothing showed");
}

/// Without its only wait, a program is wrong in some order, and the judge finds the race in every
/// order.
#[test]
fn a_missing_wait_is_found_by_the_bytes_and_by_the_judge() {
    let program = text::parse(kept::ONE_CROSSING).expect("it is a program");
    let expected = serial::interpret(&program);
    let damaged = |seed: &u64| {
        let devices = seeded(&program, *seed);
        testing::drop_wait(&devices[0], 1);
        let zero = devices[0].stream().expect("one more stream");
        devices[0].start_trace(&zero).expect("a trace begins");
        let found = run(&devices, &program).expect("no call fails");
        let dropped = testing::dropped_wait(&devices[0]).expect("there is one wait");
        assert_eq!(dropped.waiter, "mix_u64");
        let ops = devices[0].take_trace().expect("everything is complete").ops;
        let history = ledger::history(&ops);
        let wrong = verdict::judge(&history).expect_err("the two launches race");
        assert!(matches!(wrong, verdict::Wrong::Race(..)), "{}", verdict::Report(&history, wrong));
        expected.difference(&found).is_some()
    };
    let shown = (0..50).filter(damaged).count();
    assert!(shown > 0, "none of 50 orders showed it");
    for seed in 0..50 {
        let devices = seeded(&program, seed);
        let found = run(&devices, &program).expect("no call fails");
        assert_eq!(expected.difference(&found), None, "the whole program, seed {seed}");
        close(devices).expect("no drop failed");
    }
}

/// Small programs have one outcome in every order that can make a difference.
#[test]
fn small_programs_have_one_outcome_in_every_order() {
    if !switches::on(switches::Switch::Orders) {
        println!("left out: TRIJET_ORACLE has no `orders`");
        return;
    }
    let (seeds, workers) = asked_or(0..200);
    let small = |seed| draw::draw_small(seed, false);
    let tally = explore::explore_drawn(&small, seeds, workers, &|program, _| {
        let (outcomes, runs, _) = explore::exhausted(program, 300)?;
        let expected = serial::interpret(program);
        let different = outcomes.iter().find_map(|outcome| expected.difference(outcome));
        if let Some(difference) = different {
            return Err(format!("one of {} outcomes: {difference}", outcomes.len()));
        }
        Ok(Tally { programs: 1, runs, ..Tally::default() })
    });
    println!("exhausted {tally}");
}

/// The checker and the judge find a race in a program that orders its memory by hand exactly if the
/// program has two outcomes, or would have two with other words in its memory.
#[test]
fn programs_that_order_by_hand_race_exactly_if_an_order_makes_a_difference() {
    if !switches::on(switches::Switch::Manual) {
        println!("left out: TRIJET_ORACLE has no `manual`");
        return;
    }
    let (seeds, workers) = asked_or(0..200);
    let small = |seed| draw::draw_small(seed, true);
    let tally = explore::explore_drawn(&small, seeds, workers, &checked::race_if_different);
    println!("by hand: {tally}");
}

/// The seeds of the fuzz target `program`, and random changes of them.
#[test]
fn programs_of_any_text_compute_what_they_compute_serially() {
    replay::replay("program", 2000, fuzzed::check);
}
