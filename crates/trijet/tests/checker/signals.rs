//! Cases 32 and 33: host threads and host functions that wait for each other. The ledger contains
//! the calls, so the mistake is found even if the run did not hang or gave up.

use super::log::{A, B, BLOCKING_A, D, E, F, H, LEGACY, Log, log, r, w};
use trijet::check::{CheckOptions, Checker, Conflict, FindingClass, Severity};
use trijet::trace::Signalled::{Found, Gone, LimitedWait, Set, Wait};
use trijet::trace::{OpKind, StreamWork, WaitOutcome, Waited};

/// Signals.
const S: u64 = 1;
const T: u64 = 2;
const U: u64 = 3;

const DEADLOCK: &[FindingClass] = &[FindingClass::Deadlock];
const RISK: &[FindingClass] = &[FindingClass::DeadlockRisk];

/// A host function in `A` that waits.
fn waiting() -> Log {
    log().host_fn(A).inside(A, 1, S, Wait)
}

#[test]
fn case_32_the_thread_that_is_to_set_waits_first() {
    let verdict = waiting().sync(A).signal(S, Set).finds(DEADLOCK);
    let finding = &verdict.findings[0];
    assert_eq!((finding.first.as_ref().map(|p| p.op), finding.second.op), (Some(1), 3));
    let cycle = "thread 0 -> `stream 0` -> host function #0 -> thread 0";
    assert!(finding.known.contains(cycle), "{verdict}");
    assert!(finding.known.contains("waits at #2, src/main.rs:3:5"), "{verdict}");
    assert!(finding.fix.starts_with("set signal 1 before the wait at #2"), "{verdict}");
    // Its cure: set before the wait.
    waiting().signal(S, Set).sync(A).is_silent();
}

/// Any wait for work that follows the host function is too early.
#[test]
fn every_wait_behind_the_host_function_is_too_early() {
    waiting().rec(E, A).esync(E).signal(S, Set).finds(DEADLOCK);
    waiting().synced(Waited::Device, B, WaitOutcome::Complete).signal(S, Set).finds(DEADLOCK);
    waiting().edge(E, A, B).k(B, &[]).rec(F, B).esync(F).signal(S, Set).finds(DEADLOCK);
    let blocking = log().host_fn(BLOCKING_A).inside(BLOCKING_A, 1, S, Wait);
    blocking.clone().sync(LEGACY).signal(S, Set).finds(DEADLOCK);
    // A synchronous copy waits for the blocking streams, so its call is a wait for the host
    // function.
    let copied = |log: Log| log.work(StreamWork::CopyNow, LEGACY, "copy", &[r(D), w(H)]);
    copied(blocking).signal(S, Set).finds(DEADLOCK);
    copied(waiting()).signal(S, Set).is_silent();
    // A wait for earlier work, and a query, do not hold back the thread.
    waiting().sync(B).signal(S, Set).is_silent();
    log().rec(E, A).host_fn(A).inside(A, 1, S, Wait).esync(E).signal(S, Set).is_silent();
    let asked = waiting().synced(Waited::Stream, A, WaitOutcome::Pending).signal(S, Set);
    asked.is_silent();
}

#[test]
fn another_thread_may_set_while_the_first_one_waits() {
    waiting().sync(A).by(1).signal(S, Set).is_silent();
    waiting().by(1).signal(S, Set).by(0).sync(A).signal(S, Set).is_silent();
    // This is not the case if the other thread waits for the first one.
    let second = waiting().sync(A).signal(T, Set).by(1).signal(T, Wait).signal(T, Found);
    second.signal(S, Set).finds(DEADLOCK);
    let second = waiting().signal(T, Set).sync(A).by(1).signal(T, Wait).signal(T, Found);
    second.signal(S, Set).is_silent();
}

#[test]
fn one_set_that_comes_in_time_is_enough() {
    waiting().sync(A).signal(S, Set).by(1).signal(S, Set).is_silent();
    waiting().by(1).signal(S, Set).by(0).sync(A).signal(S, Set).is_silent();
}

