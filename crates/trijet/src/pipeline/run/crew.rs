//! A crew: threads that share the reading or the writing of each chunk.
//!
//! One thread copies a few gigabytes per second from or to the page cache, but the link moves fifty
//! gigabytes per second. So a chunk is cut into parts of whole granules, one part per thread. The
//! best number of parts depends on the file system and on the other work of the processors. The
//! crew tries several numbers of parts on the first chunks. Then the crew keeps the smallest number
//! of parts that is nearly as fast as the fastest number.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::pipeline::describe::host_work::SideSpans;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::num::NonZero;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

/// Maximum number of threads. More threads do not copy faster on a processor with 16 cores.
const THREADS_MAX: usize = 16;
/// Minimum size of a part in bytes. A smaller part takes less time than the hand-over to another
/// thread and the wait for the end of the part.
const PART_MIN: Bytes = Bytes(64 << 10);
/// Number of chunks on which each number of parts is tried. The least time of these chunks counts.
const TRIES: usize = 2;
/// A number of parts is nearly as fast as the fastest number if its time is at most this multiple
/// of the least time.
const NEARLY_BEST: f64 = 1.05;

/// Settings for the calls of the source or of the sink: the grain of its rows, the spans to which
/// the times of the calls are added, the crew if a chunk is shared among threads, and the number
/// of chunks that are handled at once.
#[derive(Clone, Copy)]
pub(super) struct SideWork<'env> {
    pub(super) grain: Grain,
    pub(super) spans: &'env SideSpans,
    pub(super) crew: Option<&'env Crew>,
    pub(super) at_once: usize,
}

/// The bytes of a row, and the number of rows of a granule. Parts begin at multiples of a granule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grain {
    pub(super) row_bytes: u64,
    pub(super) granule: u64,
}

/// Threads that work on the parts of a chunk.
pub(super) struct Crew {
    pool: ThreadPool,
    width: Mutex<Width>,
}

impl Crew {
    /// The number of threads of a crew: one per processor, at most [`THREADS_MAX`].
    pub(super) fn threads_max() -> usize {
        available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
    }

    /// Starts a crew that divides each chunk into parts. `side`, the source or the sink, is in the
    /// names of the threads.
    ///
    /// # Errors
    /// `Io` when the system does not start a thread.
    pub(super) fn start(side: &'static str) -> Result<Self> {
        let threads = Self::threads_max();
        let named = move |number| format!("trijet-{side}-{number}");
        let pool = ThreadPoolBuilder::new().num_threads(threads).thread_name(named).build();
        let pool = pool.map_err(|error| {
            Error::new(ErrorKind::Io, side, "its threads could not be started").caused_by(error)
        })?;
        Ok(Self { pool, width: Mutex::new(Width::of(threads)) })
    }

