//! The host device answers every call of the conformance suite as a real GPU did.

use crate::transcripts::{Comparison, Transcript, compare, golden};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{Subject, transcript};

/// The number of drawn orders.
const SEEDS: u64 = 4;

fn host(executor: Executor, devices: u32) -> String {
    let config = HostConfig::new().executor(executor).devices(devices);
    let mut text = Vec::new();
    transcript(&Subject::Host(config), &mut text).expect("the host device opens");
    String::from_utf8(text).expect("a transcript is text")
}

fn check(executor: Executor) {
    let golden = golden();
    let found = Transcript::parse(&host(executor.clone(), golden.devices()));
    compare(&golden, &found).demand_none(&format!("{executor:?}"));
}

#[test]
fn simulated_devices_answer_as_the_gpu_did() {
    check(Executor::Virtual(Order::Greedy));
}

#[test]
fn simulated_devices_answer_as_the_gpu_did_in_any_order() {
    for seed in 0..SEEDS {
        check(Executor::Virtual(Order::Seeded(seed)));
    }
}

#[test]
fn devices_of_cpu_threads_answer_as_the_gpu_did() {
    check(Executor::Threads);
}

#[test]
fn a_simulated_transcript_can_be_repeated() {
    let executor = Executor::Virtual(Order::Seeded(7));
    assert_eq!(host(executor.clone(), 2), host(executor.clone(), 2));
}

fn compared(golden: &str, found: &str) -> Comparison {
    compare(&Transcript::parse(golden), &Transcript::parse(found))
}

#[test]
fn an_answer_that_differs_is_found() {
    let golden = "# devices: 1\n\n== a\nquery e -> ok ready\nsync e -> ok\n";
    assert_eq!(compared(golden, golden).equal, 1);
    let found = compared(golden, "== a\nquery e -> err 400\nsync e -> ok\n");
    let words = "- query e -> ok ready\n  + query e -> err 400\n    sync e -> ok";
    assert!(found.differences[0].contains(words), "{found:?}");
}

#[test]
fn both_answers_must_be_among_the_legal_ones() {
    let line = |answer: &str| format!("== a\nquery e may ok ready|ok not-ready -> {answer}\n");
    let differences = |a: &str, b: &str| compared(&line(a), &line(b)).differences.len();
    assert_eq!(differences("ok ready", "ok not-ready"), 0);
    assert_eq!(differences("ok ready", "err 1"), 1);
    assert_eq!(differences("err 1", "ok ready"), 1);
}

#[test]
fn other_calls_and_missing_sequences_are_differences_and_skipped_ones_are_counted() {
    let golden = "== a\nquery e -> ok\n\n== b\nsync s -> ok\n\n== c\nskipped: needs 2 devices\n";
    let found = compared(golden, "== a\nquery f -> ok\n\n== c\nlog -> ok\n\n== d\nlog -> ok\n");
    assert_eq!((found.differences.len(), found.equal, found.skipped.len()), (3, 0, 1));
}

#[test]
fn a_transcript_that_was_cut_off_is_read_to_its_end() {
    let golden = "== a\nquery e -> ok\nsync e -> ok\n";
    assert_eq!(compared(golden, "== a\nquery e -> ok\nsync e -> ").differences.len(), 1);
}
