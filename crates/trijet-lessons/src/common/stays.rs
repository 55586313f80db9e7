//! Two kernels whose blocks record the multiprocessors and the times of their runs.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use trijet::{Buffer, Device, LaunchConfig, Result, Stream};
use trijet_tools::bare::stay::{Stay, WORDS};

/// Two launches of a kernel with equal configurations, each in its own stream.
pub(crate) struct Stays {
    streams: [Stream; 2],
    records: [Buffer<u64>; 2],
    /// The number of words of each record that the last run wrote.
    used: usize,
    /// The time of each block, in nanoseconds.
    ns: u32,
}

impl Stays {
    /// Makes the streams and the memory for kernels of up to `blocks_max` blocks.
    pub(crate) fn new(device: &Device, blocks_max: u32, ns: u32) -> Result<Self> {
        let streams = [device.stream()?, device.stream()?];
        let record = || streams[0].alloc(WORDS * blocks_max as usize);
        let records = [record()?, record()?];
        Ok(Self { streams, records, used: 0, ns })
    }

    /// Overwrites the records of the last run.
    pub(crate) fn clear(&mut self) -> Result<()> {
        self.records.iter_mut().try_for_each(|record| self.streams[0].fill_bytes(record, 0xff))
    }

    #[track_caller]
    pub(crate) fn launch(&mut self, kernel: &Stay, config: LaunchConfig) -> Result<()> {
        self.used = WORDS * config.grid[0] as usize;
        for (stream, record) in self.streams.iter().zip(&mut self.records) {
            stream.launch_with(kernel, config, (self.ns, record.slice_mut(..self.used)))?;
        }
        Ok(())
    }

    /// Fetches the records of the last run.
    pub(crate) fn fetch(&self) -> Result<Records> {
        let words = |record: &Buffer<u64>| self.streams[0].download(&record.slice(..self.used));
        let [a, b] = &self.records;
        Ok(Records { kernels: [runs(&words(a)?), runs(&words(b)?)], ns: u64::from(self.ns) })
    }
}

/// The run of a block.
#[derive(Debug)]
struct BlockRun {
    multiprocessor: u64,
    start: u64,
    end: u64,
}

/// The runs of all blocks of a kernel, from the words that the kernel recorded.
fn runs(words: &[u64]) -> Vec<BlockRun> {
    let run =
        |&[multiprocessor, start, end]: &[u64; WORDS]| BlockRun { multiprocessor, start, end };
    words.as_chunks().0.iter().map(run).collect()
}

/// The runs of all blocks of two kernels.
#[derive(Debug)]
pub(crate) struct Records {
    kernels: [Vec<BlockRun>; 2],
    ns: u64,
}

impl Records {
    /// The number of multiprocessors that ran blocks of both kernels at the same time, for at least
    /// half of the time of a block. A block that starts while the blocks before it end does not
    /// count.
    pub(crate) fn shared(&self) -> usize {
        let [a, b] = &self.kernels;
        let meets = |one: &&BlockRun| {
            b.iter().filter(|other| other.multiprocessor == one.multiprocessor).any(|other| {
                let both = one.end.min(other.end).saturating_sub(one.start.max(other.start));
                both * 2 >= self.ns
            })
        };
        a.iter().filter(meets).map(|run| run.multiprocessor).collect::<BTreeSet<_>>().len()
    }

    /// The time from the first start of a block to the last end, in milliseconds.
    pub(crate) fn length_ms(&self) -> f64 {
        let runs = || self.kernels.iter().flatten();
        let start = runs().map(|run| run.start).min().unwrap_or(0);
        let end = runs().map(|run| run.end).max().unwrap_or(0);
        end.saturating_sub(start) as f64 * 1e-6
    }

    /// Describes the first block that did not run for its time.
    pub(crate) fn wrong(&self) -> Option<String> {
        let is_short = |run: &&BlockRun| run.end.saturating_sub(run.start) < self.ns;
        let found = self.kernels.iter().flatten().find(is_short)?;
        Some(format!("a block ran for less than {} ns: {found:?}", self.ns))
    }
}

#[cfg(test)]
mod tests {
    use super::{Records, runs};

    fn records(a: &[u64], b: &[u64]) -> Records {
        Records { kernels: [runs(a), runs(b)], ns: 100 }
    }

    #[test]
    fn only_blocks_of_one_multiprocessor_that_overlap_long_enough_share_it() {
        let shared = |b: &[u64]| records(&[0, 100, 200, 1, 100, 200, 1, 100, 200], b).shared();
        assert_eq!(shared(&[0, 150, 250, 1, 100, 200]), 2);
        assert_eq!(shared(&[0, 151, 251, 1, 100, 200]), 1, "multiprocessor 0 is shared for 49 ns");
        assert_eq!(shared(&[0, 200, 300, 1, 0, 100]), 0, "one after the other");
        assert_eq!(shared(&[2, 100, 200]), 0, "another multiprocessor");
    }

    #[test]
    fn the_time_of_two_kernels_is_from_the_first_start_to_the_last_end() {
        let (a, b) =
            ([0, 2_000_000, 3_000_000], [1, 1_000_000, 1_500_000, 1, 4_000_000, 5_500_000]);
        assert_eq!(records(&a, &b).length_ms(), 4.5);
        assert_eq!(records(&b, &a).length_ms(), 4.5);
    }

    #[test]
    fn a_block_that_left_early_or_did_not_run_is_found() {
        assert_eq!(records(&[0, 5, 105], &[1, 5, 106]).wrong(), None);
        let found = records(&[0, 5, 105], &[1, 5, 104]).wrong().expect("99 ns are too short");
        assert!(found.contains("end: 104"), "{found}");
        assert!(records(&[u64::MAX; 3], &[]).wrong().is_some(), "words that no block wrote");
    }
}
