//! Calls that have an entry at their start, such as calls on a stream that may be full. Their work,
//! host functions and reads have the same order as without this entry.

use super::log::{A, B, BLOCKING_A, C, D, D2, E, H, LEGACY, Log, log, r, w};
use trijet::SourceOrder;
use trijet::check::{Conflict, FindingClass};
use trijet::trace::Signalled::{Found, Set, Wait};
use trijet::trace::StreamWork;

const S: u64 = 1;
const WAW: FindingClass = FindingClass::Race(Conflict::Waw);

/// Checks a program twice: with an entry at the start of its first call, and without.
#[track_caller]
fn either_way(lane: u32, program: impl Fn(Log) -> Log, classes: &[FindingClass]) {
    program(log()).finds(classes);
    program(log().begin(lane)).finds(classes);
}

#[test]
fn a_batch_that_reads_during_its_call_is_ordered_for_its_thread_alone() {
    let batch = StreamWork::Batch(SourceOrder::DuringCall);
    let copied = |log: Log| log.work(batch, A, "batch", &[r(H), w(D)]);
    either_way(A, |log| copied(log).copy(B, H, D2), &[]);
    either_way(A, |log| copied(log).by(1).copy(B, H, D2), &[FindingClass::Race(Conflict::War)]);
}

#[test]
fn a_host_function_hands_over_what_its_stream_did() {
    let sets = |log: Log| log.host_fn(A).inside(A, 1, S, Set);
    either_way(A, |log| sets(log).k(B, &[w(D)]).k(C, &[w(D)]), &[WAW]);
    let after_work = |begins: bool| {
        let work = log().k(A, &[w(D)]);
        let work = if begins { work.begin(A) } else { work };
        work.host_fn(A).inside(A, 2, S, Set).signal(S, Found).k(B, &[w(D)])
    };
    after_work(false).is_silent();
    after_work(true).is_silent();
}

#[test]
fn a_host_function_that_waits_for_what_comes_after_it_hangs() {
    let waits = |log: Log| log.host_fn(A).inside(A, 1, S, Wait).sync(A).signal(S, Set);
    either_way(A, waits, &[FindingClass::Deadlock]);
}

#[test]
fn an_allocation_is_not_held_back_by_the_legacy_stream() {
    let program = |begins: bool| {
        let work = log().k(LEGACY, &[w(D)]);
        let work = if begins { work.begin(BLOCKING_A) } else { work };
        work.alloc(BLOCKING_A, D2).edge(E, BLOCKING_A, C).k(C, &[w(D)])
    };
    program(false).finds(&[WAW]);
    program(true).finds(&[WAW]);
}

#[test]
fn an_allocation_holds_no_blocking_stream_back() {
    let program = |begins: bool| {
        let work = log().k(A, &[w(D)]).sync(A);
        let work = if begins { work.begin(LEGACY) } else { work };
        work.alloc(LEGACY, D2).by(1).k(BLOCKING_A, &[w(D)])
    };
    program(false).finds(&[WAW]);
    program(true).finds(&[WAW]);
}
