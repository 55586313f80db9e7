//! Properties that every timeline has.

use crate::script::Script;
use proptest::collection::vec;
use proptest::prelude::*;
use trijet::Nanos;
use trijet::check::lint::lints;
use trijet::trace::Engine::{Compute, Download, Upload};
use trijet::trace::Waited;
use trijet::trace::critical::{critical_path, slack, what_if};
use trijet::trace::gaps::gaps;
use trijet::trace::metrics::{CopyEngines, Parameters, extent, measure};
use trijet::trace::summary::{Settings, summarize};

/// An entry: its lane, its engine, the time since the start of the previous entry, its duration,
/// the time of its call, and whether an order or a wait comes before it.
type Draw = (u32, usize, u64, u64, u64, u8);

/// An arbitrary ledger: its times may contradict its edges.
fn script(draws: &[Draw]) -> Script {
    let mut s = Script::default();
    let (mut now, mut host) = (0, 0);
    for (event, &(lane, engine, later, length, call, before)) in (0..).zip(draws) {
        now += later;
        host += later / 2;
        match before {
            0..3 => s.order(event, (lane + 1) % 4, lane),
            3 => {
                s.sync(Waited::Device, lane, host..host + call);
            }
            4 => {
                s.sync(Waited::Stream, lane, host..host + call);
            }
            5 => {
                s.alloc(lane, host..host + call);
            }
            _ => {}
        }
        host += call;
        let engine = [Upload, Compute, Download][engine];
        s.called(engine, lane, host..host + call, now..now + length);
        host += call;
    }
    s
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    vec((0..4_u32, 0..3_usize, 0..20_u64, 0..30_u64, 0..5_u64, 0..10_u8), 1..40)
}

proptest! {
    #[test]
    fn attributions_sum_to_the_idle_time(draws in draws(), from in 0..50_u64, length in 1..400_u64) {
        let s = script(&draws);
        let dag = s.dag();
        let window = from..from + length;
        let m = measure(&s.ops, &dag, Some(window.clone()), &Parameters::default());
        let found = gaps(&s.ops, &dag, window, Nanos(2), CopyEngines::One, &[]);
        for gap in &found {
            let parts: u64 = gap.parts.iter().map(|(_, part)| part.0).sum();
            prop_assert_eq!(parts, gap.span.end - gap.span.start, "{:?}", gap);
        }
        for engine in &m.engines {
            let mine = found.iter().filter(|gap| gap.engine == engine.engine);
            let idle: u64 = mine.map(|gap| gap.span.end - gap.span.start).sum();
            prop_assert_eq!(idle + engine.busy.0, length, "{:?}", engine.engine);
        }
    }

    #[test]
    fn the_critical_path_covers_the_window(draws in draws(), from in 0..50_u64, length in 1..400_u64) {
        let s = script(&draws);
        let path = critical_path(&s.ops, &s.dag(), from..from + length, Nanos(2));
        let sum: u64 = path.by_category.values().map(|time| time.0).sum();
        prop_assert_eq!(sum, length);
        let mut at = from;
        for step in &path.steps {
            prop_assert_eq!(step.span.start, at);
            at = step.span.end;
        }
        prop_assert_eq!(at, from + length);
    }

    #[test]
    fn figures_stay_within_their_ranges(draws in draws()) {
        let s = script(&draws);
        let dag = s.dag();
        let m = measure(&s.ops, &dag, None, &Parameters::default());
        for engine in &m.engines {
            let share = m.busy_share(engine.engine);
            prop_assert!((0.0..=1.0).contains(&share), "{share}");
            prop_assert_eq!(engine.busy, engine.work, "no isolated times are given");
        }
        prop_assert!(m.concurrency == 0.0 || (1.0 - 1e-9..=3.0 + 1e-9).contains(&m.concurrency));
        prop_assert!(m.hidden.is_none_or(|hidden| (-1e-9..=1.0).contains(&hidden)));
        prop_assert!(m.finite >= m.bound);
        prop_assert!(m.efficiency.is_none_or(|efficiency| efficiency <= 1.0));
        for lint in lints(&s.ops, &dag, None) {
            prop_assert!(lint.saved <= Nanos(m.elapsed().0 + 5_000), "{lint}");
        }
        let text = summarize(&s.ops, &dag, &Settings::default(), lints(&s.ops, &dag, None)).to_string();
        prop_assert!(text.lines().count() <= 20, "{text}");
    }

    #[test]
    fn a_scale_of_one_gives_the_measured_end_and_slack_is_what_may_be_lost(draws in draws()) {
        let s = script(&draws);
        let dag = s.dag();
        let end = extent(&s.ops, &dag).expect("something ran").end;
        prop_assert_eq!(what_if(&s.ops, &dag, |_| 1.0), end);
        let slack = slack(&s.ops, &dag);
        for (op, slack) in slack.iter().enumerate() {
            let (Some(slack), Some(work)) = (slack, dag.work(op)) else { continue };
            prop_assert!(slack.0 <= end - work.end, "#{op}");
        }
        prop_assert!(slack.iter().flatten().any(|slack| slack.0 == 0), "the last one has no slack");
    }

    /// Each node of the graph follows its predecessors, even if the times contradict the edges.
    #[test]
    fn the_order_of_the_graph_is_topological(draws in draws()) {
        let s = script(&draws);
        let dag = s.dag();
        let mut seen = std::collections::HashSet::new();
        for node in dag.order() {
            for (before, edge) in dag.before(*node) {
                prop_assert!(seen.contains(before), "{before:?} before {node:?} by {edge:?}");
                prop_assert!(dag.span(*before).end <= dag.span(*node).start);
            }
            seen.insert(*node);
        }
    }
}
