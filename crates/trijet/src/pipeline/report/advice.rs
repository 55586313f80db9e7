//! Changes that would make a run faster, and the time that each change saves.
//!
//! The saved times are bounds. Most saved times are lower bounds: the change saves at least this
//! time. The times come from a model of the run. Engines that overlap take as long as the busiest
//! engine. Each of the other engines adds its work on one chunk.
#![forbid(unsafe_code)]

use super::Report;
use crate::base::units::{Bytes, Nanos, rate};
use crate::device::driver::Clock;
use crate::pipeline::plan::ChunkChoice;
use crate::pipeline::plan::limits::STRETCH;
use crate::trace::critical::Category;
use crate::trace::host_engines::HostEngine;
use crate::trace::summary::Audience;
use std::cmp::Reverse;
use std::fmt;

/// The smallest part of the elapsed time that is worth advice: one hundredth.
const LEAST: u64 = 100;
/// With this number of chunks, the first and the last chunk are a small part of a run.
const ENOUGH_TO_OVERLAP: u64 = 16;
/// With this number of chunks, the calls of the host are a small part of a run.
const FEW_CALLS: u64 = 64;

/// A change that can make a run faster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// Larger chunks, which need fewer calls.
    LargerChunks,
    /// Smaller chunks, so that more of the work overlaps.
    SmallerChunks,
    /// More slots, so that the work of several chunks overlaps.
    MoreSlots,
    /// The run ends after the last row without a wait until the results are on the disk.
    NoSync,
    /// Faster storage for the input.
    FasterInput,
    /// Faster storage for the output.
    FasterOutput,
}

impl Change {
    /// The name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::LargerChunks => "larger_chunks",
            Self::SmallerChunks => "smaller_chunks",
            Self::MoreSlots => "more_slots",
            Self::NoSync => "no_sync",
            Self::FasterInput => "faster_input",
            Self::FasterOutput => "faster_output",
        }
    }

    fn bound(self) -> Bound {
        match self {
            Self::LargerChunks | Self::SmallerChunks | Self::MoreSlots | Self::NoSync => {
                Bound::AtLeast
            }
            Self::FasterInput | Self::FasterOutput => Bound::AtMost,
        }
    }
}

/// Whether a saved time is a lower bound or an upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// The change saves at least this time.
    AtLeast,
    /// The change saves at most this time. The saved time depends on facts that the run does not
    /// show.
    AtMost,
}

impl Bound {
    /// The name in JSON.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::AtLeast => "at_least",
            Self::AtMost => "at_most",
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AtLeast => "at least",
            Self::AtMost => "at most",
        })
    }
}

/// A change, and the time that it saves.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// The change.
    pub change: Change,
    /// The time that the change saves: a lower or an upper bound, as `bound` states.
    pub saves: Nanos,
    /// Whether the change saves at least or at most this time.
    pub bound: Bound,
    /// The cause and the change in words, for the reader of the report.
    pub text: String,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (saves {} {})", self.text, self.bound, self.saves)
    }
}

/// The work of each engine of a run in nanoseconds, and the number of chunks.
#[derive(Debug, Clone, Copy)]
struct EngineWork {
    reader: u64,
    copies_and_kernels: [u64; 3],
    /// The work of the writer, including the time until the results are on the disk.
    writer: u64,
    chunks: u64,
}

impl EngineWork {
    /// The work of each engine that can overlap with the others. With one slot, the engines of the
    /// device cannot overlap and count as one engine.
    fn of_engines(&self, slots: usize) -> Vec<u64> {
        let device = &self.copies_and_kernels;
        let device = if slots == 1 { vec![device.iter().sum()] } else { device.to_vec() };
        [vec![self.reader, self.writer], device].concat()
    }

    /// The modelled time of a run with this number of chunks and slots.
    fn time(&self, chunks: u64, slots: usize) -> u64 {
        let work = self.of_engines(slots);
        let most = work.iter().max().copied().unwrap_or(0);
        most + (work.iter().sum::<u64>() - most) / chunks.max(1)
    }

    /// The work of the busiest engine, with several slots.
    fn most(&self) -> u64 {
        self.of_engines(2).into_iter().max().unwrap_or(0)
    }

