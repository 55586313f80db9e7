//! Figures of timelines, computed by hand. Times are in nanoseconds; the comments show the sums.

use crate::script::Script;
use trijet::Nanos;
use trijet::trace::Engine::{Communication, Compute, Download, Peer, Upload};
use trijet::trace::critical::Category;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::exposed::Exposure;
use trijet::trace::gaps::{Cause, Dependency};
use trijet::trace::host_engines::HostEngine;
use trijet::trace::limit::{Limit, Need};
use trijet::trace::metrics::{CopyEngines, Metrics, Parameters, measure};
use trijet::trace::summary::{Audience, Settings, fix, summarize};
use trijet::trace::{DeviceId, Route, Waited};

/// The figures, with the work of the busiest engine as the bound.
fn figures(script: &Script) -> Metrics {
    let with = |bound| {
        let given = Parameters { bound, ..Parameters::default() };
        measure(&script.ops, &script.dag(), None, &given)
    };
    with(Some(with(None).bound))
}

fn near(a: Option<f64>, b: f64) -> bool {
    a.is_some_and(|a| (a - b).abs() < 1e-9)
}

#[test]
fn a_serial_run_has_no_overlap() {
    let mut s = Script::default();
    for chunk in 0..2 {
        let t = 30 * chunk;
        s.work(Upload, 0, t..t + 10);
        s.work(Compute, 0, t + 10..t + 20);
        s.work(Download, 0, t + 20..t + 30);
    }
    let m = figures(&s);
    // T = 60, each W = 20, T_lb = 20, n = 2: T_n = 20 + (60 - 20) / 2 = 40.
    assert_eq!((m.elapsed(), m.bound, m.chunks, m.finite), (Nanos(60), Nanos(20), 2, Nanos(40)));
    assert!(near(m.efficiency, 1.0 / 3.0) && near(m.finite_efficiency, 2.0 / 3.0));
    // (60 - 60) / (60 - 20)
    assert!(near(m.overlap, 0.0), "{m:?}");
    // Copies take 40, all of it without a kernel; one engine at a time.
    assert_eq!(m.exposed_copy, Nanos(40));
    assert!(near(m.hidden, 0.0) && (m.concurrency - 1.0).abs() < 1e-9);
    assert!((m.busy_share((DeviceId(0), Compute)) - 1.0 / 3.0).abs() < 1e-9);
}

#[test]
fn a_perfect_run_takes_as_long_as_its_longest_engine() {
    let mut s = Script::default();
    for chunk in 0..3 {
        let span = 10 * chunk..10 * chunk + 10;
        for (lane, engine) in [(0, Upload), (1, Compute), (2, Download)] {
            s.work(engine, lane, span.clone());
        }
    }
    let m = figures(&s);
    // T = T_lb = 30, sum W = 90: (90 - 30) / (90 - 30) = 1; T_n = 30 + 60 / 3 = 50.
    assert_eq!((m.elapsed(), m.bound, m.finite), (Nanos(30), Nanos(30), Nanos(50)));
    assert!(near(m.efficiency, 1.0) && near(m.overlap, 1.0) && near(m.hidden, 1.0));
    assert!((m.concurrency - 3.0).abs() < 1e-9);
    assert_eq!(m.exposed_copy, Nanos(0));
}

#[test]
fn a_run_with_idle_time_between_is_worse_than_serial() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Compute, 0, 20..30);
    s.work(Download, 0, 35..40);
    // sum W = 25, T = 40, T_lb = 10: (25 - 40) / (25 - 10) = -1.
    assert!(near(figures(&s).overlap, -1.0));
}

/// `overlap -75.22` was once printed for runs of one chunk, whose stages cannot overlap.
#[test]
fn where_nothing_can_overlap_there_is_no_overlap() {
    let mut one = Script::default();
    for (engine, span) in [(Upload, 0..10), (Compute, 10..11), (Download, 400..410)] {
        one.work(engine, 0, span).chunk = Some(0);
    }
    assert_eq!(figures(&one).overlap, None, "one chunk");
    let mut copies = Script::default();
    for chunk in 0..4 {
        copies.work(Upload, 0, 20 * chunk..20 * chunk + 10).chunk = Some(chunk);
    }
    assert_eq!(figures(&copies).overlap, None, "one engine");
    let mut light = Script::default();
    for chunk in 0..4 {
        light.work(Upload, 0, 200 * chunk..200 * chunk + 100).chunk = Some(chunk);
        light.work(Compute, 1, 200 * chunk + 100..200 * chunk + 103).chunk = Some(chunk);
    }
    // sum W = 412, T = 703, T_lb = 400: 12 is less than a tenth of 703.
    assert_eq!(figures(&light).overlap, None, "{:?}", figures(&light));
}

