//! Order between host threads: ownership (law A44), and events that threads share (law A45).

use super::log::{A, B, D, D2, E, H, Log, log, part, r, tracked, w};
use trijet::check::{CheckOptions, Checker, Conflict, FindingClass, Severity, Threads};
use trijet::trace::Signalled::{Found, Set};
use trijet::trace::{Mode, OpKind, StreamMark, WaitOutcome, Waited};

const HOST_WAW: FindingClass = FindingClass::Host(Conflict::Waw);
const HOST_RAW: FindingClass = FindingClass::Host(Conflict::Raw);
const RAW: FindingClass = FindingClass::Race(Conflict::Raw);
const UNORDERED: FindingClass = FindingClass::EventUnordered;

/// Law A44: a tracked block is handed over by its use in the next thread.
#[test]
fn a_tracked_block_is_handed_over_by_being_used() {
    log().host(tracked(w(H))).by(1).host(tracked(w(H))).is_silent();
    log().host(tracked(w(H))).by(1).host(tracked(r(H))).is_silent();
    log().host(w(H)).by(1).host(w(H)).finds(&[HOST_WAW]);
    // Shared uses do not follow each other. An exclusive use follows all of them.
    let shared = log().host(w(H)).host(tracked(r(D))).by(1).host(tracked(r(D)));
    shared.clone().host(w(H)).finds(&[HOST_WAW]);
    let readers = log().host(tracked(r(D))).by(1).host(w(H)).host(tracked(r(D))).by(2);
    readers.clone().host(tracked(r(D))).host(w(H)).finds(&[HOST_WAW]);
    readers.host(tracked(w(D))).host(w(H)).is_silent();
}

#[test]
fn ownership_hands_over_what_was_known_and_no_work_of_the_device() {
    let copied = |synced: bool| {
        let copied = log().copy(A, H, D);
        let copied = if synced { copied.sync(A) } else { copied };
        copied.host(tracked(w(D2))).by(1).host(tracked(w(D2))).host(r(H))
    };
    copied(true).is_silent();
    copied(false).finds(&[HOST_RAW]);
    // Knowledge that the first thread gains after the hand-over is not handed over.
    let later = log().copy(A, H, D).host(tracked(w(D2))).sync(A).by(1);
    later.host(tracked(w(D2))).host(r(H)).finds(&[HOST_RAW]);
    // An enqueue call is a use as well.
    let enqueued = log().host(w(H)).k(A, &[tracked(w(D))]).by(1).k(B, &[r(H), tracked(w(D))]);
    assert!(!enqueued.verdict().findings.iter().any(|f| f.class == HOST_RAW), "{:?}", enqueued.ops);
}

#[test]
fn ownership_is_per_byte_range_and_ends_with_order_by_hand() {
    let half = |range| tracked(part(D, range, Mode::Write));
    let parts = log().host(w(H)).host(half(0..32)).by(1);
    parts.clone().host(half(32..64)).host(w(H)).finds(&[HOST_WAW]);
    parts.host(half(31..64)).host(w(H)).is_silent();
    let by_hand =
        log().host(w(H)).host(tracked(w(D))).by(1).host(r(D2)).host(part(D, 64..65, Mode::Write));
    by_hand.host(w(H)).finds(&[HOST_WAW]);
}

#[test]
fn state_does_not_grow_with_the_number_of_hand_overs() {
    const ROUNDS: u64 = 20_000;
    let mut checker = Checker::new(CheckOptions::default());
    let mut most = [0; 2];
    for number in 0..ROUNDS {
        let own = tracked(part(5, number % 64..number % 64 + 1, Mode::Update));
        let round = log().host(own.clone()).by(1).host(own.clone()).by(2).host(own);
        round.ops.iter().for_each(|op| checker.push(op));
        let half = usize::from(number >= ROUNDS / 2);
        most[half] = most[half].max(checker.held_state());
    }
    assert!(most[1] <= most[0] && most[1] < 20_000, "{most:?}");
    assert!(checker.finish().findings.is_empty());
}

