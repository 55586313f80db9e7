//! The figures of overlap, for the engines of all devices together, within a window.
//!
//! The isolated time of an operation is its duration while nothing else runs. Let I_e be the union
//! of the intervals of engine e, clipped to the window, and T the length of the window. Let W_e be
//! the sum of the isolated times of the engine's operations, and n the number of chunks:
//!
//! - busy_e = |I_e| / T; mean concurrency = sum |I_e| / |union of I_e|;
//! - exposed copy = |(uploads and downloads) without compute|; hidden share = 1 - exposed /
//!   |copies|; the same for communication between devices, see [`exposed`](super::exposed);
//! - bound T_lb = max W_e, or the bound that was measured; with one copy engine, the maximum of
//!   W_upload + W_download, W_compute, and the others;
//! - finite pipeline T_n = T_lb + (sum W_e - T_lb) / n, or the time computed from the plan;
//!   efficiency T_lb / T and T_n / T, if T_lb was measured;
//! - achieved overlap = (sum W_e - T) / (sum W_e - T_lb), with two engines and two chunks at least;
//!   contention = observed / isolated time.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, by_engine};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Op};
use crate::base::span::Union;
use crate::base::units::Nanos;
use crate::trace::exposed::{DeviceMetrics, Exposure, devices};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

/// The number of copy engines of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyEngines {
    /// Uploads and downloads share one engine.
    One,
    /// Uploads and downloads have an engine each.
    #[default]
    Two,
    /// There is no hardware for copies: all engines share the processors of the host.
    Processors,
}

/// The isolated time of an operation, measured or computed from its bytes; `None` if unknown.
pub type IsolatedTime<'a> = &'a dyn Fn(&Op) -> Option<Nanos>;

/// The values on which the figures depend in addition to the trace.
#[derive(Clone, Copy)]
pub struct Parameters<'a> {
    /// The copy engines of each device.
    pub copy_engines: CopyEngines,
    /// The shortest time that the machine allows, if it was measured. The default is max W_e.
    pub bound: Option<Nanos>,
    /// The shortest time of a pipeline with this number of chunks, if it was computed from its
    /// copies and kernels. The default assumes equal chunks.
    pub finite: Option<Nanos>,
    /// The number of chunks. The default is the number of chunks that the operations name. If the
    /// operations name no chunks, the default is the number of operations of the engine with the
    /// most work.
    pub chunks: Option<u64>,
    /// The isolated times. An engine has contention and isolated work only if the isolated times of
    /// all its operations are known.
    pub isolated: IsolatedTime<'a>,
}

impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { copy_engines, bound, finite, chunks, .. } = self;
        f.debug_struct("Parameters")
            .field("copy_engines", copy_engines)
            .field("bound", bound)
            .field("finite", finite)
            .field("chunks", chunks)
            .finish_non_exhaustive()
    }
}

impl Default for Parameters<'_> {
    /// Two copy engines, the default bounds and number of chunks, and no isolated times.
    fn default() -> Self {
        let copy_engines = CopyEngines::Two;
        Self { copy_engines, bound: None, finite: None, chunks: None, isolated: &|_| None }
    }
}

/// An engine of a device.
pub type DeviceEngine = (DeviceId, Engine);

/// The figures of an engine in a window.
#[derive(Debug, Clone, PartialEq)]
pub struct EngineMetrics {
    /// The engine that these figures belong to.
    pub engine: DeviceEngine,
    /// |I_e|: the time in which the engine worked.
    pub busy: Nanos,
    /// W_e: the isolated work if the isolated times of all operations are known, otherwise the
    /// observed time |I_e|. A sum of observed durations would count the time of concurrent kernels
    /// twice.
    pub work: Nanos,
    /// Whether `work` is the isolated work.
    pub isolated: bool,
    /// The sum of the observed durations of the operations divided by the sum of their isolated
    /// times, if all isolated times are known. If this is above 1.05, the bound is too low.
    pub contention: Option<f64>,
    /// The number of operations of the engine in the window.
    pub ops: usize,
}

