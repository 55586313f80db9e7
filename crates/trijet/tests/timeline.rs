//! Pages of real and of large runs. They are kept in the folder that cargo gives to tests, where
//! `cargo xtask browser` opens them.

use std::path::Path;
use trijet::base::id::{DeviceId, LaneId, Position};
use trijet::base::ledger::{Asked, Engine, Op, OpKind, Site, Times};
use trijet::base::prng::Prng;
use trijet::kernels::WORK;
use trijet::pipeline::{Calibration, Pipeline, Report, Schedule};
use trijet::trace::html::{Bar, HazardNote, Loss, Page};
use trijet::trace::{chrome, perfetto};
use trijet::{Bytes, Device, Executor, HostConfig, Nanos, Order};

const CHUNKS: u64 = 60;
const CHUNK: Bytes = Bytes(1 << 16);

fn keep(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

/// A pipeline of 60 chunks on the modelled clock.
fn pipeline() -> Report {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig { executor, ..HostConfig::default() };
    let device = Device::host(config).expect("a host device").remove(0);
    let calibration = Calibration::measure(&device, Bytes(4 << 20)).expect("a calibration");
    let len = CHUNKS * CHUNK.0 / size_of::<u32>() as u64;
    let input = device.pinned::<u32>(len).expect("page-locked memory");
    let mut output = device.pinned::<u32>(len).expect("page-locked memory");
    let report = Pipeline::on(&device)
        .pinned_source(&input, 1)
        .stage::<u32, u32>(|s, x, y| {
            // Scratch, so that streams hold what no engine does.
            let mut scratch = s.alloc::<u32>(y.len())?;
            s.launch(&WORK, (20, x, &mut scratch))?;
            s.launch(&WORK, (20, &scratch, y))
        })
        .pinned_sink(&mut output)
        .schedule(Schedule::RoleStreams)
        .chunk(CHUNK)
        .depth(3)
        .calibrated(&calibration)
        .run();
    report.expect("the pipeline runs")
}

/// The operations on the way back from the last one, each through what it waited for longest.
fn some_path(ops: &[Op]) -> Vec<usize> {
    let timed = |i: &usize| ops[*i].times;
    let mut path: Vec<usize> = Vec::new();
    let last =
        (0..ops.len()).filter(|i| timed(i).is_some()).max_by_key(|i| timed(i).map(|t| t.end));
    let mut at = last;
    while let Some(index) = at {
        path.push(index);
        let begin = timed(&index).expect("only timed operations are taken").begin;
        let earlier =
            (0..index).filter(|i| timed(i).is_some_and(|t| t.end <= begin && t.begin < t.end));
        at = earlier.max_by_key(|i| timed(i).map(|t| t.end));
    }
    path.reverse();
    path
}

#[test]
fn a_page_of_sixty_chunks_is_small_and_repeats() {
    let report = pipeline();
    let path = some_path(&report.ops);
    assert!(path.len() as u64 > CHUNKS, "the path has {} operations", path.len());
    let mut page = report.page();
    let named = |kind: &OpKind, chunk| {
        report.ops.iter().position(|op| op.kind == *kind && op.chunk == Some(chunk))
    };
    let first = named(&OpKind::Kernel, 20).expect("there is a kernel of chunk 20");
    let second = named(&OpKind::Copy, 23).expect("there is an upload of chunk 23");
    let text = format!(
        "error[RACE/WAR]: op #{second} `copy, chunk 23` may overwrite what op #{first} `work, chunk 20` reads\n  \
         fix: record an event after #{first} and wait for it before #{second}\n  (an example: this run is clean)"
    );
    page.hazards = Some(vec![HazardNote { text, first, second }]);
    page.critical.clone_from(&path);
    let rendered = page.render();
    assert!(rendered.len() < 200_000, "{} bytes", rendered.len());
    keep("pipeline.html", rendered.as_bytes());
    keep("plain.html", report.page().render().as_bytes());
    let edges: Vec<_> = path.windows(2).map(|pair| (pair[0], pair[1])).collect();
    keep("pipeline.pftrace", &perfetto::trace(&report.ops, &edges));
    keep("pipeline.json", chrome::trace(&report.ops).as_bytes());

    let again = pipeline();
    assert!(again.page().render() == report.page().render(), "equal runs, different pages");
}

#[test]
fn the_parts_of_a_bar_sum_to_the_run() {
    let report = pipeline();
    let page = report.page();
    let total = |bar: &Bar| bar.parts.iter().map(|(_, time)| time.0).sum::<u64>();
    let totals: Vec<u64> = page.engines.iter().map(total).collect();
    assert_eq!(totals, [totals[0]; 3]);
    let limiting = &page.engines[page.limiting.expect("some engine limits")];
    let lost: u64 = page.losses.iter().map(|loss| loss.lost.0).sum();
    assert_eq!(limiting.parts[0].1.0 + lost, totals[0], "busy and lost are all");
    assert_eq!(lost, report.exposed.total().0, "as the report has it");
}

/// Made up: `count` operations of chunks that go through three engines, with jitter.
fn synthetic(count: usize, seed: u64) -> Vec<Op> {
    let mut prng = Prng::new(seed);
    let mut free = [0_u64; 3];
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
            let kind = if engine == Engine::Compute { OpKind::Kernel } else { OpKind::Copy };
            let label = if engine == Engine::Compute { "median" } else { "copy" };
            if lane > 0 {
                let on = Position { lane: LaneId(lane - 1), seq: chunk + 1 };
                let wait = OpKind::Wait { event: chunk, on, by: Asked::Ordering };
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
    kind: OpKind,
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

#[test]
fn a_page_takes_less_than_a_hundred_bytes_per_operation() {
    let ops = synthetic(10_000, 7);
    let empty = Page::default().render().len();
    let page = Page { ops: &ops, critical: (0..ops.len()).step_by(2).collect(), ..Page::default() };
    let bytes = page.render().len() - empty;
    assert!(bytes < 1_000_000, "{bytes} bytes of 10 000 operations");
}

#[test]
fn a_page_of_a_hundred_thousand_operations_is_kept_for_the_browser() {
    let ops = synthetic(100_000, 11);
    assert_eq!(ops.len(), 100_000);
    let bar = |name: &str| Bar { name: name.into(), parts: vec![("busy".into(), Nanos(1))] };
    let page = Page {
        title: "100 000 operations <made up>".into(),
        verdict: "This run never happened: it shows that a page stays fluid.".into(),
        engines: vec![bar("upload")],
        losses: vec![Loss {
            lost: Nanos(9000),
            cause: "Nothing was lost.".into(),
            fix: String::new(),
            window: 1_000_000..1_050_000,
        }],
        critical: (0..ops.len()).filter(|i| i % 7 == 1).collect(),
        ops: &ops,
        ..Page::default()
    };
    let rendered = page.render();
    assert!(rendered.len() < 10_000_000, "{} bytes", rendered.len());
    keep("large.html", rendered.as_bytes());
}