#[test]
fn ragged_gaps_are_measured_by_unions() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..4);
    s.work(Compute, 1, 3..6);
    s.work(Upload, 0, 6..9);
    s.work(Compute, 1, 10..15);
    let m = figures(&s);
    // Uploads 4 + 3 = 7; kernels 3 + 5 = 8; together they cover 0..9 and 10..15 = 14.
    assert!((m.concurrency - 15.0 / 14.0).abs() < 1e-9);
    // Uploads without kernels: 0..3 and 6..9 = 6 of 7.
    assert_eq!(m.exposed_copy, Nanos(6));
    assert!(near(m.hidden, 1.0 / 7.0));
}

#[test]
fn what_another_device_computes_hides_no_copy() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Compute, 1, 0..10).device = DeviceId(1);
    s.work(Peer, 2, 4..10).device = DeviceId(1);
    let m = figures(&s);
    assert_eq!((m.exposed_copy, m.communication.exposed), (Nanos(10), Nanos(0)));
    // Engines of two devices work concurrently: sum W = 26, T = T_lb = 10.
    assert!(near(m.overlap, 1.0) && near(m.efficiency, 1.0));
}

/// A collective by NCCL is a kernel on the device, and hides no copy.
#[test]
fn communication_is_exposed_where_its_device_computes_nothing() {
    let route = |from, to| Route { from: DeviceId(from), to: DeviceId(to) };
    let mut s = Script::default();
    s.work(Compute, 0, 0..10);
    s.work(Peer, 1, 5..20).route = Some(route(0, 1));
    s.work(Communication, 2, 18..30);
    s.work(Upload, 3, 20..24);
    s.work(Compute, 4, 0..40).device = DeviceId(1);
    let pulled = s.work(Peer, 5, 36..46);
    (pulled.device, pulled.route) = (DeviceId(1), Some(route(0, 1)));
    let m = figures(&s);
    let time = |busy, exposed| Exposure { busy: Nanos(busy), exposed: Nanos(exposed) };
    // Device 0: 5..30 without 0..10; the upload together with NCCL only. Device 1: 40..46.
    let found: Vec<_> = m.devices.iter().map(|one| (one.copies, one.communication)).collect();
    assert_eq!(found, [(time(4, 4), time(25, 20)), (time(0, 0), time(10, 6))]);
    assert_eq!((m.communication, m.exposed_copy), (time(35, 26), Nanos(4)));
    // A copy belongs to the device of its stream, in either direction.
    let routes = m.devices.iter().flat_map(|one| &one.routes);
    let routes: Vec<_> = routes.map(|one| (one.route, one.copies, one.time)).collect();
    assert_eq!(routes, [(route(0, 1), 1, time(15, 10)), (route(0, 1), 1, time(10, 6))]);
}

#[test]
fn a_report_on_several_devices_names_the_copies_and_the_communication_of_each() {
    let mut s = Script::default();
    s.work(Compute, 0, 0..10);
    s.work(Upload, 1, 0..20);
    s.work(Peer, 2, 5..15).route = Some(Route { from: DeviceId(0), to: DeviceId(1) });
    s.work(Compute, 3, 15..40).device = DeviceId(1);
    let text = summarize(&s.ops, &s.dag(), &Settings::default(), vec![]).to_string();
    assert!(text.starts_with("40 ns measured, limited by compute 1, as observed; "), "{text}");
    let line = "device 0: copies exposed for 10 ns, 50 % hidden; communication exposed for 5 ns, 50 % hidden; \
                peer 0 to 1 busy 10 ns, 5 ns of it exposed\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("device 1:"), "it copied nothing: {text}");
    let total = "copies exposed for 10 ns, 50 % hidden\ncommunication between devices exposed for 5 ns, 50 % hidden\n";
    assert!(text.contains(total), "{text}");
    s.ops.retain(|op| op.engine != Peer && op.device == DeviceId(0));
    let alone = summarize(&s.ops, &s.dag(), &Settings::default(), vec![]).to_string();
    assert!(!alone.contains("communication") && !alone.contains("device 0"), "{alone}");
}

