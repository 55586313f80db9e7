//! The graph of a run if times are measured on the engines. Such times are not corrected.

use crate::live;
use crate::script::Script;
use trijet::trace::dag::{Dag, DagNode, Edge, Kernels};
use trijet::trace::summary::{Settings, summarize};
use trijet::trace::{Engine, StreamWork, TimeSource, TimesFrom};
use trijet::{Device, Nanos, Result};

fn graph(s: &Script, times: TimeSource) -> Dag {
    Dag::with_times(&s.ops, Kernels::Several, times)
}

/// Two uploads are ready at 0 and at 10. One engine completes them at 100 and at 200.
#[test]
fn a_begin_moves_to_the_free_engine_only_with_pairs_of_events() {
    let mut s = Script::default();
    s.work(Engine::Upload, 1, 0..100);
    s.work(Engine::Upload, 2, 10..200);
    assert_eq!(graph(&s, TimeSource::EventPairs).work(1), Some(100..200));
    // With times that are measured on the engines, the device has two engines for uploads.
    let dag = graph(&s, TimeSource::Activity);
    assert_eq!(dag.work(1), Some(10..200));
    assert!(dag.before(DagNode::work(1)).iter().all(|(_, edge)| *edge != Edge::Engine));
}

#[test]
fn what_an_engine_did_before_precedes_what_it_did_later() {
    let mut s = Script::default();
    s.work(Engine::Upload, 1, 0..100);
    s.work(Engine::Upload, 2, 103..200);
    let dag = graph(&s, TimeSource::Activity);
    assert_eq!(dag.work(1), Some(103..200));
    assert!(dag.before(DagNode::work(1)).contains(&(DagNode::work(0), Edge::Engine)));
}

/// A kernel may start before its launch call has returned: it starts at 50, and the call is 40..60.
#[test]
fn work_that_began_inside_its_call_is_not_moved_to_the_calls_end() {
    let mut s = Script::default();
    s.called(Engine::Compute, 1, 40..60, 50..90);
    assert_eq!(graph(&s, TimeSource::EventPairs).work(0), Some(60..90));
    let dag = graph(&s, TimeSource::Activity);
    assert_eq!((dag.work(0), dag.enqueued(0)), (Some(50..90), Some(40)));
    assert_eq!(dag.contradictions(), 0);
}

/// The call of a staged copy returned at 60, while the engine worked from 50 to 90.
#[test]
fn a_call_that_waited_for_a_part_of_its_copy_contradicts_nothing() {
    let mut s = Script::default();
    s.called(Engine::Upload, 1, 40..60, 50..90).kind = StreamWork::CopyNow.into();
    let dag = graph(&s, TimeSource::Activity);
    assert_eq!((dag.work(0), dag.call(0), dag.contradictions()), (Some(50..90), Some(40..60), 0));
}

/// On the host device, both sources of times give the same figures. The graph computes from the
/// laws the times that pairs of events do not show.
#[test]
fn event_pairs_and_engine_times_give_the_same_busy_times() -> Result<()> {
    let run = |from| -> Result<_> {
        let device: Device = live::device();
        device.load(&trijet::testing::WORK)?;
        let origin = device.stream()?;
        device.start_trace_from(&origin, from)?;
        live::role_streams(&device, 6, 2)?;
        device.synchronize()?;
        device.take_trace()
    };
    let (pairs, engines) = (run(TimesFrom::Events)?, run(TimesFrom::Activity)?);
    let first = Dag::with_times(&pairs.ops, Kernels::OneAtATime, pairs.times);
    let second = Dag::with_times(&engines.ops, Kernels::OneAtATime, engines.times);
    assert_eq!((first.contradictions(), second.contradictions()), (0, 0));
    let busy = |ops: &[_], dag: &Dag| {
        let summary = summarize(ops, dag, &Settings::default(), vec![]);
        let busy = summary.engines.iter().map(|e| (e.metrics.engine, e.metrics.busy));
        busy.collect::<Vec<_>>()
    };
    let (by_pairs, by_engines) = (busy(&pairs.ops, &first), busy(&engines.ops, &second));
    assert_eq!((by_pairs.len(), by_engines.len()), (3, 3));
    for ((engine, pair), (same, own)) in by_pairs.into_iter().zip(by_engines) {
        assert_eq!(engine, same);
        let ratio = pair.0 as f64 / own.0 as f64;
        assert!((0.95..=1.05).contains(&ratio), "{engine:?}: {pair} and {own}");
    }
    Ok(())
}

/// Two uploads of two streams are ready at the same time. With pairs of events, the summary warns
/// that their times include the time in a queue.
#[test]
fn a_summary_warns_of_queues_that_pairs_of_events_count_as_work() {
    let mut s = Script::default();
    s.work(Engine::Upload, 1, 0..100_000);
    s.work(Engine::Upload, 2, 0..200_000);
    let dag = s.dag();
    let summary =
        |times| summarize(&s.ops, &dag, &Settings { times, ..Settings::default() }, vec![]);
    let pairs = summary(TimeSource::EventPairs);
    assert_eq!(pairs.queued.len(), 1);
    assert_eq!((pairs.queued[0].ops, pairs.queued[0].counted_again), (2, Nanos(100_000)));
    let words = pairs.to_string();
    assert!(words.contains("times: 2 operations of 2 streams were ready for upload"), "{words}");
    for other in [TimeSource::Activity, TimeSource::Model] {
        assert!(!summary(other).to_string().contains("times:"), "{other:?}");
    }
}
