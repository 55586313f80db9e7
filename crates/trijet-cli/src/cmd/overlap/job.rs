//! The job of `trijet overlap`, and its runs under each schedule.
#![forbid(unsafe_code)]

use super::stack::{Images, Pixel};
use crate::digest::Digest;
use std::time::Duration;
use trijet::kernels::median::{Rows, median};
use trijet::pipeline::{Calibration, Schedule};
use trijet::trace::summary::Audience;
use trijet::trace::{TimesFrom, count as counted};
use trijet::{
    Bytes, Clock, Device, Nanos, PinnedBuffer, Pipeline, Report, Result, Stream, View, ViewMut,
};
use trijet_tools::progress::Steps;

/// A chunk size at which the fixed costs of kernels are negligible.
const LARGE_CHUNK: Bytes = Bytes(256 << 20);

/// The schedules in the order of the table.
const SCHEDULES: [Schedule; 4] =
    [Schedule::OneStream, Schedule::SlotStreams, Schedule::RoleStreams, Schedule::Tuned];

/// The result of one schedule.
pub(super) struct ScheduleResult {
    pub(super) report: Report,
    pub(super) digest: Digest,
}

/// The input, the parameters and the device of the job.
pub(super) struct Job<T> {
    pub(super) device: Device,
    pub(super) images: Images,
    pub(super) data: PinnedBuffer<T>,
    pub(super) result: PinnedBuffer<T>,
    pub(super) radius: u32,
    pub(super) chunk: Bytes,
    pub(super) depth: usize,
    pub(super) times: TimesFrom,
    pub(super) calibration: Calibration,
    /// The number of times that the whole stack was computed.
    pub(super) passes: u32,
}

fn is_modelled(device: &Device) -> bool {
    device.info().clock == Clock::Model
}

/// The number of untraced runs of each schedule: one run for warm-up, and `repeats` timed runs. The
/// number is 0 on a model, because modelled times do not vary and the traced run is enough.
fn timed_runs(device: &Device, repeats: u32) -> u32 {
    if is_modelled(device) { 0 } else { 1 + repeats }
}

/// The number of progress steps that [`Job::compare`] shows.
pub(super) fn steps(device: &Device, repeats: u32) -> u64 {
    u64::from(timed_runs(device, repeats)) + SCHEDULES.len() as u64
}

/// The job in words.
pub(super) fn description<T: Pixel>(images: &Images, radius: u32) -> String {
    let Images { name, width, height, count } = images;
    let (bits, images_of) = (size_of::<T>() * 8, counted(*count, "image"));
    let bytes = Bytes(images.pixels().saturating_mul(size_of::<T>() as u64));
    format!(
        "{name}: median of radius {radius} and contrast, {images_of} of {width} x {height} ({bits} bit), \
         {bytes}"
    )
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
    median(s, x, scratch.view_mut(), rows, radius)?;
    let (scale, offset) = T::CONTRAST;
    s.launch(T::stretch(), (scale, offset, &scratch, y))
}

impl<T: Pixel> Job<T> {
    pub(super) fn description(&self) -> String {
        description::<T>(&self.images, self.radius)
    }

    /// The pipeline over the whole stack with this schedule.
    pub(super) fn pipeline(&mut self, schedule: Schedule) -> Pipeline<'_> {
        let (width, height, radius) = (self.images.width, self.images.height, self.radius);
        self.passes += 1;
        let mut pipeline = Pipeline::on(&self.device)
            .pinned_source(&self.data, width as usize)
            .stage::<T, T>(move |s, x, y| {
                let (first_out, first_in) = (s.y_rows().start, s.x_rows().start);
                clean(s, radius, Rows { width, height, first_out, first_in }, x, y)
            })
            .halo(u64::from(radius))
            .pinned_sink(&mut self.result)
            .schedule(schedule)
            .times(self.times)
            .calibrated(&self.calibration)
            .audience(Audience::User);
        if schedule != Schedule::Tuned {
            let depth = if schedule == Schedule::OneStream { 1 } else { self.depth };
            pipeline = pipeline.chunk(self.chunk).depth(depth);
        }
        pipeline
    }

    /// The time of all kernels in one stream, while nothing else runs. The result is used as a
    /// lower bound, so it is the smaller of two times: with the chunks of `report`, and with large
    /// chunks.
    fn kernels_alone(&mut self, report: &Report) -> Result<Nanos> {
        let work = |r: &Report| r.engine("compute").map_or(Nanos(0), |engine| engine.work());
        let chunk = std::mem::replace(&mut self.chunk, LARGE_CHUNK);
        let large = self.pipeline(Schedule::OneStream).run();
        self.chunk = chunk;
        // The memory statistics of the job must not include the large chunks.
        self.device.trim_memory(Bytes(0))?;
        self.device.reset_memory_high()?;
        Ok(work(report).min(work(&large?)))
    }

    /// The sentence about the work of the processor, if the times are modelled.
    pub(super) fn computed(&self, took: Duration) -> Option<String> {
        let (passes, seconds) = (self.passes, took.as_secs_f64());
        is_modelled(&self.device).then(|| {
            format!(
                "this machine's processor computed the stack {passes} times, in {seconds:.1} s; the \
                 times below come from the model"
            )
        })
    }

    /// Runs each schedule `repeats` times without a trace, alternating between the schedules, and
    /// takes the median time. Then runs each schedule once with a trace, for the figures of its
    /// engines and for its timeline. The result is overwritten before the traced run. The digest of
    /// the new result is computed after the run.
    pub(super) fn compare(
        &mut self,
        repeats: u32,
        steps: &mut Steps<'_>,
    ) -> Result<Vec<ScheduleResult>> {
        let mut times: Vec<Vec<Nanos>> = SCHEDULES.iter().map(|_| Vec::new()).collect();
        for round in 0..timed_runs(&self.device, repeats) {
            match round {
                0 => steps.begin("warming up"),
                _ => steps.begin(&format!("timing the schedules, {round} of {repeats}")),
            }
            for (schedule, times) in SCHEDULES.into_iter().zip(&mut times) {
                let elapsed = self.pipeline(schedule).untraced().run()?.elapsed;
                if round > 0 {
                    times.push(elapsed);
                }
            }
        }
        let mut results = Vec::new();
        let mut alone = Nanos(0);
        for (schedule, mut times) in SCHEDULES.into_iter().zip(times) {
            steps.begin(&format!("computing and tracing: {}", schedule.name()));
            self.result.write()?.fill(T::SENTINEL);
            let mut report = self.pipeline(schedule).run()?;
            let digest = Digest::of(bytemuck::cast_slice(&self.result.read()?));
            if schedule == Schedule::OneStream {
                alone = self.kernels_alone(&report)?;
            }
            // All data are in page-locked memory, so the trace contains every access of the run.
            report = report.with_kernels_alone(alone).checked();
            times.sort_unstable();
            if let Some(median) = times.get(times.len() / 2) {
                report = report.timed(*median);
            }
            results.push(ScheduleResult { report, digest });
        }
        Ok(results)
    }
}
