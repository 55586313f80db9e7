//! The description of a pipeline by its user.
#![forbid(unsafe_code)]

use super::cancel::Cancel;
use super::host_work::HostWork;
use super::progress::{OnProgress, Progress};
use super::replay::Replay;
use super::sharing::Sharing;
use super::sink::Sink;
use super::source::{Blocks, Source};
use super::stage::{Stage, StageCx};
use crate::base::audience::Audience;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::times::TimesFrom;
use crate::base::units::Bytes;
use crate::memory::ElementKind;
use crate::memory::{AsView, Buffer, Element, PageLocked, PinnedBuffer, View, ViewMut};
use crate::pipeline::plan::calibrate::Calibration;
use crate::pipeline::plan::layout::Layout;
use crate::pipeline::plan::reach::{Reach, StageRows};
use crate::pipeline::plan::schedule::Schedule;
use crate::pipeline::plan::{ChunkChoice, Plan, PlanOptions, Ramp, step};
use crate::stream::Device;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;

pub(in crate::pipeline) enum Input<'a> {
    Source(Box<dyn Source + 'a>),
    Pinned { bytes: View<'a, u8>, layout: Layout },
}

pub(in crate::pipeline) enum Output<'a> {
    Sink(Box<dyn Sink + 'a>),
    Pinned { target: ViewMut<'a, u8>, element: ElementKind },
}

/// A pipeline: source, stages, sink.
///
/// ```
/// use trijet::kernels::AXPY;
/// use trijet::Pipeline;
/// use trijet::pipeline::rows_of;
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let x = vec![2.0f32; 6000];
/// let mut y: Vec<f32> = Vec::new();
/// let report = Pipeline::on(&device)
///     .source(rows_of(&x, 10))
///     .stage(|s, x, mut y| {
///         s.fill_bytes(&mut y, 0)?;
///         s.launch(&AXPY, (1.5f32, x, y))
///     })
///     .sink(&mut y)
///     .run()?;
/// assert_eq!(y, vec![3.0; 6000]);
/// assert_eq!(report.rows, 600);
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct Pipeline<'a> {
    pub(in crate::pipeline) device: Device,
    pub(in crate::pipeline) input: Option<Input<'a>>,
    pub(in crate::pipeline) stages: Vec<Stage<'a>>,
    pub(in crate::pipeline) output: Option<Output<'a>>,
    pub(in crate::pipeline) settings: PipelineSettings<'a>,
    /// The description of a wrong call on this builder. A run returns an error with this
    /// description.
    mistake: Option<&'static str>,
}

/// The settings of a pipeline.
pub(in crate::pipeline) struct PipelineSettings<'a> {
    pub(in crate::pipeline) plan: PlanOptions,
    pub(in crate::pipeline) host_work: HostWork,
    pub(in crate::pipeline) cancel: Cancel,
    pub(in crate::pipeline) progress: Option<OnProgress<'a>>,
    pub(in crate::pipeline) calibration: Option<Calibration>,
    pub(in crate::pipeline) traced: Traced,
    pub(in crate::pipeline) audience: Audience,
    pub(in crate::pipeline) host_memory: Option<Bytes>,
    pub(in crate::pipeline) times: TimesFrom,
    pub(in crate::pipeline) drop_wait: Option<u64>,
    pub(in crate::pipeline) sharing: Sharing,
    pub(in crate::pipeline) replay: Replay,
    /// Memory that stages read in addition to their input.
    pub(in crate::pipeline) reads: Vec<View<'a, u8>>,
    /// The file that stores the choices of `prepare`, and the name of the job in the file.
    pub(in crate::pipeline) remember: Option<(PathBuf, String)>,
}

/// Whether the operations of a run are traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::pipeline) enum Traced {
    Yes,
    No,
    /// The operations are not traced, because the trace would exceed the memory that the run may
    /// use.
    TooLarge,
}