#[test]
fn case_33_host_functions_may_be_serialised() {
    let set_last = log().host_fn(A).host_fn(B).inside(A, 1, S, Wait).inside(B, 1, S, Set);
    let verdict = set_last.finds(RISK);
    assert!(verdict.to_string().contains("host functions may be serialised"), "{verdict}");
    let fix = "record an event on `stream 1` after #1 and make `stream 0` wait for it before #0";
    assert_eq!(verdict.findings[0].fix, fix, "{verdict}");
    assert_eq!(verdict.findings[0].class.severity(), Severity::Error);
    // This run did not hang, but another one could.
    let lucky = log().host_fn(A).host_fn(B).inside(B, 1, S, Set).inside(A, 1, S, Wait);
    lucky.inside(A, 1, S, Found).finds(RISK);
    // The correction: an event orders the host function that waits after the one that sets.
    let cured = log().host_fn(B).edge(E, B, A).host_fn(A).inside(B, 1, S, Set);
    cured.inside(A, 1, S, Wait).inside(A, 1, S, Found).is_silent();
    // An event that is recorded before orders nothing.
    let early = log().rec(E, B).host_fn(B).wait(E, A).host_fn(A).inside(B, 1, S, Set);
    early.inside(A, 1, S, Wait).inside(A, 1, S, Found).finds(RISK);
}

#[test]
fn a_host_function_that_sets_must_not_come_after_the_one_that_waits() {
    let same = log().host_fn(A).host_fn(A).inside(A, 1, S, Wait).inside(A, 2, S, Set);
    let verdict = same.finds(DEADLOCK);
    let cycle = "host function #1 -> `stream 0` -> host function #0 -> host function #1";
    assert!(verdict.findings[0].known.contains(cycle), "{verdict}");
    let other = log().host_fn(A).edge(E, A, B).host_fn(B).inside(A, 1, S, Wait);
    other.inside(B, 1, S, Set).finds(DEADLOCK);
    log().host_fn(A).host_fn(A).inside(A, 1, S, Set).inside(A, 2, S, Wait).is_silent();
    // A host function cannot set its own signal after its wait.
    waiting().inside(A, 1, S, Set).finds(DEADLOCK);
    log().host_fn(A).inside(A, 1, S, Set).inside(A, 1, S, Wait).is_silent();
}

/// A thread may set the signal, but waits for another host function first.
#[test]
fn a_thread_that_waits_for_another_host_function_sets_too_late_when_they_are_serialised() {
    let synced = log().host_fn(A).host_fn(B).inside(A, 1, S, Wait).sync(B).signal(S, Set);
    synced.finds(RISK);
    let told = log().host_fn(A).host_fn(B).inside(A, 1, S, Wait).inside(B, 1, T, Set);
    told.signal(T, Wait).signal(T, Found).signal(S, Set).finds(RISK);
    let earlier = log().host_fn(B).sync(B).host_fn(A).inside(A, 1, S, Wait).signal(S, Set);
    earlier.is_silent();
}

#[test]
fn a_thread_waits_for_what_it_has_not_enqueued_yet() {
    let late = log().signal(S, Wait).host_fn(A).inside(A, 1, S, Set);
    let verdict = late.finds(DEADLOCK);
    assert!(verdict.findings[0].known.contains("host function #1 -> thread 0"), "{verdict}");
    let early = log().host_fn(A).signal(S, Wait).inside(A, 1, S, Set).signal(S, Found);
    early.is_silent();
}

#[test]
fn threads_that_wait_for_each_other_are_a_cycle() {
    let crossed = log().by(0).signal(S, Wait).by(1).signal(T, Wait);
    let verdict = crossed.clone().signal(S, Set).by(0).signal(T, Set).finds(DEADLOCK);
    assert!(
        verdict.findings[0].known.contains("thread 0 -> thread 1 -> thread 0")
            || verdict.findings[0].known.contains("thread 1 -> thread 0 -> thread 1"),
        "{verdict}"
    );
    crossed.clone().signal(S, Set).by(2).signal(T, Set).is_silent();
    // A thread that waits for a member of the cycle is not in it.
    let behind = crossed.by(2).signal(U, Wait).by(1).signal(S, Set).signal(U, Set);
    behind.by(0).signal(T, Set).finds(DEADLOCK);
}

