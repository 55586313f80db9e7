//! The plan of a run: the rows of each chunk. The same input always leads to the same plan.
//!
//! `tune` chooses the size of chunks. This file only divides the rows into chunks.
#![forbid(unsafe_code)]

pub(super) mod calibrate;
pub(super) mod layout;
pub(super) mod limits;
pub(super) mod reach;
pub(super) mod schedule;

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use layout::Layout;
use reach::Reach;
use schedule::Schedule;
use std::fmt;
use std::ops::Range;

/// The largest chunk that is chosen by default. Copies of this size reach 99 % of the link's rate
/// on an H200.
pub(super) const CHUNK_MAX: Bytes = Bytes(32 << 20);
/// The smallest chunk that is chosen by default. For a smaller chunk, the fixed cost of a copy is
/// significant.
pub(super) const CHUNK_MIN: Bytes = Bytes(256 << 10);
/// The default number of slots: one chunk each in upload, compute and download.
const DEPTH: usize = 3;
/// Maximum size of a chunk that is larger than the default size so that it holds a block of the
/// source. Larger blocks are decoded for several chunks.
const BLOCK_MAX: Bytes = Bytes(1 << 30);
/// Maximum number of chunks of a plan. This number is enough for 256 TiB in chunks of 16 MiB.
const CHUNKS_MAX: u64 = 1 << 24;
/// Number of halvings from a full chunk to the first chunk of a ramp.
const RAMP_STEPS: u32 = 4;

/// One chunk of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Chunk {
    /// The number of the chunk in the run.
    pub index: u64,
    /// The rows that the chunk produces.
    pub rows: Range<u64>,
    /// The rows of the input that the chunk reads. For stages that write the rows that they read,
    /// these are the rows that the chunk produces and the halos of all stages around them. At the
    /// ends of the data the halos are shorter.
    pub input: Range<u64>,
}

impl Chunk {
    /// The number of rows that the chunk reads.
    pub(super) fn rows_in(&self) -> u64 {
        self.input.end - self.input.start
    }

    /// The number of rows that the chunk produces.
    pub(super) fn rows_out(&self) -> u64 {
        self.rows.end - self.rows.start
    }

    /// Adds the chunk and the name of a stage to an error.
    pub(super) fn context(&self, stage: impl fmt::Display, error: Error) -> Error {
        error.context(format!("chunk {} (rows {:?}), {stage}", self.index, self.rows))
    }
}

/// The origin of the size of the chunks of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ChunkChoice {
    /// The default size for the number of bytes of the run.
    #[default]
    Bytes,
    /// A measurement before the first chunk.
    Measurement,
    /// A choice of the caller, with [`Pipeline::chunk`](crate::Pipeline::chunk).
    Caller,
    /// The memory of the device or of the host, which was too small for larger chunks.
    Memory,
}

impl ChunkChoice {
    /// The choice in words, for reports.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Bytes => "the default for this many bytes",
            Self::Measurement => "from a measurement",
            Self::Caller => "chosen by the user",
            Self::Memory => "halved to fit into memory",
        }
    }
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// How chunks share streams.
    pub schedule: Schedule,
    /// The number of slots, which is the maximum number of chunks in flight.
    pub depth: usize,
    /// The number of rows of the largest chunk.
    pub chunk_rows: u64,
    /// The origin of the size of the chunks.
    pub chunk_choice: ChunkChoice,
    /// The chunks, in the order of their rows.
    pub chunks: Vec<Chunk>,
}

/// Whether the first and last chunks are smaller than the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Ramp {
    /// All chunks have one size, except the last chunk, which may be smaller.
    #[default]
    Flat,
    /// Sizes double from a sixteenth of the full size up to the full size, and are halved again at
    /// the end. If one engine limits a pipeline, smaller first chunks let this engine start
    /// earlier. Smaller last chunks let the other engines end sooner after this engine.
    Both,
}

/// Options for making a plan.
#[derive(Debug, Clone)]
pub(crate) struct PlanOptions {
    pub(crate) schedule: Schedule,
    pub(crate) chunk: Option<Bytes>,
    /// The number of rows at whose multiples chunks start if they have at least this number of
    /// rows. It is a multiple of the granule, or less than it.
    pub(crate) step: u64,
    /// The origin of the size in `chunk`.
    pub(crate) chunk_choice: ChunkChoice,
    pub(crate) ramp: Ramp,
    pub(crate) depth: Option<usize>,
    /// The rows to produce, sorted and disjoint.
    pub(crate) todo: Vec<Range<u64>>,
}

