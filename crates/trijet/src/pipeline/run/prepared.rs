//! A pipeline that is made once and runs many times, between page-locked buffers.
//!
//! A prepared pipeline keeps its streams, its slots and its plan. A run enqueues the chunks and
//! waits for them. It makes no allocation and no other call of the driver. When a pipeline is
//! prepared, plans are measured in whole runs. So small jobs are tuned too.
#![forbid(unsafe_code)]

use super::allocate::Resources;
use super::choose::{Tried, choose};
use super::pass::pass;
use super::replayer::{Ends, Recorder, Replayer, Stop};
use crate::base::error::Result;
use crate::memory::{Element, PinnedBuffer, View};
use crate::pipeline::describe::builder::{Input, Output, Pipeline, invalid};
use crate::pipeline::describe::replay::{Replay, Replayed};
use crate::pipeline::describe::sharing::Sharing;
use crate::pipeline::describe::stage::Stages;
use crate::pipeline::describe::validate::Job;
use crate::pipeline::plan::Plan;
#[cfg(doc)]
use crate::pipeline::plan::schedule::Schedule;
use crate::stream::Device;
use std::fmt;
use std::marker::PhantomData;

/// A pipeline that is ready to run many times, between page-locked buffers of fixed lengths.
///
/// ```
/// use trijet::kernels::AFFINE_F32;
/// use trijet::{Device, Pipeline, Select};
/// let device = Device::open(Select::Host(0))?;
/// let (mut x, mut y) = (device.pinned::<f32>(6000)?, device.pinned::<f32>(6000)?);
/// let mut double = Pipeline::on(&device)
///     .stage::<f32, f32>(|s, x, y| s.launch(&AFFINE_F32, (2.0f32, 0.0f32, x, y)))
///     .prepare(&x, &mut y, 10)?;
/// for request in 0..5 {
///     x.write()?.fill(request as f32);
///     double.run(&x, &mut y)?;
///     assert_eq!(y.read()?[5999], 2.0 * request as f32);
/// }
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct Prepared<'a, T, U> {
    device: Device,
    sharing: Sharing,
    stages: Stages<'a>,
    resources: Resources,
    /// Memory that the stages read in addition to their input.
    reads: Vec<View<'a, u8>>,
    replayer: Replayer,
    /// The number of elements of the input and of the results.
    lens: (usize, usize),
    tried: Vec<Tried>,
    elements: PhantomData<fn(&T) -> U>,
}

impl<T, U> fmt::Debug for Prepared<'_, T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("plan", &self.resources.plan).finish_non_exhaustive()
    }
}

impl<'a> Pipeline<'a> {
    /// Prepares the pipeline for many runs over page-locked data of the same lengths as `x` and
    /// `y`, in rows of `row_len` elements. The pipeline needs no source and no sink. A source or a
    /// sink of the pipeline is ignored.
    ///
    /// A tuned pipeline on a GPU is measured: `prepare` computes `y` from `x` in several ways, for
    /// at most 2 seconds, and keeps the fastest way. The content of `y` is then unspecified. One of
    /// the ways is [`Schedule::InPlace`], which needs no copies. A [chunk size](Self::chunk) or
    /// [depth](Self::depth) that was set is kept. A pipeline with another schedule than
    /// [`Schedule::Tuned`] is not measured.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run).
    pub fn prepare<T: Element, U: Element>(
        self,
        x: &PinnedBuffer<T>,
        y: &mut PinnedBuffer<U>,
        row_len: usize,
    ) -> Result<Prepared<'a, T, U>> {
        let (len_in, len_out) = (x.len(), y.len());
        let mut job = Job::between(self, Input::pinned(x, row_len), Output::pinned(y))?;
        let (sharing, schedule) = (job.settings.sharing, job.settings.plan.schedule);
        let mut replayer = Replayer::new(job.settings.replay, sharing, schedule);
        if let (Replay::Fixed, Replayer::Off(why)) = (job.settings.replay, &replayer) {
            return Err(invalid(why.clone()));
        }
        let (mut resources, tried) = choose(&mut job)?;
        let Job { device, input, output, stages, settings, .. } = job;
        if settings.replay == Replay::Fixed
            && let (Input::Pinned { bytes: input, .. }, Output::Pinned { target: output, .. }) =
                (input, output)
        {
            let mut ends = Ends { input, output, reads: &settings.reads };
            let recorder = Recorder::new(&device, sharing, &resources, Replay::Fixed)?;
            let graph = recorder.graph(Replay::Fixed, &mut resources, &stages, &mut ends);
            replayer = Replayer::Fixed(graph.map_err(Stop::into_error)?);
        }
        let (reads, elements) = (settings.reads, PhantomData);
        let lens = (len_in, len_out);
        Ok(Prepared { device, sharing, stages, resources, reads, replayer, lens, tried, elements })
    }
}

impl<T: Element, U: Element> Prepared<'_, T, U> {
    /// Computes `y` from `x`, and returns when every operation has ended.
    ///
    /// # Errors
    /// `InvalidValue` if `x` or `y` has another length than in `prepare`, or is at an address that
    /// [`Replay::Fixed`] does not allow; the error of a stage, with its chunk; an error of the
    /// driver. After an error nothing more is enqueued, and the run waits for everything that was
    /// enqueued.
    pub fn run(&mut self, x: &PinnedBuffer<T>, y: &mut PinnedBuffer<U>) -> Result<()> {
        if (x.len(), y.len()) != self.lens {
            let (x, y, (len_in, len_out)) = (x.len(), y.len(), self.lens);
            return Err(invalid(format!(
                "the pipeline was prepared for {len_in} input elements and {len_out} results, \
                 but the buffers have {x} and {y} elements"
            )));
        }
        let Self { device, sharing, stages, resources, reads, replayer, .. } = self;
        let input = x.view().as_bytes();
        let ends = Ends { input, output: y.view_mut().into_bytes(), reads };
        if replayer.run(device, *sharing, resources, stages, ends)? {
            return Ok(());
        }
        pass(resources, stages, input, y.view_mut().into_bytes())
    }
}

impl<T, U> Prepared<'_, T, U> {
    /// The plan of every run.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.resources.plan
    }

    /// Whether the last run was a launch of a graph, see [`Pipeline::replay`].
    #[must_use]
    pub fn replayed(&self) -> Replayed {
        self.replayer.state()
    }

    /// The schedules, chunk sizes and numbers of slots that were measured, including the chosen
    /// combination. Empty if nothing was measured.
    #[must_use]
    pub fn tried(&self) -> &[Tried] {
        &self.tried
    }
}