/// The ledger ends where the program hangs, and nothing that could set the signal is left.
#[test]
fn a_hanging_program_is_found_when_nothing_is_left_that_can_set_its_signal() {
    let hangs = waiting().synced(Waited::Stream, A, WaitOutcome::Pending);
    let verdict = hangs.finds(DEADLOCK);
    assert!(verdict.to_string().contains("nothing has set"), "{verdict}");
    assert_eq!(verdict.findings[0].second.op, 2);
    // Something is left: a thread that waits for other work, or a host function.
    waiting().synced(Waited::Stream, B, WaitOutcome::Pending).is_silent();
    waiting().by(1).host(r(H)).by(0).synced(Waited::Stream, A, WaitOutcome::Pending).is_silent();
    let other = waiting().host_fn(B).synced(Waited::Stream, A, WaitOutcome::Pending);
    other.is_silent();
    // The entry was a query, and the thread went on.
    waiting().synced(Waited::Stream, A, WaitOutcome::Pending).host(r(H)).is_silent();
    // The other host function waits as well, for a signal that can be set, or for one that cannot.
    let both = |log: Log| log.inside(B, 1, T, Wait).synced(Waited::Stream, A, WaitOutcome::Pending);
    both(waiting().host_fn(B)).finds(DEADLOCK);
    both(waiting().host_fn(B)).by(1).signal(T, Set).is_silent();
    // A host function that has ended sets nothing.
    let over = log().host_fn(B).sync(B).host_fn(A).inside(A, 1, S, Wait);
    over.synced(Waited::Stream, A, WaitOutcome::Pending).finds(DEADLOCK);
    log().signal(S, Wait).finds(DEADLOCK);
}

/// A wait that gave up, for a signal whose handles are all gone.
#[test]
fn a_wait_that_gave_up_is_judged_by_the_sets_of_its_signal() {
    waiting().sync(A).signal(S, Set).signal(S, Gone).finds(DEADLOCK);
    waiting().sync(A).signal(S, Gone).is_silent();
    // The later wait is answered, but this does not answer the first one.
    let again = log().signal(S, Wait).signal(S, Set).signal(S, Wait).signal(S, Found);
    again.finds(DEADLOCK);
}

/// The entry of an enqueue call may come after the entries of its host function.
#[test]
fn a_host_function_may_be_faster_than_its_record() {
    let moved = |log: Log, from: usize, to: usize| {
        let mut log = log;
        let op = log.ops.remove(from);
        log.ops.insert(to, op);
        log
    };
    let risky = log().host_fn(A).inside(A, 1, S, Wait).host_fn(B).inside(B, 1, S, Set);
    moved(risky.clone(), 0, 1).finds(RISK);
    moved(risky, 2, 3).finds(RISK);
    moved(waiting().sync(A).signal(S, Set), 0, 1).finds(DEADLOCK);
    let told = log().copy(A, H, D).host_fn(A).inside(A, 2, S, Set).signal(S, Found).host(w(H));
    told.is_silent();
    moved(told, 1, 3).is_silent();
}

#[test]
fn a_thread_that_finds_a_signal_set_follows_the_thread_that_set_it() {
    let handed = |find: bool| {
        let log = log().host(w(H)).signal(S, Set).by(1);
        if find { log.signal(S, Found).host(w(H)) } else { log.signal(S, Wait).host(w(H)) }
    };
    handed(true).is_silent();
    handed(false).finds(&[FindingClass::Host(Conflict::Waw)]);
    // The first set answers the wait, and later work of the thread is not covered.
    let second = log().signal(S, Set).host(w(H)).signal(S, Set).by(1).signal(S, Found).host(w(H));
    second.finds(&[FindingClass::Host(Conflict::Waw)]);
    // Work that the setting thread has waited for is covered.
    let waited = |log: Log| log.signal(S, Set).by(1).signal(S, Found).host(w(H));
    waited(log().copy(A, D, H).sync(A)).is_silent();
    waited(log().copy(A, D, H)).finds(&[FindingClass::Host(Conflict::War)]);
}

#[test]
fn a_host_function_hands_over_what_its_stream_has_done() {
    let told = |log: Log, seq| log.inside(A, seq, S, Set).signal(S, Found).host(w(H));
    told(log().copy(A, D, H).host_fn(A), 2).is_silent();
    told(log().host_fn(A).copy(A, D, H), 1).finds(&[FindingClass::Host(Conflict::War)]);
    // A host function that waits hands over to the later work of its stream.
    let taken = log().host_fn(A).by(1).host(w(H)).signal(S, Set).inside(A, 1, S, Wait);
    taken.clone().inside(A, 1, S, Found).by(0).copy(A, D, H).is_silent();
    taken.by(0).copy(A, D, H).finds(&[FindingClass::Host(Conflict::Raw)]);
}

const GIVES_UP: &[FindingClass] = &[FindingClass::WaitGivesUp];