#[test]
fn one_copy_engine_has_to_do_both_directions() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Compute, 1, 5..15);
    s.work(Download, 2, 10..20);
    let given = |copy_engines| Parameters { copy_engines, ..Parameters::default() };
    let with = |engines| measure(&s.ops, &s.dag(), None, &given(engines));
    // One: max(10 + 10, 10) = 20 = T. Two: max(10, 10, 10) = 10.
    assert_eq!(with(CopyEngines::One).bound, Nanos(20));
    assert_eq!(with(CopyEngines::One).elapsed(), Nanos(20));
    assert_eq!(with(CopyEngines::Two).bound, Nanos(10));
}

#[test]
fn a_window_clips_what_it_cuts() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..10);
    s.work(Compute, 1, 8..20);
    let alone = |op: &trijet::trace::Op| Some(Nanos(if op.engine == Compute { 6 } else { 10 }));
    let given = Parameters { isolated: &alone, ..Parameters::default() };
    let m = measure(&s.ops, &s.dag(), Some(5..14), &given);
    let of = |engine| m.engines.iter().find(|e| e.engine.1 == engine).expect("it worked");
    // Inside 5..14: upload 5..10 = 5 of 10; kernel 8..14 = 6 of 12, alone 6 * 6 / 12 = 3.
    assert_eq!((of(Upload).busy, of(Upload).work), (Nanos(5), Nanos(5)));
    assert_eq!((of(Compute).busy, of(Compute).work), (Nanos(6), Nanos(3)));
    assert!(near(of(Compute).contention, 2.0) && near(of(Upload).contention, 1.0));
    assert_eq!(m.elapsed(), Nanos(9));
}

/// Three streams queue an upload each on one engine. By pairs of events, all of them began at 0.
#[test]
fn queueing_for_an_engine_is_not_work() {
    let mut s = Script::default();
    for n in 0..3 {
        s.work(Upload, u32::try_from(n).expect("small"), 0..10 * (n + 1));
    }
    let m = figures(&s);
    // From ready to end, the sum would be 10 + 20 + 30 = 60.
    assert_eq!((m.bound, m.elapsed()), (Nanos(30), Nanos(30)));
}

#[test]
fn settled_records_show_when_the_engine_worked() {
    let mut s = Script::default();
    for n in 0..3 {
        s.work(Upload, u32::try_from(n).expect("small"), 0..10 * (n + 1));
    }
    s.record(1, 0);
    let settled = s.dag().settle(&s.ops);
    let times = settled.iter().map(|op| op.times.map(|t| t.begin.0..t.end.0));
    assert_eq!(times.collect::<Vec<_>>(), [Some(0..10), Some(10..20), Some(20..30), None]);
    let again = Dag::new(&settled, Kernels::Several).settle(&settled);
    assert!(again.iter().map(|op| op.times).eq(settled.iter().map(|op| op.times)));
}

/// Two kernels are concurrent, at 0..10 and 2..12. The sum of their times is 20, which is longer
/// than the run.
#[test]
fn kernels_that_ran_at_once_are_not_work_twice() {
    let mut s = Script::default();
    s.work(Compute, 1, 0..10);
    s.work(Compute, 2, 2..12);
    let m = figures(&s);
    assert_eq!((m.engines[0].work, m.engines[0].busy, m.bound), (Nanos(12), Nanos(12), Nanos(12)));
    assert!(near(m.efficiency, 1.0));
}

#[test]
fn all_figures_follow_a_bound_that_is_given() {
    let mut s = Script::default();
    for chunk in 0..2 {
        let t = 30 * chunk;
        s.work(Upload, 0, t..t + 10);
        s.work(Compute, 0, t + 10..t + 20);
        s.work(Download, 0, t + 20..t + 30);
    }
    let given = Parameters { bound: Some(Nanos(30)), ..Parameters::default() };
    let m = measure(&s.ops, &s.dag(), None, &given);
    // T = 60, sum W = 60, n = 2: T_n = 30 + (60 - 30) / 2 = 45; overlap (60 - 60) / (60 - 30).
    assert_eq!((m.bound, m.finite), (Nanos(30), Nanos(45)));
    assert!(near(m.efficiency, 0.5) && near(m.finite_efficiency, 0.75) && near(m.overlap, 0.0));
    // Work beyond a bound that is too high would be negative.
    let given = Parameters { bound: Some(Nanos(90)), ..Parameters::default() };
    assert_eq!(measure(&s.ops, &s.dag(), None, &given).finite, Nanos(90));
}