/// The figures of a window.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// The window in nanoseconds, on the clock of the device.
    pub window: Range<u64>,
    /// The engines that worked in the window.
    pub engines: Vec<EngineMetrics>,
    /// The mean number of engines that worked while at least one engine worked; 0 if no engine
    /// worked.
    pub concurrency: f64,
    /// The time of copies between host and device while the device computed nothing.
    pub exposed_copy: Nanos,
    /// The communication between devices: copies from device to device, and collectives by NCCL.
    /// The times are sums over the devices.
    pub communication: Exposure,
    /// The copies and the communication of each device that worked in the window.
    pub devices: Vec<DeviceMetrics>,
    /// The share of the time of copies in which the device computed; `None` without copies.
    pub hidden: Option<f64>,
    /// T_lb: the measured bound if there is one, otherwise max W_e.
    pub bound: Nanos,
    /// The engine with the most work. If both copy directions share the engine with the most work,
    /// this is the direction that is first in `engines`.
    pub limiting: Option<DeviceEngine>,
    /// n: the number of chunks.
    pub chunks: u64,
    /// T_n: the shortest time of a pipeline with this number of chunks.
    pub finite: Nanos,
    /// T_lb / T; `None` if T_lb was only observed. The busy time of an engine in one run is no
    /// bound for other runs.
    pub efficiency: Option<f64>,
    /// T_n / T; `None` if T_lb was only observed.
    pub finite_efficiency: Option<f64>,
    /// The achieved overlap; `None` if there is nothing to overlap.
    pub overlap: Option<f64>,
}

impl Metrics {
    /// T: the length of the window.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        Nanos(self.window.end - self.window.start)
    }

    /// The share of the window in which an engine worked.
    #[must_use]
    pub fn busy_share(&self, engine: DeviceEngine) -> f64 {
        let mine = self.engines.iter().find(|e| e.engine == engine);
        mine.map_or(0.0, |e| e.busy.0 as f64 / (self.elapsed().0.max(1)) as f64)
    }
}

/// The time from the first start to the last end of work on the devices.
#[must_use]
pub fn extent(ops: &[Op], dag: &Dag) -> Option<Range<u64>> {
    let spans = || (0..ops.len()).filter_map(|op| dag.work(op));
    Some(spans().map(|s| s.start).min()?..spans().map(|s| s.end).max()?)
}

fn clip(span: &Range<u64>, window: &Range<u64>) -> Range<u64> {
    let start = span.start.clamp(window.start, window.end);
    start..span.end.clamp(start, window.end)
}

/// The figures of an engine and the times in which it was busy. An operation that the window cuts
/// counts with the part inside the window, and with the same share of its isolated time.
fn engine(
    ops: &[Op],
    dag: &Dag,
    engine: DeviceEngine,
    list: &[usize],
    window: &Range<u64>,
    isolated_time: IsolatedTime<'_>,
) -> (EngineMetrics, Union) {
    let (mut observed, mut isolated, mut known, mut count) = (0_u64, 0.0, true, 0);
    let mut parts = Vec::with_capacity(list.len());
    for op in list {
        let Some(span) = dag.work(*op) else { continue };
        let part = clip(&span, window);
        let (inside, whole) = (part.end - part.start, span.end - span.start);
        if inside == 0 {
            continue;
        }
        count += 1;
        observed += inside;
        match isolated_time(&ops[*op]) {
            Some(time) => isolated += time.0 as f64 * inside as f64 / whole as f64,
            None => known = false,
        }
        parts.push(part);
    }
    let isolated = (known && isolated > 0.0).then_some(isolated);
    let union = Union::of(parts);
    let busy = union.length();
    let metrics = EngineMetrics {
        engine,
        busy,
        work: isolated.map_or(busy, |ns| Nanos::from_seconds(ns * 1e-9)),
        isolated: isolated.is_some(),
        contention: isolated.map(|isolated| observed as f64 / isolated),
        ops: count,
    };
    (metrics, union)
}

/// The bound max W_e, and the engine with this work. With one copy engine, uploads and downloads
/// are added up.
fn bound(engines: &[EngineMetrics], copy_engines: CopyEngines) -> (Nanos, Option<DeviceEngine>) {
    let mut works: BTreeMap<DeviceEngine, (u64, DeviceEngine)> = BTreeMap::new();
    for e in engines {
        let (device, role) = e.engine;
        let shared = copy_engines == CopyEngines::One && role == Engine::Download;
        let key = (device, if shared { Engine::Upload } else { role });
        works.entry(key).or_insert((0, e.engine)).0 += e.work.0;
    }
    let most = works.values().max_by_key(|(work, _)| *work);
    most.map_or((Nanos(0), None), |(work, engine)| (Nanos(*work), Some(*engine)))
}

fn chunks(ops: &[Op], engines: &[EngineMetrics], given: Option<u64>) -> u64 {
    let named: BTreeSet<u64> = ops.iter().filter_map(|op| op.chunk).collect();
    let busiest = engines.iter().max_by_key(|e| e.work).map_or(1, |e| e.ops as u64);
    let counted = if named.is_empty() { busiest } else { named.len() as u64 };
    given.unwrap_or(counted).max(1)
}