    /// Calls `read` for each part of `into`, which is filled with `rows`. Returns the error of the
    /// first part that failed.
    pub(super) fn read(
        &self,
        rows: &Range<u64>,
        grain: Grain,
        into: &mut [u8],
        read: impl Fn(Range<u64>, &mut [u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        self.share(rows, grain, |parts| {
            let done = into.par_chunks_mut(parts.bytes).enumerate();
            done.map(|(number, part)| read(parts.rows(number), part)).collect()
        })
    }

    /// Calls `write` for each part of `bytes`, which has the content of `rows`. Returns the error
    /// of the first part that failed.
    pub(super) fn write(
        &self,
        rows: &Range<u64>,
        grain: Grain,
        bytes: &[u8],
        write: impl Fn(Range<u64>, &[u8]) -> Result<()> + Sync,
    ) -> Result<()> {
        self.share(rows, grain, |parts| {
            let done = bytes.par_chunks(parts.bytes).enumerate();
            done.map(|(number, part)| write(parts.rows(number), part)).collect()
        })
    }

    /// Cuts a chunk into parts, and calls `work` on the threads with these parts. Stores the time
    /// of the chunk.
    fn share(
        &self,
        rows: &Range<u64>,
        grain: Grain,
        work: impl FnOnce(&ChunkParts) -> Vec<Result<()>> + Send,
    ) -> Result<()> {
        let (number, width) = self.width().next();
        let parts = ChunkParts::new(rows.clone(), grain, width);
        let begin = Instant::now();
        let done = self.pool.install(|| work(&parts));
        let per_row = begin.elapsed().as_secs_f64() / (rows.end - rows.start).max(1) as f64;
        self.width().took(number, per_row);
        done.into_iter().collect()
    }

    fn width(&self) -> std::sync::MutexGuard<'_, Width> {
        self.width.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A chunk that is cut into parts of equal size. The last part may be smaller.
#[derive(Debug, PartialEq, Eq)]
struct ChunkParts {
    chunk: Range<u64>,
    rows: u64,
    bytes: usize,
}

impl ChunkParts {
    /// Cuts `chunk` into at most `count` parts.
    fn new(chunk: Range<u64>, grain: Grain, count: usize) -> Self {
        let all = (chunk.end - chunk.start).max(1);
        let enough = PART_MIN.0.div_ceil(grain.row_bytes.max(1));
        let rows = all.div_ceil(count as u64).max(enough).next_multiple_of(grain.granule);
        let rows = rows.min(all.next_multiple_of(grain.granule));
        let bytes = Bytes(rows.saturating_mul(grain.row_bytes)).to_usize().max(1);
        Self { chunk, rows, bytes }
    }

    /// The rows of a part.
    fn rows(&self, number: usize) -> Range<u64> {
        let start = self.chunk.start + number as u64 * self.rows;
        start..(start + self.rows).min(self.chunk.end)
    }
}

/// The numbers of parts that are tried, and their times. One of these numbers is chosen.
#[derive(Debug)]
struct Width {
    /// The numbers of parts, in the order in which they are tried, each with its least time per row
    /// in seconds. In a job with few chunks, only the first numbers are used.
    tried: Vec<(usize, f64)>,
    chunks: usize,
}

impl Width {
    fn of(threads: usize) -> Self {
        let half = threads.div_ceil(2);
        let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|width| *width < threads);
        let mut widths = vec![half, threads];
        widths.extend(powers.filter(|width| *width != half));
        widths.dedup();
        Self { tried: widths.into_iter().map(|width| (width, f64::INFINITY)).collect(), chunks: 0 }
    }

    /// The number of parts for the next chunk. Returns the index of this number in `tried`, and the
    /// number.
    fn next(&mut self) -> (usize, usize) {
        let number = self.chunks / TRIES;
        self.chunks += 1;
        match self.tried.get(number) {
            Some((width, _)) => (number, *width),
            None => self.best(),
        }
    }

    /// Stores the time per row, in seconds, of a chunk. `number` is the index in `tried` of the
    /// number of parts that was used.
    fn took(&mut self, number: usize, per_row: f64) {
        let least = &mut self.tried[number].1;
        *least = least.min(per_row);
    }

    /// Chooses the smallest number of parts that is nearly as fast as the fastest number. Returns
    /// the index of this number in `tried`, and the number.
    fn best(&self) -> (usize, usize) {
        let least = self.tried.iter().map(|(_, time)| *time).fold(f64::INFINITY, f64::min);
        let tried =
            self.tried.iter().enumerate().map(|(number, (width, time))| (number, *width, *time));
        let good = tried.filter(|(_, _, time)| *time <= least * NEARLY_BEST);
        let best = good.min_by_key(|(_, width, _)| *width);
        best.map_or((0, self.tried[0].0), |(number, width, _)| (number, width))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The parts together are the rows of the chunk, in the same order. Each part begins at a
        /// granule.
        #[test]
        fn parts_cover_a_chunk_once(
            first in 0u64..5, granules in 1u64..40, granule in 1u64..7, cut in 0u64..7,
            row_bytes in prop_oneof![Just(1u64), Just(4096), Just(200_000)], count in 1usize..20,
        ) {
            let (start, end) = (first * granule, (first + granules) * granule - cut.min(granule - 1));
            let parts = ChunkParts::new(start..end, Grain { row_bytes, granule }, count);
            let bytes = Bytes((end - start) * row_bytes).to_usize();
            let number = bytes.div_ceil(parts.bytes);
            prop_assert!(number <= count);
            let mut next = start;
            for one in (0..number).map(|number| parts.rows(number)) {
                prop_assert_eq!(one.start, next);
                prop_assert!(one.start.is_multiple_of(granule) && one.start < one.end);
                next = one.end;
            }
            prop_assert_eq!(next, end);
        }
    }

    #[test]
    fn the_smallest_width_that_is_nearly_the_fastest_is_kept() {
        let mut width = Width::of(16);
        let time = |width: usize| 1.0 / width.min(4) as f64 + 0.01 * (width as f64 / 16.0);
        for _ in 0..100 {
            let (number, parts) = width.next();
            width.took(number, time(parts));
        }
        assert_eq!(width.next().1, 4);
    }

    /// Times that are measured after the choice change the least times only if they are smaller.
    #[test]
    fn every_width_is_tried_before_the_choice() {
        let mut width = Width::of(6);
        let mut seen: Vec<_> = (0..width.tried.len() * TRIES).map(|_| width.next().1).collect();
        seen.dedup();
        assert_eq!(seen, [3, 6, 1, 2, 4]);
        assert_eq!(Width::of(1).tried.len(), 1);
    }

    #[test]
    fn the_error_of_the_first_part_is_returned() {
        let crew = Crew::start("source").unwrap();
        let grain = Grain { row_bytes: PART_MIN.0, granule: 1 };
        let bytes = vec![0; 8 * PART_MIN.to_usize()];
        for _ in 0..20 {
            let failed = crew.write(&(0..8), grain, &bytes, |rows, _| {
                let cause = format!("from {}", rows.start);
                Err(Error::new(ErrorKind::Io, "write", cause))
            });
            assert!(failed.unwrap_err().to_string().contains("from 0"));
        }
    }
}