/// Thread 0 writes and records. `between` adds calls. Then thread 1 waits and reads.
fn shared(between: impl Fn(Log) -> Log) -> Log {
    between(log().k(A, &[w(D)]).rec(E, A)).by(1).wait(E, B).k(B, &[r(D)])
}

/// Law A45.
#[test]
fn a_record_and_a_wait_by_two_threads_need_an_order() {
    let verdict = shared(|log| log).finds(&[RAW, UNORDERED]);
    let finding = &verdict.findings[1];
    assert_eq!((finding.first.as_ref().map(|f| f.op), finding.second.op), (Some(1), 2));
    assert_eq!(
        (finding.class.code(), finding.class.severity()),
        ("SYNC/EVENT-UNORDERED", Severity::Warning)
    );
    assert_eq!(finding.rules, ["A45"]);
    shared(|log| log.signal(1, Set).by(1).signal(1, Found)).is_silent();
    shared(|log| log.host(tracked(w(H))).by(1).host(tracked(w(H)))).is_silent();
    shared(|log| log.k(A, &[]).by(1).sync(A)).is_silent();
    shared(|log| log.with(|options| options.threads(Threads::OneStartsAll))).is_silent();
    // A wait of the host for the event does not order the calls.
    shared(|log| log.by(1).esync(E)).finds(&[RAW, UNORDERED]);
    // Work that was enqueued before the record does not order the calls.
    let before = log().k(A, &[w(D)]).k(B, &[]).rec(E, A).by(1).sync(B).wait(E, B).k(B, &[r(D)]);
    before.finds(&[RAW, UNORDERED]);
}

#[test]
fn both_orders_of_a_pair_are_found_once() {
    let first = log().wait(E, B).by(1).rec(E, A).by(0).wait(E, B).by(1).rec(E, A);
    first.finds(&[FindingClass::WaitUnrecorded, UNORDERED]);
    let asked = log().rec(E, A).by(1).synced(Waited::Event(E), A, WaitOutcome::Pending);
    asked.finds(&[UNORDERED]);
    log().rec(E, A).by(1).rec(E, B).finds(&[UNORDERED]);
    // Two waits need no order.
    log().rec(E, A).signal(1, Set).by(1).signal(1, Found).wait(E, B).by(0).wait(E, B).is_silent();
}

/// An order that was seen in a run counts for memory that the library orders. Events of the library
/// itself are always in order.
#[test]
fn seen_order_holds_for_memory_that_the_library_orders() {
    let own = |access: fn(u64) -> _| tracked(access(D));
    let tracked_work = log().k(A, &[own(w)]).rec(E, A).by(1).wait(E, B).k(B, &[own(r)]);
    tracked_work.finds(&[UNORDERED]);
    let mut internal = shared(|log| log);
    for op in &mut internal.ops {
        if let OpKind::Mark(StreamMark::Record { by, .. } | StreamMark::Wait { by, .. }) =
            &mut op.kind
        {
            *by = trijet::trace::Asked::Ordering;
        }
    }
    internal.is_silent();
}

/// Timing decides which of two records is the last one.
#[test]
fn a_wait_after_two_records_without_an_order_follows_neither() {
    let two = log().k(A, &[w(D)]).rec(E, A).by(1).rec(E, B).signal(1, Set).by(0).rec(E, A);
    let found = two.signal(1, Found).wait(E, B).k(B, &[r(D)]);
    found.finds(&[RAW, UNORDERED]);
}

/// A record that comes after the wait in this run could come before it in another run.
#[test]
fn a_wait_is_in_doubt_by_a_record_that_comes_after_it() {
    let waited = || log().k(A, &[w(D)]).rec(E, A).wait(E, B).k(B, &[r(D)]);
    waited().is_silent();
    waited().by(1).rec(E, A).finds(&[RAW, UNORDERED]);
    waited().signal(1, Set).by(1).signal(1, Found).rec(E, A).is_silent();
    let synced = log().copy(A, H, D).rec(E, A).esync(E).host(r(H)).by(1).rec(E, B);
    synced.finds(&[UNORDERED]);
}
