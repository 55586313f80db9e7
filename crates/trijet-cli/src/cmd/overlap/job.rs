//! The job of the demonstration, and its runs under each schedule.
#![forbid(unsafe_code)]

use super::stack::{Pixel, Stack};
use trijet::kernels::median::{Rows, median};
use trijet::pipeline::{Calibration, Pipeline, Report, Schedule};
use trijet::{Bytes, Device, Nanos, PinnedBuffer, Result, Stream, TimesFrom, View, ViewMut};
use trijet_cli::digest::Digest;

/// Chunks so large that the kernels' fixed costs do not count.
const LARGE_CHUNK: Bytes = Bytes(256 << 20);

/// The outcome of one schedule.
pub(super) struct Line {
    pub(super) report: Report,
    pub(super) hash: Digest,
}

/// What is run, how often, and on what.
pub(super) struct Job<T> {
    pub(super) device: Device,
    pub(super) stack: Stack<T>,
    pub(super) result: PinnedBuffer<T>,
    pub(super) radius: u32,
    pub(super) chunk: Bytes,
    pub(super) depth: usize,
    pub(super) times: TimesFrom,
    pub(super) calibration: Calibration,
}

/// The work on one chunk.
fn clean<T: Pixel>(
    s: &Stream,
    radius: u32,
    rows: Rows,
    x: View<'_, T>,
    y: ViewMut<'_, T>,
) -> Result<()> {
    let mut scratch = s.alloc::<T>(y.len())?;
    median(s, radius, rows, x, scratch.view_mut())?;
    let (scale, offset) = T::CONTRAST;
    s.launch(T::stretch(), (scale, offset, &scratch, y))
}

impl<T: Pixel> Job<T> {
    pub(super) fn words(&self) -> String {
        let s = &self.stack;
        format!(
            "{}: median of radius {} and contrast, {} images of {} x {} ({} bit), {}",
            s.name,
            self.radius,
            s.count,
            s.width,
            s.height,
            size_of::<T>() * 8,
            Bytes(s.data.len() * size_of::<T>() as u64),
        )
    }

    pub(super) fn pipeline(&mut self, schedule: Schedule) -> Pipeline<'_> {
        let (width, height, radius) = (self.stack.width, self.stack.height, self.radius);
        let mut pipeline = Pipeline::on(&self.device)
            .pinned_source(&self.stack.data, u64::from(width))
            .halo(u64::from(radius))
            .stage::<T, T>(move |s, x, y| {
                let (first_out, first_in) = (s.chunk().rows.start, s.chunk().input.start);
                clean(s, radius, Rows { width, height, first_out, first_in }, x, y)
            })
            .pinned_sink(&mut self.result)
            .schedule(schedule)
            .times(self.times)
            .calibrated(&self.calibration);
        if schedule != Schedule::Tuned {
            let depth = if schedule == Schedule::OneStream { 1 } else { self.depth };
            pipeline = pipeline.chunk(self.chunk).depth(depth);
        }
        pipeline
    }

    /// Runs once into spoilt memory and digests the result.
    fn verified(&mut self, schedule: Schedule) -> Result<Digest> {
        self.result.write()?.fill(T::SPOILT);
        self.pipeline(schedule).unrecorded().run()?;
        Ok(Digest::of(bytemuck::cast_slice(&self.result.read()?)))
    }

    /// The kernels' time in one stream, where nothing runs beside them: with the chunks of the
    /// comparison or with large ones, whichever is less, since a bound is asked for.
    fn kernels_alone(&mut self, report: &Report) -> Result<Nanos> {
        let chunk = std::mem::replace(&mut self.chunk, LARGE_CHUNK);
        let large = self.pipeline(Schedule::OneStream).run();
        self.chunk = chunk;
        // What the large chunks needed is not the job's.
        self.device.pool_trim(Bytes(0))?;
        self.device.pool_reset_high()?;
        let work = |r: &Report| r.engine("compute").map_or(Nanos(0), |engine| engine.work());
        Ok(work(report).min(work(&large?)))
    }

    /// Times each schedule `repeats` times, in turn, without records; the median counts. One more
    /// run of each with records gives its engines and its timeline.
    pub(super) fn compare(&mut self, repeats: u32) -> Result<Vec<Line>> {
        let schedules =
            [Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned];
        let hashes: Vec<Digest> =
            schedules.into_iter().map(|s| self.verified(s)).collect::<Result<_>>()?;
        let mut times: Vec<Vec<Nanos>> = schedules.iter().map(|_| Vec::new()).collect();
        for _ in 0..repeats {
            for (schedule, times) in schedules.into_iter().zip(&mut times) {
                times.push(self.pipeline(schedule).unrecorded().run()?.elapsed);
            }
        }
        let mut lines = Vec::new();
        let mut alone = Nanos(0);
        for ((schedule, mut times), hash) in schedules.into_iter().zip(times).zip(hashes) {
            let mut report = self.pipeline(schedule).run()?;
            if schedule == Schedule::OneStream {
                alone = self.kernels_alone(&report)?;
            }
            times.sort_unstable();
            // Data lie in page-locked memory, so the record has every access of the run.
            report = report.with_kernels_alone(alone).checked().timed(times[times.len() / 2]);
            lines.push(Line { report, hash });
        }
        Ok(lines)
    }
}
