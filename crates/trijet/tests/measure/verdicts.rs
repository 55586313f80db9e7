//! Whether two operations overlapped, and if not, why: one test for each answer.

use crate::script::Script;
use trijet::Nanos;
use trijet::trace::Engine::{Compute, Download, Upload};
use trijet::trace::concurrency::{Concurrency, TracedRun, UnusableTimes};
use trijet::trace::dag::{Dag, Edge};
use trijet::trace::summary::{Settings, summarize};
use trijet::trace::{LaneId, TimeSource, Waited};

fn ask<'a>(s: &'a Script, dag: &'a Dag, times: TimeSource) -> TracedRun<'a> {
    TracedRun { ops: &s.ops, dag, times }
}

fn verdict(s: &Script, a: usize, b: usize) -> Concurrency {
    ask(s, &s.dag(), TimeSource::Activity).concurrency(a, b, None)
}

/// The durations are 10 and 1, 1 and 10, and 10 and 10. Both orders are tried.
#[test]
fn overlap_in_time_is_found_for_any_durations() {
    for (a, b, together, share) in
        [(0..10, 4..5, 1, 1.0), (4..5, 0..10, 1, 1.0), (0..10, 5..15, 5, 0.5)]
    {
        let mut s = Script::default();
        s.work(Compute, 1, a);
        s.work(Compute, 2, b);
        assert_eq!(verdict(&s, 0, 1), Concurrency::Overlap { together: Nanos(together), share });
        assert_eq!(verdict(&s, 1, 0), Concurrency::Overlap { together: Nanos(together), share });
    }
}

#[test]
fn touching_is_not_overlap() {
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.called(Compute, 2, 1..2, 10..20);
    assert_eq!(verdict(&s, 0, 1), Concurrency::Touching);
    assert_eq!(verdict(&s, 1, 0), Concurrency::Touching);
}

#[test]
fn an_edge_that_orders_them_is_named() {
    let mut s = Script::default();
    s.work(Upload, 1, 0..10);
    s.order(9, 1, 2);
    s.work(Compute, 2, 10..20);
    let Concurrency::Ordered { edge, at, path } = verdict(&s, 0, 3) else { panic!("not ordered") };
    // The edge of the event leads to the wait, which is entry 2.
    assert_eq!((edge, at, path.len()), (Edge::Event, 2, 3));
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.work(Compute, 1, 10..20);
    assert!(matches!(verdict(&s, 0, 1), Concurrency::Ordered { edge: Edge::Lane, at: 1, .. }));
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.sync(Waited::Stream, 1, 1..11);
    s.called(Compute, 2, 12..13, 13..20);
    assert!(matches!(verdict(&s, 0, 2), Concurrency::Ordered { edge: Edge::Waited, at: 1, .. }));
}

#[test]
fn one_engine_does_one_copy_at_a_time() {
    let mut s = Script::default();
    s.called(Download, 1, 0..1, 1..10);
    s.called(Download, 2, 1..2, 2..20);
    let dag = s.dag();
    for times in [TimeSource::Activity, TimeSource::EventPairs] {
        let verdict = ask(&s, &dag, times).concurrency(0, 1, None);
        assert_eq!(verdict, Concurrency::OneEngine(Download));
    }
}

#[test]
fn a_late_enqueue_call_is_named_as_the_cause() {
    let mut s = Script::default();
    s.called(Compute, 1, 0..1, 1..10);
    s.called(Compute, 2, 14..15, 15..20);
    assert_eq!(verdict(&s, 1, 0), Concurrency::HostLate { by: Nanos(5) });
}

#[test]
fn times_that_say_nothing_decide_nothing() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.work(Compute, 2, 0..20);
    s.record(3, 1);
    s.work(Compute, 3, 5..5);
    let dag = s.dag();
    let pairs = ask(&s, &dag, TimeSource::EventPairs);
    let unusable = |op, why| Concurrency::Unusable { op, why };
    // The kernel is ready at 0 and complete at 20. It may have started at any time between.
    assert_eq!(pairs.concurrency(0, 1, None), unusable(1, UnusableTimes::ReadyToEnd));
    assert_eq!(pairs.concurrency(0, 2, None), unusable(2, UnusableTimes::Missing));
    assert_eq!(pairs.concurrency(0, 3, None), unusable(3, UnusableTimes::Empty));
}

/// Isolated times 10 and 10: complete at 10 and 20, so the second ran 10..20. Isolated times 10 and
/// 18: the second ran from 2 at the latest. Isolated times 10 and 5: the work of the second before
/// 15 is unknown.
#[test]
fn durations_measured_alone_settle_what_pairs_of_events_leave_open() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.work(Compute, 2, 0..20);
    let dag = s.dag();
    let pairs = ask(&s, &dag, TimeSource::EventPairs);
    let alone = |a, b| pairs.concurrency(0, 1, Some([Nanos(a), Nanos(b)]));
    assert_eq!(alone(10, 10), Concurrency::OneEngine(Compute));
    assert_eq!(alone(10, 18), Concurrency::Overlap { together: Nanos(8), share: 0.8 });
    assert_eq!(alone(10, 5), Concurrency::Unusable { op: 1, why: UnusableTimes::ReadyToEnd });
}

#[test]
fn streams_are_judged_by_the_pair_that_came_nearest() {
    let mut s = Script::default();
    s.called(Upload, 1, 0..1, 1..10);
    s.called(Compute, 2, 14..15, 15..20);
    s.called(Upload, 1, 20..21, 30..40);
    s.called(Compute, 2, 22..23, 35..45);
    let dag = s.dag();
    let run = ask(&s, &dag, TimeSource::EventPairs);
    let both = Some(Concurrency::Overlap { together: Nanos(5), share: 0.5 });
    assert_eq!(run.concurrency_of_streams(LaneId(1), LaneId(2)), both);
    assert_eq!(run.concurrency_of_streams(LaneId(1), LaneId(7)), None);
}

/// Uploads 0..10 and 10..20; kernels 10..20 and 25..30, each after an upload; a download that waits
/// for all.
#[test]
fn a_summary_says_of_each_pair_of_engines_whether_it_overlapped() {
    let mut s = Script::default();
    s.work(Upload, 1, 0..10);
    s.order(1, 1, 2);
    s.work(Compute, 2, 10..20);
    s.work(Upload, 1, 12..22);
    s.order(2, 1, 2);
    s.work(Compute, 2, 25..30);
    s.order(3, 2, 3);
    s.work(Download, 3, 30..40);
    let dag = s.dag();
    let summary = summarize(&s.ops, &dag, &Settings::default(), Vec::new());
    let found: Vec<_> =
        summary.pairs.iter().map(|p| (summary.pair_name(p), p.together.0)).collect();
    let pair = |name: &str, together| (name.to_owned(), together);
    assert_eq!(
        found,
        [
            pair("upload and compute", 8),
            pair("upload and download", 0),
            pair("compute and download", 0)
        ]
    );
    // Kernels ran for 15 in all. During 12..20 there was an upload as well.
    assert!((summary.pairs[0].share - 8.0 / 15.0).abs() < 1e-9);
    let text = summary.figures();
    assert!(text.contains("at once: upload and compute 8 ns (53 %)"), "{text}");
    let ordered = "compute and download: serial because ordered: a wait for an event, #";
    assert!(text.contains(ordered), "{text}");
}