/// A wait with a limit cannot hang, so what would be a deadlock without the limit is a warning.
#[test]
fn a_wait_with_a_limit_that_is_set_too_late_is_a_warning() {
    let limited = || log().host_fn(A).inside(A, 1, S, LimitedWait);
    let verdict = limited().sync(A).signal(S, Set).finds(GIVES_UP);
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.to_string().contains("only the time limit ends the wait"), "{verdict}");
    limited().signal(S, Set).sync(A).is_silent();
    // The wait expires before the host function that sets the signal is enqueued.
    log().signal(S, LimitedWait).host_fn(A).inside(A, 1, S, Set).finds(GIVES_UP);
    log().host_fn(A).signal(S, LimitedWait).inside(A, 1, S, Set).signal(S, Found).is_silent();
    // Nothing sets the signal.
    log().signal(S, LimitedWait).finds(GIVES_UP);
    // Host functions may be serialised.
    let risky = log().host_fn(A).host_fn(B).inside(A, 1, S, LimitedWait).inside(B, 1, S, Set);
    risky.finds(GIVES_UP);
}

/// For other waits, a wait with a limit counts as a wait that ends.
#[test]
fn a_wait_with_a_limit_keeps_no_other_wait_from_its_end() {
    // One limit is enough in a cycle. Thread 0 sets `T` when its wait for `S` has given up, so
    // thread 1 does not hang.
    let behind = log().by(0).signal(S, LimitedWait).by(1).signal(T, Wait).by(0).signal(T, Set);
    behind.by(1).signal(T, Found).signal(S, Set).finds(GIVES_UP);
    // A later wait without a limit for the same signal hangs.
    log()
        .signal(S, LimitedWait)
        .signal(S, Wait)
        .finds(&[FindingClass::Deadlock, FindingClass::WaitGivesUp]);
    let set = log().signal(S, LimitedWait).by(1).signal(S, Set).by(0).signal(S, Wait);
    set.signal(S, Found).is_silent();
    // A deadlock in the same program stays a deadlock.
    let both = log().by(2).signal(U, LimitedWait).by(0).signal(S, Wait).by(1).signal(T, Wait);
    let both = both.signal(S, Set).by(0).signal(T, Set);
    both.by(2).signal(U, Set).finds(&[FindingClass::Deadlock, FindingClass::WaitGivesUp]);
}

/// The program makes a signal for each item. Some of the waits give up.
#[test]
fn memory_does_not_grow_with_the_number_of_signals() {
    const ROUNDS: u64 = 20_000;
    let round = |n: u64| {
        let item = log().host_fn(A).inside(A, n + 1, n, Wait).signal(n, Set);
        let item = item.inside(A, n + 1, n, Found).signal(n, Gone);
        // These deadlocks ended because the wait gave up.
        let late = 1_000_000 + n;
        let item = item.host_fn(B).inside(B, n + 1, late, Wait);
        let mut ops = item.sync(A).sync(B).signal(late, Set).signal(late, Gone).ops;
        for op in &mut ops {
            if matches!(op.kind, OpKind::Work(StreamWork::HostFn)) {
                op.position.seq = n + 1;
            }
        }
        ops
    };
    let mut checker = Checker::new(CheckOptions::new().findings_max(10));
    let mut most = [0; 2];
    for n in 0..ROUNDS {
        round(n).iter().for_each(|op| checker.push(op));
        let half = usize::from(n >= ROUNDS / 2);
        most[half] = most[half].max(checker.held_state());
    }
    assert!(most[1] <= most[0] && most[1] < 20_000, "{most:?}");
    let verdict = checker.finish();
    assert_eq!(verdict.findings.len() as u64 + verdict.more, ROUNDS, "one for each round");
}

/// Hand-overs without a fault leave no state, and signals with live handles are reported once.
#[test]
fn signals_that_are_gone_are_forgotten() {
    let push = |checker: &mut Checker, log: Log| log.ops.iter().for_each(|op| checker.push(op));
    let mut checker = Checker::new(CheckOptions::default());
    for n in 0..5000 {
        let handed = log().signal(n, Set).by(1).signal(n, Wait).signal(n, Found);
        push(&mut checker, handed.signal(n, Gone));
    }
    let held = checker.held_state();
    assert!(held < 5000, "{held}");
    let mut checker = Checker::new(CheckOptions::default());
    for n in 0..400 {
        push(&mut checker, log().signal(n, Wait).signal(n, Set));
    }
    let verdict = checker.finish();
    assert_eq!((verdict.findings.len(), verdict.more), (400, 0));
}