    /// Whether an engine of the device has the most work.
    fn is_of_device(&self) -> bool {
        self.copies_and_kernels.contains(&self.most())
    }

    /// If `one` is the work of the busiest engine, the time by which `one` exceeds the work of the
    /// second busiest engine. Otherwise 0.
    fn without(&self, one: u64) -> u64 {
        let mut all = self.of_engines(2);
        all.sort_unstable_by_key(|work| Reverse(*work));
        if all.first() == Some(&one) { one - all[1] } else { 0 }
    }
}

impl Report {
    /// The changes that would make the run faster by at least a hundredth. The change that saves
    /// the most time comes first. The saved times do not add up. The list is empty if the run was
    /// not traced.
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::pipeline::rows_of;
    /// use trijet::{Bytes, Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut y: Vec<u8> = Vec::new();
    /// let report = Pipeline::on(&device).source(rows_of(vec![0u8; 8000], 10)).sink(&mut y).run()?;
    /// assert!(report.advice().iter().all(|one| one.saves.0 * 100 >= report.elapsed.0));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        let Some(summary) = &self.summary else { return Vec::new() };
        let busy = |name| self.engine(name).map_or(0, |engine| engine.busy.0);
        let plan = &self.plan;
        let work = EngineWork {
            reader: busy("reader"),
            copies_and_kernels: [busy("upload"), busy("compute"), busy("download")],
            writer: busy("writer") + busy("sync"),
            chunks: plan.chunks.len() as u64,
        };
        let calls = [
            Category::Enqueue,
            Category::Sync,
            Category::Alloc,
            Category::Copy,
            Category::Load,
            Category::User,
        ];
        let on_path = |category| summary.critical.by_category.get(category).map_or(0, |t| t.0);
        let calls: u64 = calls.iter().map(on_path).sum();
        let is_by_caller = plan.chunk_choice == ChunkChoice::Caller;
        // With one slot, the engines may still overlap in part, so the modelled time can be too
        // long. A modelled time above the elapsed time is replaced by the elapsed time.
        let now = work.time(work.chunks, plan.depth).min(self.elapsed.0);
        let limits = |engine| self.limit.is_some_and(|limit| limit.includes(engine));
        let mut all = Vec::new();
        let mut add = |change: Change, applies: bool, saves: u64| {
            if applies && saves > 0 && saves >= self.elapsed.0 / LEAST {
                let (bound, text) = (change.bound(), self.words(change));
                all.push(Advice { change, saves: Nanos(saves), bound, text });
            }
        };
        let too_many = calls - calls * FEW_CALLS.min(work.chunks) / work.chunks.max(1);
        let spare = self.elapsed.0.saturating_sub(work.most());
        add(Change::LargerChunks, is_by_caller && work.chunks > FEW_CALLS, too_many.min(spare));
        let overlaps = work.is_of_device() && self.clock != Clock::Processor;
        let few = is_by_caller && plan.depth > 1 && work.chunks < ENOUGH_TO_OVERLAP && overlaps;
        // Engines that work at the same time slow each other.
        let stretched = |time: u64| time * STRETCH[0] / STRETCH[1];
        let overlapped = stretched(work.time(ENOUGH_TO_OVERLAP, plan.depth));
        add(Change::SmallerChunks, few, now.saturating_sub(overlapped));
        let with_slots = now.saturating_sub(stretched(work.time(work.chunks, 2)));
        add(Change::MoreSlots, plan.depth == 1 && work.chunks > 1 && overlaps, with_slots);
        add(Change::NoSync, true, busy("sync"));
        add(Change::FasterInput, limits(HostEngine::Reader), work.without(work.reader));
        add(Change::FasterOutput, limits(HostEngine::Writer), work.without(work.writer));
        all.sort_by_key(|one| Reverse(one.saves));
        all
    }

    /// The cause and the change in words.
    fn words(&self, change: Change) -> String {
        let plan = &self.plan;
        let row = self.bytes_in.0 / plan.rows_in().max(1);
        let size = Bytes(plan.chunk_rows.min(plan.rows_max()).saturating_mul(row));
        let chunks = match plan.chunks.len() {
            1 => format!("one chunk of {size}"),
            count => format!("{count} chunks of {size}"),
        };
        let is_user = self.audience == Audience::User;
        let busy = |name| self.engine(name).map_or(Nanos(0), |engine| engine.busy);
        let faster = |pace: &str, rate, place: &str| match is_user {
            true => {
                format!("the {pace} at {rate}: use a faster disk; for PNG, more processors or .npy")
            }
            false => format!("the {pace} at {rate}: use a faster {place}"),
        };
        match change {
            Change::LargerChunks if is_user => {
                format!(
                    "{chunks}: the calls cost more than the work; use a larger --chunk, or leave \
                     it out"
                )
            }
            Change::LargerChunks => {
                format!("{chunks}: the calls cost more than the work; use larger chunks")
            }
            Change::SmallerChunks if is_user => {
                format!("{chunks} can hardly overlap; use a smaller --chunk, or leave it out")
            }
            Change::SmallerChunks => format!("{chunks} can hardly overlap; use smaller chunks"),
            Change::MoreSlots if is_user => {
                "with one slot nothing overlaps; use a larger --depth, or leave it out".to_owned()
            }
            Change::MoreSlots => "with one slot nothing overlaps; use more slots".to_owned(),
            Change::NoSync if is_user => "the run waits until the disk has the output; with \
                                          --no-sync the run does not wait, but a loss of power may \
                                          lose rows"
                .to_owned(),
            Change::NoSync => {
                "the run waits for `Sink::finish`; do less in `finish`, or do that work after the \
                 run"
                .to_owned()
            }
            Change::FasterInput => {
                faster("input comes", rate(self.bytes_in, busy("reader")), "source")
            }
            Change::FasterOutput => {
                faster("output goes", rate(self.bytes_out, busy("writer")), "sink")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::describe::builder::Pipeline;
    use crate::pipeline::report::EngineReport;
    use crate::pipeline::rows_of;
    use crate::stream::{Device, Select};

    const WORK: EngineWork =
        EngineWork { reader: 20, copies_and_kernels: [30, 100, 30], writer: 40, chunks: 10 };

    #[test]
    fn a_run_takes_its_busiest_engine_and_a_chunk_of_the_others() {
        assert_eq!(WORK.time(1, 3), 220, "nothing overlaps");
        assert_eq!(WORK.time(10, 3), 100 + 120 / 10);
        assert_eq!(WORK.time(10, 1), 160 + 60 / 10, "the engines of the device work in turn");
    }

    #[test]
    fn a_faster_engine_saves_time_only_if_it_is_the_busiest() {
        assert_eq!(WORK.without(100), 60);
        assert_eq!(WORK.without(40), 0);
    }

    /// A traced run of 10 us that only waits for its disk, for `sync` nanoseconds.
    fn waiting_for_the_disk(sync: u64) -> Report {
        let device = Device::open(Select::Host(0)).expect("a host device");
        let mut results: Vec<u8> = Vec::new();
        let pipeline = Pipeline::on(&device).source(rows_of(vec![0_u8; 80], 10));
        let pipeline = pipeline.audience(Audience::User).sink(&mut results);
        let mut report = pipeline.run().expect("the pipeline runs");
        let busy = Nanos(sync);
        report.engines =
            vec![EngineReport { name: "sync", busy, isolated: None, contention: None }];
        (report.elapsed, report.limit) = (Nanos(10_000), None);
        report
    }

    /// Once, a report had no advice about the largest cost of short runs, the wait for the disk.
    #[test]
    fn a_run_that_waits_for_its_disk_for_a_hundredth_of_its_time_is_told_of_no_sync() {
        for sync in [100, 101, 9_999, 10_000] {
            let report = waiting_for_the_disk(sync);
            let [advice] = &report.advice()[..] else { panic!("{:?}", report.advice()) };
            assert_eq!((advice.change, advice.saves), (Change::NoSync, Nanos(sync)));
            assert!(advice.text.contains("--no-sync"), "{advice}");
            assert!(report.brief().ends_with(&format!("to do: {advice}")), "{}", report.brief());
        }
        for sync in [0, 99] {
            assert_eq!(waiting_for_the_disk(sync).advice(), [], "{sync} ns of 10 us");
        }
    }
}
