//! Cases 23 to 35: accesses by the host, and the order by its waits and copies.

use super::log::{A, B, BLOCKING_A, C, D, E, G, H, LEGACY, log, r, w};
use trijet::check::{Assume, Conflict, FindingClass, Threads};
use trijet::trace::{MemoryCall, StreamWork, WaitOutcome, Waited};

const RAW: FindingClass = FindingClass::Host(Conflict::Raw);
const WAR: FindingClass = FindingClass::Host(Conflict::War);

#[test]
fn case_23_and_26_the_host_writes_after_the_upload_is_complete() {
    log().copy(A, D, H).host(w(H)).finds(&[WAR]);
    log().copy(A, D, H).rec(E, A).esync(E).host(w(H)).is_silent();
    log().copy(A, D, H).host(r(H)).is_silent();
    let early = log().rec(E, A).copy(A, D, H).esync(E).host(w(H)).finds(&[WAR]);
    assert!(early.findings[0].known.contains("BEFORE #1"), "{early}");
}

#[test]
fn case_24_the_host_reads_after_the_download_is_complete() {
    log().copy(A, H, D).host(r(H)).finds(&[RAW]);
    log().copy(A, H, D).sync(A).host(r(H)).is_silent();
    log().copy(A, H, D).sync(B).host(r(H)).finds(&[RAW]);
}

#[test]
fn case_25_host_memory_stays_until_the_copy_is_complete() {
    log().copy(A, D, H).at_call(MemoryCall::FreeNow, w(H)).finds(&[FindingClass::FreeInFlight]);
    log().copy(A, D, H).sync(A).at_call(MemoryCall::FreeNow, w(H)).is_silent();
}

#[test]
fn case_27_a_query_orders_only_when_it_succeeds() {
    let asked =
        |outcome| log().copy(A, H, D).rec(E, A).synced(Waited::Event(E), A, outcome).host(r(H));
    asked(WaitOutcome::Complete).is_silent();
    let verdict = asked(WaitOutcome::Pending).finds(&[RAW]);
    assert!(verdict.findings[0].known.contains("found work pending"), "{verdict}");
}

#[test]
fn case_28_a_copy_of_pageable_memory_may_go_on() {
    let faulty = log().copy(A, G, D).host(r(G));
    let verdict = faulty.finds(&[RAW]);
    assert!(verdict.findings[0].known.contains("portability"), "{verdict}");
    log().copy(A, G, D).sync(A).host(r(G)).is_silent();
    faulty.with(|options| options.assume(Assume::DriverObserved)).is_silent();
    let staged = log().copy(A, D, G).host(w(G));
    staged.finds(&[WAR]);
    staged.with(|options| options.assume(Assume::DriverObserved)).is_silent();
}

/// Cases 29 and 30 are about time only: no hazard.
#[test]
fn case_29_and_30_slow_programs_are_not_wrong() {
    log().copy(A, D, G).k(A, &[r(D)]).is_silent();
    let now = |log: super::log::Log| log.work(StreamWork::CopyNow, LEGACY, "copy", &[r(H), w(D)]);
    now(log()).k(A, &[r(D)]).sync(A).host(w(H)).is_silent();
}

/// Law A18.
#[test]
fn a_synchronous_copy_from_pageable_memory_is_only_staged() {
    let now = || log().work(StreamWork::CopyNow, LEGACY, "copy", &[r(G), w(D)]);
    now().host(w(G)).is_silent();
    now().k(BLOCKING_A, &[r(D)]).is_silent();
    now().k(A, &[r(D)]).finds(&[FindingClass::Race(Conflict::Raw)]);
    now().sync(LEGACY).k(A, &[r(D)]).is_silent();
}

#[test]
fn case_34_a_host_function_is_an_operation_of_its_stream() {
    let noted = |lane| log().copy(A, H, D).work(StreamWork::HostFn, lane, "note", &[r(H)]);
    noted(A).is_silent();
    noted(B).finds(&[RAW]);
}

#[test]
fn case_35_the_host_waits_for_what_a_host_function_writes() {
    let noted = || log().work(StreamWork::HostFn, A, "note", &[w(H)]);
    noted().host(r(H)).finds(&[RAW]);
    noted().sync(A).host(r(H)).is_silent();
}

/// Law A11.
#[test]
fn a_wait_orders_the_thread_that_waits() {
    let copied = || log().copy(A, H, D).by(1).sync(A).by(0);
    let verdict = copied().host(r(H)).finds(&[RAW]);
    assert!(verdict.findings[0].known.contains("thread 1 has waited"), "{verdict}");
    copied().by(1).host(r(H)).is_silent();
    copied().with(|options| options.threads(Threads::OneStartsAll)).host(r(H)).is_silent();
}

#[test]
fn a_hand_over_between_threads_shows_through_a_wait_only() {
    log().host(w(H)).by(1).copy(A, D, H).finds(&[RAW]);
    log().host(w(H)).copy(A, D, H).by(1).sync(A).host(w(H)).is_silent();
    log().host(w(H)).by(1).host(w(H)).finds(&[FindingClass::Host(Conflict::Waw)]);
    let joined = log().with(|options| options.threads(Threads::OneStartsAll));
    joined.clone().host(w(H)).by(1).copy(A, D, H).is_silent();
    joined.by(1).host(w(H)).by(2).host(w(H)).by(3).k(C, &[r(H)]).finds(&[RAW]);
}
