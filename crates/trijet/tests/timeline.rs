//! Pages of real and of large runs. The test program keeps them in cargo's folder for tests, where
//! `cargo xtask browser` opens them.

use std::path::Path;
use trijet::check::CheckOptions;
use trijet::check::lint::lints;
use trijet::pipeline::{Calibration, Schedule};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::{Prng, WORK};
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::html::{HazardNote, Page};
use trijet::trace::summary::{Settings, summarize};
use trijet::trace::{
    Asked, DeviceId, Engine, LaneId, Op, OpKind, Position, Site, StreamMark, StreamWork, Times,
};
use trijet::{Bytes, Device, DeviceBuilder, Nanos, Pipeline, Report};

const CHUNKS: u64 = 60;
const CHUNK: Bytes = Bytes(1 << 16);

fn keep(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// A pipeline of 60 chunks on the modelled clock.
fn run(more: impl FnOnce(Pipeline<'_>) -> Pipeline<'_>) -> Report {
    run_on(Device::builder(), more)
}

fn run_on(builder: DeviceBuilder, more: impl FnOnce(Pipeline<'_>) -> Pipeline<'_>) -> Report {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor);
    let device = builder.host(config).open().expect("a host device");
    let calibration = Calibration::measure(&device, Bytes(4 << 20)).expect("a calibration");
    let len = Bytes(CHUNKS * CHUNK.0).to_usize() / size_of::<u32>();
    let input = device.pinned::<u32>(len).expect("page-locked memory");
    let mut output = device.pinned::<u32>(len).expect("page-locked memory");
    let pipeline = Pipeline::on(&device)
        .pinned_source(&input, 1)
        .stage::<u32, u32>(|s, x, y| {
            // A scratch buffer, so that streams hold operations without an engine.
            let mut scratch = s.alloc::<u32>(y.len())?;
            s.launch(&WORK, (20, x, &mut scratch))?;
            s.launch(&WORK, (20, &scratch, y))
        })
        .pinned_sink(&mut output)
        .schedule(Schedule::RoleStreams)
        .chunk(CHUNK)
        .depth(3)
        .calibrated(&calibration);
    more(pipeline).run().expect("the pipeline runs")
}

fn pipeline() -> Report {
    run(|pipeline| pipeline).checked()
}

/// The same pipeline with a wait left out, which is a hazard to the checker.
fn damaged() -> Report {
    run(|pipeline| pipeline.drop_wait(90)).checked()
}

#[test]
fn a_page_of_sixty_chunks_is_small_and_repeats() {
    let report = pipeline();
    assert!(report.verdict().ends_with("; 0 hazards, 0 remarks"), "{}", report.verdict());
    let page = report.page().render();
    assert!(page.len() < 200_000, "{} bytes", page.len());
    keep("plain.html", page.as_bytes());
    assert!(pipeline().page().render() == page, "equal runs, different pages");
}

/// The checker that runs along has seen the calibration, so its numbers differ from the numbers of
/// the trace.
#[test]
fn a_finding_of_the_live_checker_marks_the_operations_of_the_trace() {
    let builder = Device::builder().check(CheckOptions::default());
    let report = run_on(builder, |pipeline| pipeline.drop_wait(90));
    let (live, checked) = (report.page().hazards, damaged().page().hazards);
    assert!(!checked.is_empty());
    let marked = |hazards: &[HazardNote]| {
        let mut pairs: Vec<_> = hazards.iter().map(|note| (note.first, note.second)).collect();
        pairs.sort_unstable();
        pairs
    };
    assert_eq!(marked(&live), marked(&checked));
    assert!(report.page().render().contains("error[RACE/"));
}

#[test]
fn a_wait_left_out_is_a_hazard_on_the_page() {
    let report = damaged();
    let page = report.page();
    assert!(!page.hazards.is_empty(), "{}", report.verdict());
    assert!(page.hazards.iter().all(|note| note.first.is_some()), "each hazard has two operations");
    let rendered = page.render();
    assert!(rendered.contains("error[RACE/"), "the finding");
    assert!(rendered.contains("<path class=\"edge\""), "the missing edge");
    keep("pipeline.html", rendered.as_bytes());
    keep("pipeline.pftrace", &report.perfetto());
    keep("pipeline.json", report.chrome().as_bytes());
}

#[test]
fn the_parts_of_a_run_sum_to_it() {
    let report = pipeline();
    let summary = report.summary().expect("recorded");
    assert_eq!(summary.metrics.elapsed(), report.elapsed);
    assert_eq!(summary.engines.len(), 3);
    for engine in &summary.engines {
        let idle: u64 = engine.idle.values().map(|time| time.0).sum();
        assert_eq!(engine.metrics.busy.0 + idle, report.elapsed.0, "{engine:?}");
        assert!(engine.exposed <= engine.metrics.busy);
    }
    let path: u64 = summary.critical.by_category.values().map(|time| time.0).sum();
    assert_eq!(path, report.elapsed.0);
    let nodes = summary.critical.nodes();
    assert!(nodes.len() as u64 > CHUNKS, "{nodes:?}");
}

#[test]
fn a_report_prints_the_figures_of_its_summary() {
    let report = pipeline();
    let (text, summary) = (report.to_string(), report.summary().expect("recorded").to_string());
    assert!(text.contains(&summary), "{text}");
    let verdict = report.verdict();
    assert!(text.lines().any(|line| line == verdict), "{verdict} is not in {text}");
    assert!(text.lines().count() <= 25, "{text}");
}

/// The start of the first invented operation, in nanoseconds after the start of the run.
const FIRST: u64 = 20_000_000;

/// `count` invented operations of chunks that pass through three engines, with jitter.
fn synthetic(count: usize, seed: u64) -> Vec<Op> {
    let mut prng = Prng::new(seed);
    let mut free = [FIRST; 3];
    let mut ops = Vec::new();
    let engines = [Engine::Upload, Engine::Compute, Engine::Download];
    for chunk in 0.. {
        let mut ready = 0;
        for (lane, engine) in (0_u32..).zip(engines) {
            let number = lane as usize;
            let begin = ready.max(free[number]) + prng.next_u64() % 400;
            let end = begin + 4000 + prng.next_u64() % 4000;
            (free[number], ready) = (end, end);
            let position = Position { lane: LaneId(lane), seq: chunk + 1 };
            let kind =
                if engine == Engine::Compute { StreamWork::Kernel } else { StreamWork::Copy };
            let label = if engine == Engine::Compute { "median" } else { "copy" };
            if lane > 0 {
                let on = Position { lane: LaneId(lane - 1), seq: chunk + 1 };
                let wait = StreamMark::Wait { event: chunk, on, by: Asked::Ordering };
                ops.push(made(wait, Engine::None, position, None, begin, "event", chunk));
            }
            let times = Some(Times { begin: Nanos(begin), end: Nanos(end) });
            ops.push(made(kind, engine, position, times, begin, label, chunk));
            if ops.len() >= count {
                ops.truncate(count);
                return ops;
            }
        }
    }
    ops
}

fn made(
    kind: impl Into<OpKind>,
    engine: Engine,
    position: Position,
    times: Option<Times>,
    begin: u64,
    label: &'static str,
    chunk: u64,
) -> Op {
    let called = begin.saturating_sub(9000 + u64::from(position.lane.0) * 500);
    Op {
        bytes: if matches!(engine, Engine::Upload | Engine::Download) { 1 << 18 } else { 0 },
        label: label.into(),
        chunk: Some(chunk),
        site: Some(Site { file: "src/main.rs".into(), line: 40 + position.lane.0, column: 9 }),
        call: Some(Times { begin: Nanos(called), end: Nanos(called + 300) }),
        times,
        ..Op::new(kind, engine, DeviceId(0), position)
    }
}

/// A page of invented operations, computed from them like any other page.
fn page(ops: &[Op]) -> Page<'_> {
    let dag = Dag::new(ops, Kernels::OneAtATime);
    // The run begins before the first operation, and ends after the last one.
    let end = ops.iter().filter_map(|op| op.times).map(|times| times.end.0 + FIRST).max();
    let window = end.map(|end| 0..end);
    let settings = Settings { window, hazards: Some(1), ..Settings::default() };
    let summary = summarize(ops, &dag, &settings, lints(ops, &dag, None));
    let text = "error[RACE/RAW]: made up, as everything on this page\n".to_owned();
    let kernel = |chunk| {
        let wanted =
            |op: &Op| op.kind == OpKind::Work(StreamWork::Kernel) && op.chunk == Some(chunk);
        ops.iter().position(wanted).expect("each chunk has a kernel")
    };
    Page {
        title: format!("{} operations <made up>", ops.len()),
        summary: Some(summary),
        hazards: vec![HazardNote { text, first: Some(kernel(40)), second: kernel(42) }],
        ops: ops.into(),
        ..Page::default()
    }
}

#[test]
fn a_page_takes_less_than_a_hundred_bytes_per_operation() {
    let ops = synthetic(10_000, 7);
    let empty = Page::default().render().len();
    let bytes = page(&ops).render().len() - empty;
    assert!(bytes < 1_000_000, "{bytes} bytes of 10 000 operations");
}

#[test]
fn a_page_of_a_hundred_thousand_operations_is_kept_for_the_browser() {
    let ops = synthetic(100_000, 11);
    assert_eq!(ops.len(), 100_000);
    let rendered = page(&ops).render();
    assert!(rendered.len() < 10_000_000, "{} bytes", rendered.len());
    keep("large.html", rendered.as_bytes());
}
