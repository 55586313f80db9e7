//! The job of `trijet overlap`, and its runs under each schedule.
#![forbid(unsafe_code)]

use super::stack::{Pixel, Stack};
use trijet::kernels::median::{Rows, median};
use trijet::pipeline::{Calibration, Schedule};
use trijet::trace::TimesFrom;
use trijet::trace::summary::Audience;
use trijet::{Bytes, Device, Nanos, PinnedBuffer, Pipeline, Report, Result, Stream, View, ViewMut};
use trijet_cli::digest::Digest;

/// A chunk size for which the fixed costs of kernels are negligible.
const LARGE_CHUNK: Bytes = Bytes(256 << 20);

/// The result of one schedule.
pub(super) struct ScheduleResult {
    pub(super) report: Report,
    pub(super) digest: Digest,
}

/// The input, the parameters and the device of the job.
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

/// Enqueues the kernels for one chunk.
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
    pub(super) fn description(&self) -> String {
        let s = &self.stack;
        format!(
            "{}: median of radius {} and contrast, {} images of {} x {} ({} bit), {}",
            s.name,
            self.radius,
            s.count,
            s.width,
            s.height,
            size_of::<T>() * 8,
            Bytes((s.data.len() * size_of::<T>()) as u64),
        )
    }

    pub(super) fn pipeline(&mut self, schedule: Schedule) -> Pipeline<'_> {
        let (width, height, radius) = (self.stack.width, self.stack.height, self.radius);
        let mut pipeline = Pipeline::on(&self.device)
            .pinned_source(&self.stack.data, width as usize)
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

    /// Runs the job once over overwritten memory, and returns the digest of the result.
    fn digest_of_run(&mut self, schedule: Schedule) -> Result<Digest> {
        self.result.write()?.fill(T::SENTINEL);
        self.pipeline(schedule).untraced().run()?;
        Ok(Digest::of(bytemuck::cast_slice(&self.result.read()?)))
    }

    /// The time of the kernels in one stream, where nothing else runs. It is the smaller of the
    /// times with the chunks of the comparison and with large chunks, because it becomes a bound.
    fn kernels_alone(&mut self, report: &Report) -> Result<Nanos> {
        let chunk = std::mem::replace(&mut self.chunk, LARGE_CHUNK);
        let large = self.pipeline(Schedule::OneStream).run();
        self.chunk = chunk;
        // The pool statistics of the job must not include the large chunks.
        self.device.pool_trim(Bytes(0))?;
        self.device.pool_reset_high()?;
        let work = |r: &Report| r.engine("compute").map_or(Nanos(0), |engine| engine.work());
        Ok(work(report).min(work(&large?)))
    }

    /// Times each schedule `repeats` times, alternating between the schedules and without a trace,
    /// and takes the median. One more run of each schedule is traced for its engines and its
    /// timeline.
    pub(super) fn compare(&mut self, repeats: u32) -> Result<Vec<ScheduleResult>> {
        let schedules =
            [Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned];
        let digests: Vec<Digest> =
            schedules.into_iter().map(|s| self.digest_of_run(s)).collect::<Result<_>>()?;
        let mut times: Vec<Vec<Nanos>> = schedules.iter().map(|_| Vec::new()).collect();
        for _ in 0..repeats {
            for (schedule, times) in schedules.into_iter().zip(&mut times) {
                times.push(self.pipeline(schedule).untraced().run()?.elapsed);
            }
        }
        let mut results = Vec::new();
        let mut alone = Nanos(0);
        for ((schedule, mut times), digest) in schedules.into_iter().zip(times).zip(digests) {
            let audience = match schedule {
                Schedule::Tuned => Audience::UserOfTuned,
                _ => Audience::User,
            };
            let mut report = self.pipeline(schedule).run()?.for_audience(audience);
            if schedule == Schedule::OneStream {
                alone = self.kernels_alone(&report)?;
            }
            times.sort_unstable();
            // All data are in page-locked memory, so the trace contains every access of the run.
            report = report.with_kernels_alone(alone).checked().timed(times[times.len() / 2]);
            results.push(ScheduleResult { report, digest });
        }
        Ok(results)
    }
}