/// Copies in both directions may take longer than each alone, because they share the link.
#[test]
fn a_bound_above_every_engine_is_that_of_the_link() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..20);
    s.work(Download, 1, 0..20);
    let summary = |bound: Option<Nanos>, need| {
        let parameters = Parameters { bound, ..Parameters::default() };
        let settings = Settings { parameters, need, ..Settings::default() };
        summarize(&s.ops, &s.dag(), &settings, vec![])
    };
    let link = summary(Some(Nanos(30)), None);
    assert_eq!(link.limit, Some(Limit::Link));
    assert!(link.verdict().contains("30 ns (the link in both directions)"));
    let marked = |text: &str| text.lines().filter(|l| l.ends_with("<- limits")).count();
    let text = link.to_string();
    let line = text.lines().find(|line| line.starts_with("link, both ways"));
    assert!(line.is_some_and(|line| line.contains(" 30 ns ") && marked(line) == 1), "{text}");
    assert_eq!(marked(&text), 1, "no engine alone is the limit: {text}");
    let engine = summary(None, None);
    assert!(matches!(engine.limit, Some(Limit::Engine((_, Upload | Download)))));
    assert!(engine.to_string().contains("<- limits"));
    // The run has no measured bound that applies to other runs.
    assert_eq!((engine.metrics.efficiency, engine.metrics.finite_efficiency), (None, None));
    let text = engine.to_string();
    assert!(text.starts_with("20 ns measured, limited by "), "{text}");
    assert!(!text.contains("efficiency") && !text.contains("at best"), "{text}");
    // The caller knows which part needs the most time, and the critical path must agree.
    let limit = Limit::Host(HostEngine::Reader);
    let reader = summary(Some(Nanos(20)), Some(Need { limit, time: Nanos(16), next: None }));
    let words = "(the device; no single limit: reader and download are nearest)";
    assert!(reader.verdict().contains(words), "{reader}");
    assert!(!reader.to_string().contains("<- limits"));
}

/// The upload ended at 20 by the clock of the device, and the wait for it at 15 by the clock of the
/// host.
#[test]
fn times_within_the_error_of_the_clocks_contradict_nothing() {
    let mut s = Script::default();
    s.work(Upload, 0, 0..20);
    s.record(7, 0);
    s.sync(Waited::Event(7), 0, 0..15);
    let count = |error| {
        let settings = Settings { clock_error: Nanos(error), ..Settings::default() };
        let summary = summarize(&s.ops, &s.dag(), &settings, vec![]);
        assert_eq!(
            summary.contradictions > 0,
            summary.to_string().contains("the clocks contradict")
        );
        summary.contradictions
    };
    assert_eq!((count(0), count(4), count(5)), (1, 1, 0));
}

#[test]
fn advice_names_only_what_its_reader_can_change() {
    let causes = [
        Cause::Fill,
        Cause::Drain,
        Cause::HostLate(Category::Sync),
        Cause::HostLate(Category::User),
        Cause::Dependency(Dependency::Call),
        Cause::Launch,
        Cause::Resource,
        Cause::Unknown,
    ];
    for cause in causes {
        let nothing_to_do = matches!(cause, Cause::Resource | Cause::Unknown);
        assert_eq!(fix(cause, Audience::Author).is_none(), nothing_to_do, "{cause}");
        assert_eq!(fix(cause, Audience::User), None, "{cause}");
    }
    let mut s = Script::default();
    s.work(Upload, 0, 5..20);
    let text = |audience| {
        let settings = Settings { window: Some(0..30), audience, ..Settings::default() };
        summarize(&s.ops, &s.dag(), &settings, vec![]).to_string()
    };
    assert!(text(Audience::Author).contains("drain; use smaller chunks"));
    assert!(text(Audience::User).contains("drain\n"));
}
