//! The chunks of a run, and the model of the run with other chunks or another number of slots.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, DagNode};
use crate::base::ledger::{Engine, Mode, Op, Place};
use crate::base::ring::{CostLine, RingModel};
use std::collections::{BTreeMap, BTreeSet};

/// Sizes of chunks that differ by less than this factor do not show the cost per chunk.
const APART: u64 = 2;
/// Maximum time in nanoseconds between two dependent operations that is no delay of the host.
const GAP_MAX_NS: u64 = 20_000;

/// A chunk: the bytes of its upload, and the nanoseconds of upload, compute and download.
#[derive(Debug, Clone, Copy, Default)]
struct ChunkTimes {
    bytes: u64,
    times: [u64; 3],
}

/// The chunks of a run, and their model.
#[derive(Debug)]
pub(super) struct RunRing {
    pub(super) model: RingModel,
    /// The bytes of the upload of each chunk.
    pub(super) sizes: Vec<u64>,
    pub(super) depth: usize,
    /// The measured time from the start of the first upload to the end of the last download.
    pub(super) measured: u64,
    /// Whether the sizes of the chunks tell the cost of a chunk apart from the cost of its bytes.
    pub(super) has_fixed: bool,
}

impl RunRing {
    /// The chunks of a device. `None` unless each chunk has an upload, a kernel and a download.
    pub(super) fn of(ops: &[Op], dag: &Dag, device: u32) -> Option<Self> {
        let mut chunks: BTreeMap<u64, ChunkTimes> = BTreeMap::new();
        let (mut slots, mut hull) = (BTreeSet::new(), None::<(u64, u64)>);
        let mut gaps = Vec::new();
        for (at, op) in ops.iter().enumerate().filter(|(_, op)| op.device.0 == device) {
            let stage = match op.engine {
                Engine::Upload => 0,
                Engine::Compute => 1,
                Engine::Download => 2,
                _ => continue,
            };
            let (Some(chunk), Some(time)) = (op.chunk, dag.work(at)) else { continue };
            let entry = chunks.entry(chunk).or_default();
            entry.times[stage] = entry.times[stage].saturating_add(time.end - time.start);
            if stage == 0 {
                entry.bytes = entry.bytes.saturating_add(op.bytes);
                let written = |one: &&_| is_written_on_device(one);
                slots.extend(op.accesses.iter().filter(written).map(|one| one.block));
            }
            let (first, last) = hull.unwrap_or((time.start, time.end));
            hull = Some((first.min(time.start), last.max(time.end)));
            gaps.push(time.start.saturating_sub(dag.ready(DagNode::work(at))));
        }
        let (first, last) = hull?;
        let chunks: Vec<ChunkTimes> = chunks.into_values().collect();
        let is_whole = |chunk: &ChunkTimes| chunk.bytes > 0 && chunk.times.iter().all(|at| *at > 0);
        if chunks.len() < 2 || !chunks.iter().all(is_whole) {
            return None;
        }
        gaps.sort_unstable();
        let gap = gaps.get(gaps.len() / 2).map_or(0, |gap| (*gap).min(GAP_MAX_NS));
        let sizes: Vec<u64> = chunks.iter().map(|chunk| chunk.bytes).collect();
        let (least, most) = (*sizes.iter().min()?, *sizes.iter().max()?);
        let has_fixed = least.saturating_mul(APART) <= most;
        let line = |stage: usize| fitted(&chunks, stage, has_fixed);
        Some(Self {
            model: RingModel { lines: [line(0), line(1), line(2)], gap: gap as f64 },
            sizes,
            depth: slots.len().max(1),
            measured: last - first,
            has_fixed,
        })
    }

    /// The bytes of all uploads.
    fn all(&self) -> u64 {
        self.sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
    }

    /// The modelled time in nanoseconds of chunks of `bytes` bytes in `depth` slots.
    pub(super) fn time_of(&self, bytes: u64, depth: usize) -> f64 {
        let (all, bytes) = (self.all(), bytes.max(1));
        let mut sizes = vec![bytes; usize::try_from(all / bytes).unwrap_or(0)];
        sizes.extend((!all.is_multiple_of(bytes)).then_some(all % bytes));
        self.model.time(&sizes, depth)
    }

    /// The ring as an object in JSON. Some modelled times are in it, with which the script of the
    /// page must agree.
    pub(super) fn json(&self) -> String {
        let line = |line: &CostLine| format!("[{:?},{:?}]", line.fixed, line.row);
        let lines: Vec<String> = self.model.lines.iter().map(line).collect();
        let usual = self.sizes.iter().max().copied().unwrap_or(1);
        let samples = [(usual, self.depth), (usual, 1), (usual.saturating_mul(2), self.depth)];
        let samples = samples
            .map(|(bytes, depth)| format!("[{bytes},{depth},{:?}]", self.time_of(bytes, depth)));
        format!(
            "{{\"lines\":[{}],\"gap\":{:?},\"depth\":{},\"all\":{},\"usual\":{usual},\"measured\":{},\
             \"modelled\":{:?},\"hasFixed\":{},\"samples\":[{}]}}",
            lines.join(","),
            self.model.gap,
            self.depth,
            self.all(),
            self.measured,
            self.model.time(&self.sizes, self.depth),
            self.has_fixed,
            samples.join(",")
        )
    }
}

fn is_written_on_device(access: &crate::base::ledger::Access) -> bool {
    access.place == Place::Device && access.mode != Mode::Read
}

/// The line through the times of a stage: by least squares, or through the origin if the sizes do
/// not show a fixed cost.
fn fitted(chunks: &[ChunkTimes], stage: usize, has_fixed: bool) -> CostLine {
    let count = chunks.len() as f64;
    let sum = |of: &dyn Fn(&ChunkTimes) -> f64| chunks.iter().map(of).sum::<f64>();
    let bytes = sum(&|one| one.bytes as f64);
    let time = sum(&|one| one.times[stage] as f64);
    let through = CostLine { fixed: 0.0, row: time / bytes };
    if !has_fixed {
        return through;
    }
    let (bytes, time) = (bytes / count, time / count);
    let apart = |one: &ChunkTimes| one.bytes as f64 - bytes;
    let spread = sum(&|one| apart(one) * apart(one));
    let row = sum(&|one| apart(one) * (one.times[stage] as f64 - time)) / spread;
    let fixed = time - row * bytes;
    match (row > 0.0, fixed > 0.0) {
        (true, true) => CostLine { fixed, row },
        (false, _) => CostLine { fixed: time, row: 0.0 },
        (true, false) => through,
    }
}
