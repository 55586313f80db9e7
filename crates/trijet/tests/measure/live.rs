//! Traced runs of the host device on its virtual clock.

use trijet::sim::{Executor, HostConfig, Order};
use trijet::testing::WORK;
use trijet::trace::dag::{Dag, Kernels};
use trijet::trace::gaps::{Cause, gaps};
use trijet::trace::metrics::{CopyEngines, Parameters, extent, measure};
use trijet::trace::summary::{Settings, summarize};
use trijet::trace::{Op, OpKind, StreamMark};
use trijet::{Device, Nanos, Result};

pub(crate) const WORDS: usize = 1 << 18;

pub(crate) fn device() -> Device {
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor);
    Device::host(config).expect("a host device").remove(0)
}

/// The ledger of `program` on a new device. Kernels are loaded before it runs.
pub(crate) fn recorded(program: impl FnOnce(&Device) -> Result<()>) -> Vec<Op> {
    let device = device();
    let record = || -> Result<Vec<Op>> {
        device.load(&WORK)?;
        let origin = device.stream()?;
        device.start_trace(&origin)?;
        program(&device)?;
        device.synchronize()?;
        device.take_trace().map(|trace| trace.ops)
    };
    record().expect("the host device refuses nothing here")
}

/// Moves chunks through upload, kernel and download, with one stream for each engine and `slots`
/// slots.
pub(crate) fn role_streams(device: &Device, chunks: u32, slots: usize) -> Result<()> {
    let (up, run, down) = (device.stream()?, device.stream()?, device.stream()?);
    let mut ring = Vec::new();
    for _ in 0..slots {
        let buffers = (up.alloc::<u32>(WORDS)?, run.alloc::<u32>(WORDS)?);
        ring.push((device.pinned::<u32>(WORDS)?, buffers, device.pinned::<u32>(WORDS)?));
    }
    for chunk in 0..chunks {
        let at = usize::try_from(chunk).expect("few") % slots;
        let (host, (x, y), landed) = &mut ring[at];
        up.copy(host, x)?;
        run.launch(&WORK, (60, &*x, &mut *y))?;
        down.copy(&*y, landed)?;
    }
    Ok(())
}

fn unknown(ops: &[Op], dag: &Dag) -> (u64, u64) {
    let window = extent(ops, dag).expect("something ran");
    let length = window.end - window.start;
    let found = gaps(ops, dag, window, Nanos(0), CopyEngines::Two, &[]);
    let parts = found.iter().flat_map(|gap| &gap.parts);
    let unknown = parts.filter(|(cause, _)| *cause == Cause::Unknown);
    (unknown.map(|(_, part)| part.0).sum(), length)
}

/// On the host device, whose rules are all known, every gap has a known cause.
#[test]
fn less_than_two_percent_of_a_run_is_unexplained() {
    for slots in [1, 2, 3, 5] {
        let ops = recorded(|device| role_streams(device, 12, slots));
        let dag = Dag::new(&ops, Kernels::OneAtATime);
        assert_eq!(dag.contradictions(), 0, "one clock");
        let (unknown, length) = unknown(&ops, &dag);
        assert!(unknown * 50 < length, "{slots} slots: {unknown} of {length} ns");
        // Without the waits between streams, more than 2 % has no known cause.
        let bare: Vec<Op> = ops
            .iter()
            .filter(|op| !matches!(op.kind, OpKind::Mark(StreamMark::Wait { .. })))
            .cloned()
            .collect();
        let (unexplained, _) = self::unknown(&bare, &Dag::new(&bare, Kernels::OneAtATime));
        assert!(unexplained * 50 > length, "{slots} slots: only {unexplained} of {length} ns");
    }
}

#[test]
fn more_slots_overlap_more() {
    let run = |slots| {
        let ops = recorded(|device| role_streams(device, 16, slots));
        let dag = Dag::new(&ops, Kernels::OneAtATime);
        measure(&ops, &dag, None, &Parameters::default()).overlap.expect("three engines worked")
    };
    let (one, three) = (run(1), run(3));
    assert!(one < 0.75 && three > 0.85, "{one} then {three}");
}

#[test]
fn a_summary_begins_with_the_time_and_the_limit() {
    let ops = recorded(|device| role_streams(device, 8, 1));
    let dag = Dag::new(&ops, Kernels::OneAtATime);
    let lints = trijet::check::lint::lints(&ops, &dag, None);
    let settings = Settings { hazards: Some(2), ..Settings::default() };
    let summary = summarize(&ops, &dag, &settings, lints);
    let text = summary.to_string();
    let first = text.lines().next().expect("a verdict");
    let start = format!("{} measured, limited by ", summary.metrics.elapsed());
    assert!(first.starts_with(&start) && first.contains("; 2 hazards, "), "{text}");
    assert!(text.lines().count() <= 20, "{text}");
    for engine in &summary.engines {
        let idle: u64 = engine.idle.values().map(|time| time.0).sum();
        assert_eq!(idle + engine.metrics.busy.0, summary.metrics.elapsed().0);
    }
}
