//! Causes of gaps, computed by hand.

use crate::script::Script;
use trijet::Nanos;
use trijet::trace::DeviceId;
use trijet::trace::Engine::{Compute, Download, Upload};
use trijet::trace::critical::Category;
use trijet::trace::gaps::{Cause, Dependency, by_cause, gaps};
use trijet::trace::host_engines::{HostEngine, HostWorked};
use trijet::trace::metrics::CopyEngines;
use trijet::trace::{HostStep, MemoryCall, StreamClass, Union, Waited};

fn compute_causes(s: &Script, window: std::ops::Range<u64>, latency: u64) -> Vec<(Cause, u64)> {
    let found = gaps(&s.ops, &s.dag(), window, Nanos(latency), CopyEngines::Two, &[]);
    let causes = by_cause(&found, (DeviceId(0), Compute));
    causes.into_iter().map(|(cause, part)| (cause, part.0)).collect()
}

#[test]
fn a_gap_is_split_in_order() {
    let mut s = Script::default();
    s.called(Compute, 2, 0..1, 1..10);
    s.called(Upload, 1, 1..2, 2..30);
    s.order(7, 1, 2);
    s.called(Compute, 2, 12..15, 34..40);
    // The gap is 10..34. The host is late until 15: user code 10..12, the call 12..15. The upload
    // ends at 30. The launch is 30..33.
    let expected = [
        (Cause::Fill, 1),
        (Cause::Drain, 2),
        (Cause::HostLate(Category::Enqueue), 3),
        (Cause::HostLate(Category::User), 2),
        (Cause::Dependency(Dependency::Engine(Upload)), 15),
        (Cause::Launch, 3),
        (Cause::Unknown, 1),
    ];
    assert_eq!(compute_causes(&s, 0..42, 3), expected);
}

#[test]
fn a_gap_behind_a_late_host_is_split_by_its_calls() {
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.sync(Waited::Device, 1, 2..14);
    s.call(MemoryCall::AllocNow, 14..20);
    s.call(HostStep::Load, 20..21);
    s.called(Compute, 1, 23..24, 24..30);
    // The gap is 10..24: the wait until 14, an allocation until 20, loading until 21, user code
    // 21..23, then the call.
    let expected = [
        (Cause::HostLate(Category::Enqueue), 1),
        (Cause::HostLate(Category::Sync), 4),
        (Cause::HostLate(Category::Alloc), 6),
        (Cause::HostLate(Category::Load), 1),
        (Cause::HostLate(Category::User), 2),
    ];
    assert_eq!(compute_causes(&s, 1..30, 0), expected);
}

/// The thread waits for the reader before the first two chunks, and for the disk at the end.
#[test]
fn idle_time_in_which_the_host_waited_for_its_engines_is_of_these() {
    let mut s = Script::default();
    s.called(Compute, 1, 6..7, 7..10);
    s.called(Compute, 1, 19..20, 20..30);
    let worked = |engine, times: &[std::ops::Range<u64>]| {
        let waited_for = Union::of(times.iter().cloned());
        HostWorked { engine, busy: waited_for.clone(), waited_for }
    };
    let host =
        [worked(HostEngine::Reader, &[0..5, 12..18]), worked(HostEngine::Sync, &[32..36, 36..40])];
    let found = gaps(&s.ops, &s.dag(), 0..41, Nanos(0), CopyEngines::Two, &host);
    let causes = by_cause(&found, (DeviceId(0), Compute));
    // Of the fill 0..7, of the gap 10..20 until the call at 19, and of the drain 30..41.
    let expected = [
        (Cause::Fill, 2),
        (Cause::Drain, 3),
        (Cause::HostLate(Category::Enqueue), 1),
        (Cause::HostLate(Category::User), 3),
        (Cause::Dependency(Dependency::Host(HostEngine::Reader)), 11),
        (Cause::Dependency(Dependency::Host(HostEngine::Sync)), 8),
    ];
    let causes: Vec<_> = causes.into_iter().map(|(cause, part)| (cause, part.0)).collect();
    assert_eq!(causes, expected);
    assert_eq!(expected[4].0.to_string(), "waiting for reader");
}

#[test]
fn a_barrier_of_the_legacy_stream_is_named() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10).stream = StreamClass::Blocking;
    s.work(Upload, 0, 10..25).stream = StreamClass::Legacy;
    s.work(Compute, 2, 25..30).stream = StreamClass::Blocking;
    assert_eq!(compute_causes(&s, 0..30, 0), [(Cause::Dependency(Dependency::Legacy), 15)]);
}

/// Without the barrier the same gap has no cause.
#[test]
fn a_gap_that_nothing_explains_is_unknown() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.work(Upload, 0, 10..25);
    s.work(Compute, 2, 25..30);
    assert_eq!(compute_causes(&s, 0..30, 0), [(Cause::Unknown, 15)]);
}

#[test]
fn memory_that_comes_late_is_named() {
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.alloc(2, 1..20);
    s.order(5, 2, 1);
    s.work(Compute, 1, 20..30);
    let causes = compute_causes(&s, 1..30, 0);
    assert_eq!(causes, [(Cause::Dependency(Dependency::Alloc), 10)]);
}

#[test]
fn a_shared_copy_engine_is_busy_with_the_other_direction() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Download, 1, 12..20);
    s.work(Upload, 2, 21..30);
    let causes = |engines| {
        let found = gaps(&s.ops, &s.dag(), 0..30, Nanos(1), engines, &[]);
        by_cause(&found, (DeviceId(0), Upload)).into_iter().collect::<Vec<_>>()
    };
    // Gap 10..21: launch 1; the download took 12..20; 11..12 and 20..21 are left.
    let one = [(Cause::Launch, 1), (Cause::Resource, 8), (Cause::Unknown, 2)];
    assert_eq!(causes(CopyEngines::One), one.map(|(cause, ns)| (cause, Nanos(ns))));
    let two = [(Cause::Launch, 1), (Cause::Unknown, 10)];
    assert_eq!(causes(CopyEngines::Two), two.map(|(cause, ns)| (cause, Nanos(ns))));
}

/// On CPU threads, an upload and a kernel use the same processors.
#[test]
fn engines_on_shared_processors_wait_for_each_other() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Compute, 1, 12..20);
    s.work(Upload, 2, 21..30);
    let found = gaps(&s.ops, &s.dag(), 0..30, Nanos(0), CopyEngines::Processors, &[]);
    let causes = by_cause(&found, (DeviceId(0), Upload));
    let expected = [(Cause::Resource, Nanos(8)), (Cause::Unknown, Nanos(3))];
    assert_eq!(causes.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(Cause::Unknown.to_string(), "not attributed");
}