/// Whether the operations show that the work has several chunks. The stages of a single chunk
/// follow each other, so they cannot overlap.
fn divided(ops: &[Op], given: Option<u64>) -> bool {
    let mut named = ops.iter().filter_map(|op| op.chunk);
    let first = named.next();
    given.map_or(first.is_none() || named.any(|chunk| Some(chunk) != first), |chunks| chunks > 1)
}

/// The achieved overlap is stated only if perfect overlap saves at least this share of the elapsed
/// time. With a smaller saving, the quotient would only magnify noise.
const TO_OVERLAP_MIN: f64 = 0.1;

/// The achieved overlap: 0 for a serial run, 1 for a run that takes no longer than the bound.
/// `None` if the work of all engines exceeds the bound by less than a tenth of the elapsed time:
/// then there is little to overlap.
///
/// ```
/// use trijet::Nanos;
/// use trijet::trace::metrics::achieved_overlap;
/// assert_eq!(achieved_overlap(Nanos(300), Nanos(300), Nanos(100)), Some(0.0));
/// assert_eq!(achieved_overlap(Nanos(300), Nanos(100), Nanos(100)), Some(1.0));
/// assert_eq!(achieved_overlap(Nanos(103), Nanos(200), Nanos(100)), None);
/// ```
#[must_use]
pub fn achieved_overlap(work: Nanos, elapsed: Nanos, bound: Nanos) -> Option<f64> {
    let (work, elapsed, bound) = (work.0 as f64, elapsed.0 as f64, bound.0 as f64);
    if work - bound < elapsed * TO_OVERLAP_MIN {
        return None;
    }
    Some((work - elapsed) / (work - bound))
}

/// The figures of a run within `window`. The default window is from the first operation of a device
/// to the last.
///
/// ```
/// use trijet::trace::dag::{Dag, Kernels};
/// use trijet::trace::metrics::{Parameters, measure};
/// let dag = Dag::new(&[], Kernels::Several);
/// let nothing = measure(&[], &dag, Some(0..10), &Parameters::default());
/// assert_eq!((nothing.elapsed().0, nothing.concurrency), (10, 0.0));
/// ```
#[must_use]
pub fn measure(
    ops: &[Op],
    dag: &Dag,
    window: Option<Range<u64>>,
    parameters: &Parameters<'_>,
) -> Metrics {
    let window = window.or_else(|| extent(ops, dag)).unwrap_or(0..0);
    let mut unions: BTreeMap<DeviceEngine, Union> = BTreeMap::new();
    let mut engines = Vec::new();
    for (name, list) in by_engine(ops, dag) {
        let (metrics, union) = engine(ops, dag, name, &list, &window, parameters.isolated);
        if metrics.ops > 0 {
            engines.push(metrics);
            unions.insert(name, union);
        }
    }
    let elapsed = window.end.saturating_sub(window.start);
    let busy: u64 = engines.iter().map(|e| e.busy.0).sum();
    let any = Union::all(unions.values()).length().0;
    let devices = devices(ops, dag, &window, &unions);
    let copies = Exposure::sum(devices.iter().map(|device| device.copies));
    let (most, limiting) = bound(&engines, parameters.copy_engines);
    let lower = parameters.bound.unwrap_or(most);
    let work: u64 = engines.iter().map(|e| e.work.0).sum();
    let chunks = chunks(ops, &engines, parameters.chunks);
    let equal_chunks = Nanos(lower.0 + work.saturating_sub(lower.0) / chunks);
    let finite = parameters.finite.unwrap_or(equal_chunks);
    let alone = engines.iter().any(|e| Some(e.engine) == limiting && e.isolated);
    let measured = elapsed > 0 && (parameters.bound.is_some() || alone);
    let ratio = |time: Nanos| measured.then(|| time.0 as f64 / elapsed as f64);
    let divided = divided(ops, parameters.chunks) && engines.len() > 1;
    let overlap = achieved_overlap(Nanos(work), Nanos(elapsed), lower).filter(|_| divided);
    Metrics {
        window,
        concurrency: if any == 0 { 0.0 } else { busy as f64 / any as f64 },
        exposed_copy: copies.exposed,
        hidden: copies.hidden(),
        communication: Exposure::sum(devices.iter().map(|device| device.communication)),
        devices,
        bound: lower,
        limiting,
        chunks,
        finite,
        efficiency: ratio(lower),
        finite_efficiency: ratio(finite),
        overlap,
        engines,
    }
}