impl Plan {
    /// Plans a run whose results have the rows of `layout`, with chunks of at most `rows_max` rows.
    /// A row of `layout` has the bytes of the input that belong to it (see
    /// [`Reach::chunk_layout`]).
    ///
    /// # Errors
    /// `InvalidValue` for a depth of 0, empty rows, rows that are not sorted or not whole granules,
    /// a size that overflows, or too many chunks.
    pub(super) fn new(
        layout: Layout,
        options: &PlanOptions,
        reach: &Reach<'_>,
        rows_max: u64,
    ) -> Result<Self> {
        let invalid = |cause: &str| Error::new(ErrorKind::InvalidValue, "plan", cause.to_owned());
        let total = layout.bytes()?;
        let depth = options.depth.unwrap_or(DEPTH);
        if depth == 0 {
            return Err(invalid("the depth is 0; a pipeline needs at least 1 slot"));
        }
        if let Some(pair) = options.todo.windows(2).find(|pair| pair[0].end > pair[1].start) {
            let (first, second) = (&pair[0], &pair[1]);
            return Err(invalid(&format!(
                "rows {second:?} come after rows {first:?}; give ranges that are sorted and disjoint"
            )));
        }
        let granule = layout.granule;
        let is_cut = |row: u64| row < layout.rows && !row.is_multiple_of(granule);
        if let Some(range) = options.todo.iter().find(|r| is_cut(r.start) || is_cut(r.end)) {
            return Err(invalid(&format!(
                "rows {range:?} begin or end inside of a granule of {granule} rows; give whole \
                 granules"
            )));
        }
        let step = options.step.max(granule);
        let whole = |rows: u64| {
            let multiple = if rows < step { granule } else { step };
            (rows / multiple * multiple).max(granule)
        };
        let wanted = match options.chunk {
            Some(bytes) => bytes.0 / layout.row_bytes,
            None => {
                let block = step.min(BLOCK_MAX.0 / layout.row_bytes);
                (usual_chunk(total).0 / layout.row_bytes).max(block)
            }
        };
        let full = whole(wanted.min(rows_max));
        let chunk_choice =
            if full < whole(wanted) { ChunkChoice::Memory } else { options.chunk_choice };
        let mut chunks = Vec::new();
        for range in &options.todo {
            let rows = range.end.min(layout.rows).saturating_sub(range.start);
            if rows / full >= CHUNKS_MAX - chunks.len() as u64 {
                return Err(invalid(
                    "the plan would have more than 16,777,216 chunks; choose larger chunks",
                ));
            }
            let sizes = match options.ramp {
                Ramp::Both => ramp(rows, full, if full < step { granule } else { step }),
                Ramp::Flat => even(rows, full),
            };
            let mut start = range.start;
            for size in sizes {
                let rows = start..start + size;
                let index = chunks.len() as u64;
                chunks.push(Chunk { index, input: reach.input_rows(&rows)?, rows });
                start += size;
            }
        }
        let schedule = options.schedule;
        Ok(Self { schedule, depth, chunk_rows: full, chunk_choice, chunks })
    }

    /// The maximum number of rows that a chunk reads.
    #[must_use]
    pub fn input_rows_max(&self) -> u64 {
        self.chunks.iter().map(Chunk::rows_in).max().unwrap_or(0)
    }

    /// The maximum number of rows that a chunk produces.
    #[must_use]
    pub fn rows_max(&self) -> u64 {
        self.chunks.iter().map(Chunk::rows_out).max().unwrap_or(0)
    }

    /// The name of the schedule, for reports. A tuned schedule has another name if the user chose
    /// the size of the chunks.
    #[must_use]
    pub fn schedule_name(&self) -> &'static str {
        match (self.schedule, self.chunk_choice) {
            (Schedule::Tuned, ChunkChoice::Caller) => "role streams, two for kernels",
            (schedule, _) => schedule.name(),
        }
    }

    /// The number of rows that all chunks read, including halos.
    pub(super) fn rows_in(&self) -> u64 {
        self.chunks.iter().map(Chunk::rows_in).sum()
    }

    /// The number of rows that all chunks produce.
    pub(super) fn rows_out(&self) -> u64 {
        self.chunks.iter().map(Chunk::rows_out).sum()
    }

    /// The number of slots of a run: the depth, but at most one slot per chunk.
    pub(super) fn slots(&self) -> usize {
        self.depth.min(self.chunks.len().max(1))
    }
}

/// The number of rows of the results at whose multiples chunks should start, so that no block of
/// `block_rows` rows of the input is decoded for two chunks. The granule of the results if they
/// have no such rows, or if the source has no blocks.
pub(super) fn step(block_rows: Option<u64>, input: Layout, results: Layout) -> u64 {
    let scaled = u128::from(block_rows.unwrap_or(0)) * u128::from(results.rows);
    let input_rows = u128::from(input.rows.max(1));
    let own = u64::try_from(scaled / input_rows).unwrap_or(0);
    if own == 0 || !scaled.is_multiple_of(input_rows) {
        return results.granule;
    }
    least_common_multiple(own, results.granule).unwrap_or(results.granule)
}

/// The least common multiple of two numbers above 0. `None` if it overflows.
fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).checked_mul(b)
}