impl Default for PipelineSettings<'_> {
    fn default() -> Self {
        Self {
            plan: PlanOptions {
                schedule: Schedule::default(),
                chunk: None,
                step: 1,
                chunk_choice: ChunkChoice::default(),
                ramp: Ramp::Flat,
                depth: None,
                todo: std::iter::once(0..u64::MAX).collect(),
            },
            host_work: HostWork::default(),
            cancel: Cancel::default(),
            progress: None,
            calibration: None,
            traced: Traced::Yes,
            audience: Audience::default(),
            host_memory: None,
            times: TimesFrom::Events,
            drop_wait: None,
            sharing: Sharing::default(),
            replay: Replay::default(),
            reads: Vec::new(),
            remember: None,
        }
    }
}

impl fmt::Debug for Pipeline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipeline").field("plan", &self.settings.plan).finish_non_exhaustive()
    }
}

impl<'a> Pipeline<'a> {
    /// A pipeline on a device.
    #[must_use]
    pub fn on(device: &Device) -> Self {
        Self {
            device: device.clone(),
            input: None,
            stages: Vec::new(),
            output: None,
            settings: PipelineSettings::default(),
            mistake: None,
        }
    }

    /// Sets the source of the data: a slice ([`rows_of`](crate::pipeline::rows_of)), an iterator
    /// ([`rows_from_iter`](crate::pipeline::rows_from_iter)), a function
    /// ([`rows_from_fn`](crate::pipeline::rows_from_fn)), or another [`Source`].
    #[must_use]
    pub fn source(mut self, source: impl Source + 'a) -> Self {
        self.input = Some(Input::Source(Box::new(source)));
        self
    }

