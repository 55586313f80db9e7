//! Programs that hang: which threads and host functions could still set a signal.

use super::log::{A, B, BLOCKING_A, C, D, H, LEGACY, Log, log, r};
use trijet::check::{Conflict, FindingClass, Names};
use trijet::trace::Handled::{Cloned, Dropped, Made, Used};
use trijet::trace::Signalled::Wait;
use trijet::trace::{BlockId, LaneId, LedgerNote, Named, Position, WaitOutcome, Waited};

const S: u64 = 1;
const DEADLOCK: &[FindingClass] = &[FindingClass::Deadlock];

/// A host function in `A` that waits.
fn waiting() -> Log {
    log().host_fn(A).inside(A, 1, S, Wait)
}

fn hangs(log: Log) -> Log {
    log.synced(Waited::Stream, A, WaitOutcome::Pending)
}

#[test]
fn a_host_function_that_has_returned_sets_nothing() {
    hangs(waiting().host_fn(B)).is_silent();
    hangs(waiting().host_fn(B).ran(B, 1)).finds(DEADLOCK);
    hangs(waiting().host_fn(B).host_fn(C).ran(B, 1)).is_silent();
    // The entry of the enqueue call may come after the end of the host function.
    let mut early = hangs(waiting().host_fn(B).ran(B, 1));
    early.ops.swap(2, 3);
    early.finds(DEADLOCK);
}

#[test]
fn a_thread_that_has_ended_sets_nothing() {
    let helped = |log: Log| hangs(log.by(0));
    helped(waiting().by(1).host(r(H))).is_silent();
    helped(waiting().by(1).host(r(H)).ends()).finds(DEADLOCK);
    // All threads have ended, and only the wait is left.
    waiting().ends().finds(DEADLOCK);
}

#[test]
fn a_thread_without_a_handle_sets_nothing() {
    let made = || log().handle(S, 1, Made).handle(S, 2, Cloned).host_fn(A).uses_inside(A, 1, S, 2);
    let made = || made().inside(A, 1, S, Wait).by(1).host(r(H)).by(0);
    // Thread 1 is alive and has no handle.
    let verdict = hangs(made()).finds(DEADLOCK);
    assert!(verdict.to_string().contains("nothing has set"), "{verdict}");
    // Thread 1 may have the clone that no thread has used. A handle that a thread has used belongs
    // to the thread that used it last.
    hangs(made().handle(S, 3, Cloned)).is_silent();
    hangs(made().handle(S, 3, Cloned).by(1).handle(S, 3, Used).by(0)).is_silent();
    hangs(made().handle(S, 3, Cloned).handle(S, 3, Used)).finds(DEADLOCK);
    hangs(made().handle(S, 3, Cloned).handle(S, 3, Dropped)).finds(DEADLOCK);
    // If the thread that last used a handle has ended, the handle may have moved to another thread.
    let moved = made().by(2).host(r(H)).handle(S, 1, Used).ends().by(0);
    hangs(moved).is_silent();
    // The handles of a signal that was made before the trace began are unknown.
    hangs(waiting().by(1).host(r(H)).by(0)).is_silent();
}

#[test]
fn a_call_that_has_begun_is_a_wait() {
    let blocking = || log().host_fn(BLOCKING_A).inside(BLOCKING_A, 1, S, Wait);
    blocking().begin(LEGACY).finds(DEADLOCK);
    blocking().begin(B).is_silent();
    blocking().begin(LEGACY).failed(LEGACY).is_silent();
    waiting().begin(A).finds(DEADLOCK);
    waiting().begin(LEGACY).is_silent();
}

/// Law A29.
#[test]
fn after_a_loss_a_host_function_that_has_not_begun_never_sets() {
    let culprit = Position { lane: LaneId(A), seq: 1 };
    let lost = || {
        let log = log().handle(S, 1, Made).handle(S, 2, Cloned).k(A, &[]).host_fn(A);
        log.fault(Some(culprit)).handle(S, 2, Dropped)
    };
    let verdict = lost()
        .handle(S, 1, Used)
        .signal(S, Wait)
        .finds(&[FindingClass::Sticky, FindingClass::Deadlock]);
    let sticky = &verdict.findings[0];
    assert!(sticky.known.starts_with("#2 `kernel` (src/main.rs:3:5) failed"), "{verdict}");
    assert!(sticky.known.contains("never run: #3 `host function` (src/main.rs:4:5)"), "{verdict}");
    let text = verdict.findings[1].text(&trijet::check::Names::default());
    assert!(text.contains("op #3 `host function` on `stream 0` was to set"), "{text}");
    assert!(text.contains("#2 `kernel` (src/main.rs:3:5) failed"), "{text}");
    // A host function that has run is not named.
    let ran =
        log().k(A, &[]).host_fn(A).ran(A, 2).fault(Some(culprit)).finds(&[FindingClass::Sticky]);
    assert!(!ran.findings[0].known.contains("never run"), "{ran}");
    let mut many = log();
    for _ in 0..5 {
        many = many.host_fn(B);
    }
    let many = many.fault(None).finds(&[FindingClass::Sticky]);
    assert!(many.findings[0].known.ends_with("and 2 more"), "{many}");
}

#[test]
fn a_thread_that_waits_for_itself_is_said_to_be_alone() {
    let alone = log().handle(S, 1, Made).handle(S, 1, Used).host(r(H)).signal(S, Wait);
    let verdict = alone.finds(DEADLOCK);
    let text = verdict.to_string();
    assert!(!text.contains("waits too"), "{text}");
    assert!(text.contains("nothing is left that can set it"), "{text}");
}

#[test]
fn names_that_the_program_gives_are_in_findings() {
    let named = |log: Log, of: Named, lane: u32, name: &'static str| {
        let mut log = log.synced(Waited::Stream, lane, WaitOutcome::Pending);
        let op = log.ops.last_mut().expect("one was pushed");
        (op.kind, op.label) = (LedgerNote::Name { of }.into(), name.into());
        log
    };
    let log = named(named(log(), Named::Stream, A, "upload"), Named::Block(BlockId(D)), A, "input");
    let race = |log: Log| log.copy(A, D, H).k(B, &[r(D)]);
    let verdict = race(log.clone()).finds(&[FindingClass::Race(Conflict::Raw)]);
    let text = verdict.to_string();
    assert!(text.contains("reads `input`") && text.contains("on `upload`"), "{text}");
    assert!(text.contains("buf=input"), "{text}");
    // A name is valid until another stream uses the lane. Names of the options have precedence.
    let opened = race(log.clone().open(A)).verdict().to_string();
    assert!(!opened.contains("upload"), "{opened}");
    let mut named = Names::default();
    named.lanes.insert(LaneId(A), "mine".to_owned());
    let other = log.with(|options| options.names(named));
    let text = race(other).verdict().findings[0].fix.clone();
    assert!(text.contains("`mine`"), "{text}");
}