/// The default chunk size for `total` bytes. This size is the optimum of the module `tune` if both
/// directions are equally busy, for a link of 50 GB/s and a cost of 4 us per chunk.
pub(super) fn usual_chunk(total: u64) -> Bytes {
    let balanced = total.saturating_mul(200_000).isqrt();
    Bytes(balanced.clamp(CHUNK_MIN.0, CHUNK_MAX.0 / 2))
}

/// The sizes of chunks of `full` rows, in rows. The last chunk may be smaller.
pub(super) fn even(rows: u64, full: u64) -> Vec<u64> {
    let mut sizes = vec![full; usize::try_from(rows / full).unwrap_or(usize::MAX)];
    if !rows.is_multiple_of(full) {
        sizes.push(rows % full);
    }
    sizes
}

/// The sizes of chunks, in rows, that double up to `full` rows and halve again at the end.
pub(super) fn ramp(rows: u64, full: u64, granule: u64) -> Vec<u64> {
    let step = |n: u32| ((full >> n) / granule * granule).max(granule);
    let mut up: Vec<u64> = (1..=RAMP_STEPS).rev().map(step).collect();
    let both = 2 * up.iter().sum::<u64>();
    if rows < both + full {
        // There are too few rows for two ramps. So about eight equal chunks overlap instead.
        let size = (rows / 8 / granule * granule).max(granule).min(full);
        return even(rows, size);
    }
    let down: Vec<u64> = up.iter().rev().copied().collect();
    up.extend(even(rows - both, full));
    up.extend(down);
    up
}

#[cfg(test)]
mod tests {
    use super::reach::StageRows;
    use super::*;
    use proptest::prelude::*;

    fn options(ramp: Ramp, chunk: u64, todo: Range<u64>) -> PlanOptions {
        let chunk = Some(Bytes(chunk));
        let schedule = Schedule::RoleStreams;
        let todo = std::iter::once(todo).collect();
        let chunk_choice = ChunkChoice::Caller;
        PlanOptions { schedule, chunk, step: 1, chunk_choice, ramp, depth: None, todo }
    }

    #[test]
    fn a_step_has_whole_blocks_and_whole_granules() {
        let of = |block, results: Layout| step(Some(block), Layout::rows(2048 * 10, 4096), results);
        assert_eq!(of(2048, Layout::rows(2048 * 10, 4096)), 2048);
        assert_eq!(of(2048, Layout::rows(1024 * 10, 2048).granule(3 * 512)), 3 * 1024);
        assert_eq!(of(2048, Layout::rows(10, 4096)), 1);
        assert_eq!(step(None, Layout::rows(10, 1), Layout::rows(10, 1).granule(5)), 5);
        // A row of the results has parts of two blocks.
        assert_eq!(of(1000, Layout::rows(10, 4096).granule(2)), 2);
        assert_eq!(step(Some(7), Layout::rows(0, 1), Layout::rows(0, 1)), 1);
    }

    proptest! {
        /// The law: the chunks produce every wanted row once and in order. Each chunk begins at a
        /// granule. Each chunk reads its halos as far as the data have the rows.
        #[test]
        fn chunks_cover_every_row_once_in_order(
            images in 0u64..90, granule in 1u64..5, row_bytes in 1u64..9, chunk in 1u64..200,
            halo in 0u64..9, ramped in any::<bool>(), from in 0u64..40,
        ) {
            let rows = images * granule;
            let layout = Layout::rows(rows, row_bytes).granule(granule);
            let shape = if ramped { Ramp::Both } else { Ramp::Flat };
            let start = (from * granule).min(rows);
            let reach = Reach::new(layout, [StageRows::Same { halo }].into_iter())?;
            let plan = Plan::new(layout, &options(shape, chunk, start..rows), &reach, u64::MAX)?;
            let mut at = start;
            for chunk in &plan.chunks {
                prop_assert_eq!(chunk.rows.start, at);
                prop_assert!(chunk.rows.start < chunk.rows.end);
                prop_assert!(chunk.rows.start.is_multiple_of(granule));
                prop_assert!(chunk.input.start <= chunk.rows.start.saturating_sub(halo));
                prop_assert!(chunk.input.end >= (chunk.rows.end + halo).min(rows));
                prop_assert!(chunk.input.end <= rows);
                at = chunk.rows.end;
            }
            prop_assert_eq!(at, rows);
        }
    }

    #[test]
    fn a_ramp_doubles_up_and_halves_down() {
        let layout = Layout::rows(1024, 1 << 20);
        let (options, reach) =
            (options(Ramp::Both, 16 << 20, 0..1024), Reach::new(layout, [].into_iter()).unwrap());
        let plan = Plan::new(layout, &options, &reach, u64::MAX);
        let plan = plan.expect("a plain plan");
        let sizes: Vec<_> = plan.chunks.iter().map(|c| c.rows.end - c.rows.start).collect();
        assert_eq!(sizes[..5], [1, 2, 4, 8, 16]);
        assert_eq!(sizes[sizes.len() - 4..], [8, 4, 2, 1]);
        assert_eq!(plan.chunk_rows, 16);
    }
}