    /// Uses data in page-locked memory as the source, in rows of `row_len` elements. The data are
    /// uploaded directly, without a copy within the host.
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut x = device.pinned::<u32>(6000)?;
    /// x.write()?.fill(7);
    /// let mut y = device.pinned::<u32>(6000)?;
    /// Pipeline::on(&device).pinned_source(&x, 10).pinned_sink(&mut y).run()?;
    /// assert_eq!(*y.read()?, *x.read()?);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn pinned_source<T: Element>(mut self, data: &'a PinnedBuffer<T>, row_len: usize) -> Self {
        self.input = Some(Input::pinned(data, row_len));
        self
    }

    /// Appends a stage: a function that enqueues kernels. The kernels compute `y` from `x`. The
    /// rows of `x` come from the source, or from the previous stage. `y` has the rows
    /// [`StageCx::y_rows`]. `x` has the same rows, and the [halo](Self::halo) of the stage around
    /// them. A row of `y` has as many elements as a row of `x`. A stage that writes other rows
    /// states them with [`output_rows`](Self::output_rows). Before the first chunk, the function is
    /// called with an empty chunk. This call loads the kernels.
    #[must_use]
    #[track_caller]
    pub fn stage<T: Element, U: Element>(
        mut self,
        run: impl Fn(&StageCx<'_>, View<'_, T>, ViewMut<'_, U>) -> Result<()> + 'a,
    ) -> Self {
        self.stages.push(Stage::new(run));
        self
    }

    /// Lets the stage that was appended last read `rows` rows before, and `rows` rows after, the
    /// rows that the stage writes. At the start and at the end of the data there are fewer rows to
    /// read.
    ///
    /// Each stage may have a halo. A stage before a stage with a halo also computes the rows in
    /// that halo. So the bytes are the same as if the stages ran one after another, each over all
    /// data.
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::pipeline::{StageCx, rows_of};
    /// use trijet::{Bytes, Device, Result, Select, View, ViewMut};
    /// /// Gives each row the value of the row before it; the first row keeps its own.
    /// fn shift(s: &StageCx<'_>, x: View<'_, u32>, mut y: ViewMut<'_, u32>) -> Result<()> {
    ///     let first = s.x_rows().start;
    ///     for (n, row) in s.y_rows().enumerate() {
    ///         let from = (row.saturating_sub(1) - first) as usize;
    ///         s.copy(&x.slice(from..from + 1), &mut y.reborrow().slice(n..n + 1))?;
    ///     }
    ///     Ok(())
    /// }
    /// let device = Device::open(Select::Host(0))?;
    /// let mut moved: Vec<u32> = Vec::new();
    /// let report = Pipeline::on(&device)
    ///     .source(rows_of([0u32, 1, 2, 3, 4, 5], 1))
    ///     .stage(shift)
    ///     .halo(1)
    ///     .stage(shift)
    ///     .halo(1)
    ///     .sink(&mut moved)
    ///     .chunk(Bytes(8))
    ///     .run()?;
    /// assert_eq!(moved, [0, 0, 0, 1, 2, 3]);
    /// // Two rows are written from up to two rows on each side.
    /// assert_eq!(report.plan.chunks[1].input, 0..6);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn halo(mut self, rows: u64) -> Self {
        match self.stages.last_mut() {
            Some(stage) => stage.rows = StageRows::Same { halo: rows },
            None => {
                self.mistake = Some(
                    "`halo` was called before `stage`; call it after the stage that reads the halo",
                );
            }
        }
        self
    }

    /// Sets the rows that the stage appended last writes, for a stage that writes other rows than
    /// it reads. `output` is the layout of these rows. Its granule is the number of rows at whose
    /// multiples the stage starts. `input_rows` returns the rows of the input that some rows of the
    /// output need, for example the two rows `2 * y` and `2 * y + 1` for each row `y`. For later
    /// rows of the output, it must return rows that start and end at the same rows or later. Rows
    /// that the input does not have are left out. This setting replaces a [halo](Self::halo).
    ///
    /// ```
    /// use trijet::Pipeline;
    /// use trijet::pipeline::{Layout, StageCx, rows_of};
    /// use trijet::{Bytes, Device, Result, Select, View, ViewMut};
    /// /// Keeps every second row.
    /// fn halve(s: &StageCx<'_>, x: View<'_, u32>, mut y: ViewMut<'_, u32>) -> Result<()> {
    ///     let first = s.x_rows().start;
    ///     for (n, row) in s.y_rows().enumerate() {
    ///         let from = (2 * row - first) as usize;
    ///         s.copy(&x.slice(from..from + 1), &mut y.reborrow().slice(n..n + 1))?;
    ///     }
    ///     Ok(())
    /// }
    /// let device = Device::open(Select::Host(0))?;
    /// let mut kept: Vec<u32> = Vec::new();
    /// Pipeline::on(&device)
    ///     .source(rows_of([0u32, 1, 2, 3, 4, 5, 6], 1))
    ///     .stage(halve)
    ///     .output_rows(Layout::of::<u32>(4, 1), |y| 2 * y.start..2 * y.end)
    ///     .sink(&mut kept)
    ///     .chunk(Bytes(8))
    ///     .run()?;
    /// assert_eq!(kept, [0, 2, 4, 6]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn output_rows(
        mut self,
        output: Layout,
        input_rows: impl Fn(Range<u64>) -> Range<u64> + 'a,
    ) -> Self {
        match self.stages.last_mut() {
            Some(stage) => {
                stage.rows = StageRows::Other { output, input_rows: Rc::new(input_rows) };
            }
            None => {
                self.mistake = Some(
                    "`output_rows` was called before `stage`; call it after the stage whose rows \
                     it describes",
                );
            }
        }
        self
    }

    /// Sets the target of the results: a `&mut Vec`, a `&mut` slice, a function
    /// ([`rows_to_fn`](crate::pipeline::rows_to_fn)), or another [`Sink`]. A run appends the
    /// results at the end of a `Vec`.
    #[must_use]
    pub fn sink(mut self, sink: impl Sink + 'a) -> Self {
        self.output = Some(Output::Sink(Box::new(sink)));
        self
    }

    /// Uses page-locked memory as the target of the results. Each row is written at its index. A
    /// run refuses memory that is too short for all rows.
    #[must_use]
    pub fn pinned_sink<T: Element>(mut self, data: &'a mut Buffer<T, PageLocked>) -> Self {
        self.output = Some(Output::pinned(data));
        self
    }

    /// Sets how chunks share streams; [`Schedule::Tuned`] by default.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.settings.plan.schedule = schedule;
        self
    }

    /// Sets the size of a chunk's input in bytes. The size is rounded to whole rows. If the device
    /// has too little memory, a run halves the size until the chunks fit.
    #[must_use]
    pub fn chunk(mut self, bytes: Bytes) -> Self {
        self.settings.plan.chunk = Some(bytes);
        self.settings.plan.chunk_choice = ChunkChoice::Caller;
        self
    }

    /// Sets the number of slots, which is the maximum number of chunks in flight.
    #[must_use]
    pub fn depth(mut self, slots: usize) -> Self {
        self.settings.plan.depth = Some(slots);
        self
    }

    /// Sets how the run shares its device with other runs; [alone](Sharing::Alone) by default.
    /// Other values need a schedule with separate streams for copies. [`Sharing::Latency`] also
    /// works with a schedule without copies.
    ///
    /// ```
    /// use trijet::kernels::AFFINE_F32;
    /// use trijet::pipeline::Sharing;
    /// use trijet::{Device, Pipeline, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (mut x, mut y) = (device.pinned::<f32>(64)?, device.pinned::<f32>(64)?);
    /// let mut request = Pipeline::on(&device)
    ///     .stage::<f32, f32>(|s, x, y| s.launch(&AFFINE_F32, (2.0f32, 1.0f32, x, y)))
    ///     .sharing(Sharing::Latency)
    ///     .prepare(&x, &mut y, 8)?;
    /// x.write()?.fill(3.0);
    /// request.run(&x, &mut y)?;
    /// assert_eq!(y.read()?[63], 7.0);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.settings.sharing = sharing;
        self
    }

    /// Sets whether the runs of a [prepared](Self::prepare) pipeline are launches of a graph. By
    /// default, the runs are launches of a graph if a run has many short launches.
    /// [`run`](Self::run) ignores this setting.
    ///
    /// `prepare` returns `InvalidValue` for [`Replay::Fixed`] in two cases. The first case is
    /// [`Sharing::Bulk`], because a bulk run waits between operations. The second case is
    /// [`Sharing::Latency`] with any schedule except [`Schedule::InPlace`], because a graph does
    /// not copy in shared streams.
    ///
    /// ```
    /// use trijet::kernels::AFFINE_F32;
    /// use trijet::pipeline::Replay;
    /// use trijet::{Device, Pipeline, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (mut x, mut y) = (device.pinned::<f32>(640)?, device.pinned::<f32>(640)?);
    /// let mut job = Pipeline::on(&device)
    ///     .stage::<f32, f32>(|s, x, y| s.launch(&AFFINE_F32, (2.0f32, 1.0f32, x, y)))
    ///     .stage::<f32, f32>(|s, x, y| s.launch(&AFFINE_F32, (3.0f32, 0.0f32, x, y)))
    ///     .replay(Replay::Fixed)
    ///     .prepare(&x, &mut y, 8)?;
    /// x.write()?.fill(5.0);
    /// job.run(&x, &mut y)?;
    /// assert_eq!(y.read()?[639], 33.0);
    /// assert!(job.replayed().to_string().starts_with("replayed"));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn replay(mut self, replay: Replay) -> Self {
        self.settings.replay = replay;
        self
    }

    /// Declares memory that stages read in addition to their input, such as weights. The
    /// declaration is necessary only if runs are launches of a [graph](Self::replay).
    #[must_use]
    pub fn reads<V: AsView + ?Sized>(mut self, memory: &'a V) -> Self {
        self.settings.reads.push(memory.as_view().as_bytes());
        self
    }

    /// Stores in a file the result of the measurements of [`prepare`](Self::prepare) for this job.
    /// If the file already has a result for the job, nothing is measured. `name` identifies the
    /// kernels, because the library does not know what the kernels compute. A result is used only
    /// if the name, the device, its driver, the sharing, the rows and the settings are the same. A
    /// damaged file, or a file of another version of the library, counts as empty. A file with
    /// other content is kept, and `prepare` returns `InvalidValue`.
    ///
    /// ```
    /// use trijet::kernels::AFFINE_F32;
    /// use trijet::sim::{Executor, HostConfig, Order};
    /// use trijet::{Device, Pipeline};
    /// let executor = Executor::Virtual(Order::Greedy);
    /// let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
    /// let (x, mut y) = (device.pinned::<f32>(64)?, device.pinned::<f32>(64)?);
    /// let folder = tempfile::tempdir()?;
    /// let mut prepare = || {
    ///     Pipeline::on(&device)
    ///         .stage::<f32, f32>(|s, x, y| s.launch(&AFFINE_F32, (2.0f32, 1.0f32, x, y)))
    ///         .remember(folder.path().join("choices"), "2 x + 1")
    ///         .prepare(&x, &mut y, 8)
    /// };
    /// let first = prepare()?;
    /// let second = prepare()?;
    /// assert_eq!(first.plan(), second.plan());
    /// assert!(first.tried().len() > 1 && second.tried().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn remember(mut self, file: impl Into<PathBuf>, name: &str) -> Self {
        self.settings.remember = Some((file.into(), name.to_owned()));
        self
    }

    /// Limits the memory of the host that the run allocates: page-locked memory, and the trace of
    /// the chunks. Chunks are made smaller until the page-locked memory is within the limit. If
    /// page-locked memory and trace together exceed the limit, the run is
    /// [untraced](Self::untraced), and its report states this. There is no limit by default.
    #[must_use]
    pub fn host_memory(mut self, most: Bytes) -> Self {
        self.settings.host_memory = Some(most);
        self
    }

    /// Produces only these ranges of rows, for example the rows that an earlier run did not finish.
    /// The ranges are sorted and disjoint. A range begins and ends at a multiple of the
    /// [granule](Layout::granule), or at the end of the data.
    #[must_use]
    pub fn rows(mut self, todo: Vec<Range<u64>>) -> Self {
        self.settings.plan.todo = todo;
        self
    }

    /// Sets the threads that call the source and the sink. By default source and sink have a thread
    /// each.
    #[must_use]
    pub fn host_work(mut self, host_work: HostWork) -> Self {
        self.settings.host_work = host_work;
        self
    }

    /// Lets `cancel` stop the run between two chunks.
    #[must_use]
    pub fn cancel_with(mut self, cancel: &Cancel) -> Self {
        self.settings.cancel = cancel.clone();
        self
    }

    /// Calls `progress` after each finished chunk, one call at a time.
    #[must_use]
    pub fn on_progress(mut self, progress: impl Fn(Progress) + Sync + 'a) -> Self {
        self.settings.progress = Some(Box::new(progress));
        self
    }

    /// Sets the measured rates of the link between host and device. From these rates, the report
    /// computes the least time that copies and kernels need
    /// ([`Report::bound`](crate::Report::bound)). Without the rates, the report does not have this
    /// time.
    #[must_use]
    pub fn calibrated(mut self, calibration: &Calibration) -> Self {
        self.settings.calibration = Some(calibration.clone());
        self
    }

    /// Turns the trace of the operations off, which saves two events per operation. The report then
    /// has the elapsed time, but no engines.
    #[must_use]
    pub fn untraced(mut self) -> Self {
        self.settings.traced = Traced::No;
        self
    }

    /// Sets the reader of the report. Advice and timeline depend on the reader: source lines of the
    /// program are shown only to the author of the program. The default is [`Audience::Author`].
    #[must_use]
    pub fn audience(mut self, audience: Audience) -> Self {
        self.settings.audience = audience;
        self
    }

    /// Sets the source of the times of operations; pairs of events by default.
    #[must_use]
    pub fn times(mut self, from: TimesFrom) -> Self {
        self.settings.times = from;
        self
    }

    /// Leaves out one wait between streams of the run, to show what depends on the wait. `number`
    /// counts the waits of the run, starting with 1. See
    /// [`testing::drop_wait`](crate::testing::drop_wait).
    #[must_use]
    pub fn drop_wait(mut self, number: u64) -> Self {
        self.settings.drop_wait = Some(number);
        self
    }

    /// The plan that a run has if there is enough memory for this plan.
    ///
    /// # Errors
    /// `InvalidValue` when there is no source, the data of the source are not whole rows, the
    /// options do not fit the data, or [`halo`](Self::halo) was called before a stage was added.
    pub fn plan(&self) -> Result<Plan> {
        let layout = self.layout()?;
        let reach = Reach::new(layout, self.stages.iter().map(|stage| stage.rows.clone()))?;
        let results = reach.chunk_layout(layout)?;
        let block_rows = self.input.as_ref().and_then(Input::blocks).map(|blocks| blocks.rows);
        let step = step(block_rows, layout, results);
        let options = PlanOptions { step, ..self.settings.plan.clone() };
        Plan::new(results, &options, &reach, u64::MAX)
    }

    /// Checks the input and the calls on this builder, and returns the layout of the input.
    pub(in crate::pipeline) fn layout(&self) -> Result<Layout> {
        self.check_calls()?;
        match &self.input {
            Some(input) => input.layout(),
            None => Err(invalid("it has no source; call `source` or `pinned_source`")),
        }
    }

    /// Returns the error of a wrong call on this builder.
    pub(super) fn check_calls(&self) -> Result<()> {
        self.mistake.map_or(Ok(()), |mistake| Err(invalid(mistake)))
    }
}

