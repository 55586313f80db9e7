//! Cases 15 to 22 and 56: allocations, frees, content, and operations that fail.

use super::log::{A, B, C, D, D2, E, FAR, H, Log, log, part, r, tracked, w};
use trijet::check::{CheckOptions, FindingClass};
use trijet::trace::{LaneId, MemoryCall, Mode, Position, StreamWork};

#[test]
fn case_15_a_use_in_another_stream_needs_an_edge_from_the_allocation() {
    log().alloc(A, D).k(B, &[w(D)]).finds(&[FindingClass::UseBeforeAlloc]);
    log().alloc(A, D).edge(E, A, B).k(B, &[w(D)]).is_silent();
    log().k(A, &[w(D)]).alloc(A, D).finds(&[FindingClass::UseBeforeAlloc]);
}

/// A use can be a read, a write or an update, by a kernel, a copy, a graph or the host.
#[test]
fn every_use_needs_an_edge_from_the_allocation() {
    let found = |log: Log| {
        let mut found: Vec<FindingClass> =
            log.verdict().findings.iter().map(|found| found.class).collect();
        found.retain(|class| *class != FindingClass::ReadUninit);
        found
    };
    let too_early = [FindingClass::UseBeforeAlloc];
    for mode in [Mode::Read, Mode::Write, Mode::Update] {
        for ordered in [part(D, 0..64, mode), tracked(part(D, 0..64, mode))] {
            let uses: [(&str, &dyn Fn(Log) -> Log); 6] = [
                ("kernel", &|log| log.k(B, std::slice::from_ref(&ordered))),
                ("kernel of another device", &|log| log.k(FAR, std::slice::from_ref(&ordered))),
                ("copy", &|log| {
                    log.work(StreamWork::Copy, B, "copy", std::slice::from_ref(&ordered))
                }),
                ("host function", &|log| {
                    log.work(StreamWork::HostFn, B, "host function", std::slice::from_ref(&ordered))
                }),
                ("host", &|log| log.host(ordered.clone())),
                ("graph", &|log| log.launch(B, 7, std::slice::from_ref(&ordered))),
            ];
            for (name, uses) in uses {
                assert_eq!(found(uses(log().alloc(A, D))), too_early, "{name}, {ordered:?}");
                let ordered_use = uses(log().alloc(A, D).edge(E, A, B).edge(E + 1, A, FAR).sync(A));
                assert_eq!(found(ordered_use), [], "{name}, {ordered:?}");
            }
        }
    }
    // A free is a use as well.
    log().alloc(A, D).free(B, D).finds(&[FindingClass::FreeRacesUse]);
}

#[test]
fn case_16_a_free_waits_for_every_user() {
    let used = || log().alloc(A, D).k(A, &[w(D)]).edge(E, A, B).k(B, &[r(D)]);
    let verdict = used().free(A, D).finds(&[FindingClass::FreeRacesUse]);
    assert_eq!(verdict.findings[0].rules[0], "A22");
    used().edge(E, B, A).free(A, D).is_silent();
    used().free(B, D).is_silent();
}

#[test]
fn case_17_nothing_uses_memory_after_the_call_that_frees_it() {
    let freed = || log().alloc(A, D).k(A, &[w(D)]);
    freed().free(A, D).k(A, &[r(D)]).finds(&[FindingClass::UseAfterFree]);
    freed().k(A, &[r(D)]).free(A, D).is_silent();
}

#[test]
fn case_18_memory_is_freed_once() {
    log().alloc(A, D).free(A, D).free(A, D).finds(&[FindingClass::DoubleFree]);
    log().alloc(A, D).free(A, D).edge(E, A, B).free(B, D).finds(&[FindingClass::DoubleFree]);
    log().alloc(A, D).free(A, D).alloc(A, D2).free(A, D2).is_silent();
}

#[test]
fn case_19_a_free_outside_of_stream_order_waits_for_nothing() {
    let used = || log().alloc(A, D).k(A, &[w(D)]);
    let verdict = used().at_call(MemoryCall::FreeNow, w(D)).finds(&[FindingClass::FreeRacesUse; 1]);
    assert!(verdict.findings[0].known.contains("does not synchronise"), "{verdict}");
    assert_eq!(verdict.findings[0].rules[0], "A24");
    used().sync(A).at_call(MemoryCall::FreeNow, w(D)).is_silent();
    used().free(A, D).is_silent();
}

#[test]
fn case_20_what_is_never_freed_leaks_when_the_record_goes_to_the_end() {
    let kept = || log().alloc(A, D).k(A, &[w(D)]);
    kept().is_silent();
    let verdict = kept().with(CheckOptions::to_the_end).finds(&[FindingClass::Leak]);
    assert_eq!(verdict.findings[0].second.op, 0, "the allocation is named");
    assert!(verdict.is_clean(), "a leak is a warning");
    kept().free(A, D).with(CheckOptions::to_the_end).is_silent();
    let host = log().at_call(MemoryCall::AllocNow, w(H)).with(CheckOptions::to_the_end);
    host.finds(&[FindingClass::Leak]);
    host.at_call(MemoryCall::FreeNow, w(H)).is_silent();
}

/// The new block may have the same address, but is a different block.
#[test]
fn case_21_memory_that_the_pool_hands_on_is_other_memory() {
    log().alloc(A, D).k(A, &[w(D)]).free(A, D).alloc(B, D2).k(B, &[w(D2)]).is_silent();
}

#[test]
fn case_22_memory_is_written_before_it_is_read() {
    let verdict = log().alloc(A, D).k(A, &[r(D)]).finds(&[FindingClass::ReadUninit]);
    assert!(verdict.is_clean(), "a warning");
    log().alloc(A, D).work(StreamWork::Fill, A, "fill", &[w(D)]).k(A, &[r(D)]).is_silent();
    log().at_call(MemoryCall::AllocNow, w(D)).k(C, &[r(D)]).finds(&[FindingClass::ReadUninit]);
    // An operation with undeclared accesses may have written the block.
    log().alloc(A, D).undeclared(A).k(A, &[r(D)]).is_silent();
}

#[test]
fn case_56_the_first_culprit_is_named_and_later_operations_are_poisoned() {
    let mut run = log();
    for _ in 0..30 {
        run = run.k(A, &[w(D)]);
    }
    let culprit = Position { lane: LaneId(A), seq: 8 };
    let verdict = run.clone().fault(Some(culprit)).k(A, &[w(D)]).finds(&[FindingClass::Sticky]);
    let finding = &verdict.findings[0];
    assert_eq!(finding.first.as_ref().map(|first| first.op), Some(7));
    assert_eq!((finding.second.op, verdict.poisoned), (30, 23));
    run.is_silent();
    // If the operation that failed is unknown, the report names the operations that may have been
    // running.
    let unnamed = log().k(A, &[]).k(A, &[]).sync(A).k(A, &[]).k(B, &[]).fault(None);
    let known = &unnamed.finds(&[FindingClass::Sticky]).findings[0].known;
    let suspects =
        "#3 `kernel` (src/main.rs:4:5) on `stream 0`, #4 `kernel` (src/main.rs:5:5) on `stream 1`";
    assert!(known.contains(suspects), "{known}");
}