impl<'a> Input<'a> {
    /// Page-locked data, as rows of `row_len` elements.
    pub(in crate::pipeline) fn pinned<T: Element>(
        data: &'a PinnedBuffer<T>,
        row_len: usize,
    ) -> Self {
        let rows = data.len().checked_div(row_len).unwrap_or(0) as u64;
        Self::Pinned { bytes: data.view().as_bytes(), layout: Layout::of::<T>(rows, row_len) }
    }

    /// The blocks of a source, if they have rows and several threads may decode them.
    pub(in crate::pipeline) fn blocks(&self) -> Option<Blocks> {
        let Self::Source(source) = self else { return None };
        let blocks = source.is_parallel().then(|| source.blocks()).flatten()?;
        (blocks.rows > 0 && blocks.count > 0).then_some(blocks)
    }

    /// Checks the layout, and returns it.
    pub(in crate::pipeline) fn layout(&self) -> Result<Layout> {
        let layout = match self {
            Input::Source(source) => {
                source.check()?;
                source.layout()
            }
            Input::Pinned { layout, .. } => *layout,
        };
        layout.check()?;
        if let Input::Pinned { bytes, .. } = self
            && layout.bytes()? != bytes.len() as u64
        {
            return Err(invalid(format!(
                "{} bytes is not a whole number of rows of {} bytes",
                bytes.len(),
                layout.row_bytes
            )));
        }
        Ok(layout)
    }
}

impl<'a> Output<'a> {
    /// Page-locked memory for the results.
    pub(in crate::pipeline) fn pinned<T: Element>(data: &'a mut PinnedBuffer<T>) -> Self {
        Self::Pinned { target: data.view_mut().into_bytes(), element: ElementKind::of::<T>() }
    }
}

pub(in crate::pipeline) fn invalid(cause: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidValue, "pipeline", cause)
}
