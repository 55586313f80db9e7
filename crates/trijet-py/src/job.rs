//! A job: from a source through operations to a target.
//!
//! The job runs on a thread of its own. The calling thread waits without the lock of Python, and
//! looks for signals, so that Ctrl-C ends the job between two chunks.

use crate::error::{OrRaise, raised, refused};
use crate::job_files;
use crate::operation::Operation;
use crate::outcome::{JobState, Report};
use crate::source::{MemorySource, PathSource, PullSource};
use crate::stage::Stage;
use crate::target::{MemoryTarget, PathTarget, PushSink, PushTarget};
use crate::verdict::Verdict;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use trijet::sim::HostConfig;
use trijet::{Bytes, Cancel, Device, Error, ErrorKind, Source};
use trijet_io::Input;
use trijet_map::{Chain, Job, Origin, Settings, Step};
use trijet_tools::command::device::{
    DeviceName, LiveCheck, gpus, of_process, open_each, with_check,
};

/// Time between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The options of a job.
#[pyclass(frozen)]
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) device: String,
    pub(crate) settings: Settings,
    pub(crate) check: bool,
    pub(crate) resume: bool,
    pub(crate) restart: bool,
    pub(crate) overwrite: bool,
    pub(crate) same_input: bool,
    pub(crate) durable: bool,
    pub(crate) shard: Option<(u64, u64)>,
    axis: usize,
    pub(crate) slice: Option<(u64, Option<u64>)>,
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, device, memory, chunk, depth, check, resume, restart, overwrite,
                        same_input, durable, shard, axis, slice))]
    #[expect(clippy::too_many_arguments, reason = "each is an option of a job")]
    fn new(
        device: String,
        memory: Option<u64>,
        chunk: Option<u64>,
        depth: Option<usize>,
        check: bool,
        resume: bool,
        restart: bool,
        overwrite: bool,
        same_input: bool,
        durable: bool,
        shard: Option<(u64, u64)>,
        axis: usize,
        slice: Option<(u64, Option<u64>)>,
    ) -> Self {
        let (chunk, memory) = (chunk.map(Bytes), memory.map(Bytes));
        let settings = Settings { chunk, depth, memory, keeps_rows: false };
        Self {
            device,
            settings,
            check,
            resume,
            restart,
            overwrite,
            same_input,
            durable,
            shard,
            axis,
            slice,
        }
    }
}

/// Any source.
#[derive(FromPyObject)]
pub(crate) enum AnySource {
    /// A file or a folder.
    Path(Py<PathSource>),
    /// An array in memory.
    Memory(Py<MemorySource>),
    /// An object of Python.
    Pull(Py<PullSource>),
}

impl AnySource {
    fn open(&self) -> trijet::Result<Input> {
        match self {
            Self::Path(path) => path.get().open(),
            Self::Memory(memory) => Ok(memory.get().open()),
            Self::Pull(pull) => Ok(pull.get().open()),
        }
    }

    /// Whether damaged images are skipped.
    pub(crate) fn skips(&self) -> bool {
        matches!(self, Self::Path(path) if path.get().skip_damaged)
    }

    /// Whether the source has files, whose state can be compared when a run is resumed.
    pub(crate) fn has_files(&self) -> bool {
        matches!(self, Self::Path(_))
    }
}

/// Any target.
#[derive(FromPyObject)]
pub(crate) enum AnyTarget {
    /// A file or a folder.
    Path(Py<PathTarget>),
    /// An array in memory.
    Memory(Py<MemoryTarget>),
    /// An object of Python.
    Push(Py<PushTarget>),
}

/// Any step.
#[derive(FromPyObject)]
pub(crate) enum AnyStep {
    /// An operation of the library, or a kernel of the user.
    Operation(Py<Operation>),
    /// A function of Python.
    Stage(Py<Stage>),
}

impl AnyStep {
    fn step(&self) -> Step {
        match self {
            Self::Operation(operation) => operation.get().step.clone(),
            Self::Stage(stage) => Step::Own(stage.get().operation.clone()),
        }
    }
}

/// The parts of a job.
pub(crate) struct Parts {
    pub(crate) source: AnySource,
    pub(crate) target: AnyTarget,
    pub(crate) steps: Vec<AnyStep>,
    pub(crate) options: Options,
}

/// The reason why a job failed.
pub(crate) enum Failure {
    /// An error of the library.
    Trijet(Error),
    /// An exception.
    Raised(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Trijet(error)
    }
}

impl From<PyErr> for Failure {
    fn from(exception: PyErr) -> Self {
        Self::Raised(exception)
    }
}

/// The progress of a job, for the thread that waits.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: AtomicU64,
    pub(crate) all: AtomicU64,
}

impl Progress {
    /// Counts rows that are newly done.
    pub(crate) fn add(&self, rows: u64) {
        self.done.fetch_add(rows, Ordering::Relaxed);
    }
}

/// Opened parts of a job.
pub(crate) struct OpenJob {
    pub(crate) input: Input,
    pub(crate) chain: Chain,
    pub(crate) steps: Vec<Step>,
}

impl Parts {
    /// Opens the source, and applies the operations to its shape.
    pub(crate) fn open(&self) -> trijet::Result<OpenJob> {
        let input = self.source.open()?;
        let input = match self.options.axis {
            0 => input,
            1 => input.swap_first_axes()?,
            axis => return Err(refused("map", format!("`axis` is 0 or 1, and not {axis}"))),
        };
        let length = input.array().shape()[0];
        let input = match self.options.slice {
            Some((start, end)) => input.slice(start..end.unwrap_or(length))?,
            None => input,
        };
        let steps: Vec<Step> = self.steps.iter().map(AnyStep::step).collect();
        let chain = Chain::new(&steps, &Origin::of(&input))?;
        let input = if chain.reads_as_stored() { input.as_stored() } else { input };
        Ok(OpenJob { input, chain, steps })
    }

    /// Opens the devices, and loads the kernels.
    pub(crate) fn devices(&self, chain: &Chain) -> trijet::Result<Vec<Device>> {
        let check = LiveCheck { check: self.options.check };
        let named = match self.options.device.as_str() {
            "all" => gpus()?.into_iter().map(DeviceName::Cuda).collect(),
            one => {
                let name = one.parse::<DeviceName>().map_err(|cause| refused("map", cause))?;
                vec![of_process(name, None)?]
            }
        };
        let no_gpu = |name: &DeviceName| match name {
            DeviceName::Host => true,
            DeviceName::Auto => gpus().is_ok_and(|gpus| gpus.is_empty()),
            DeviceName::Cuda(_) => false,
        };
        let devices = match named.iter().all(no_gpu) {
            true => vec![own_host(&check)?],
            false => open_each(&named, &check)?,
        };
        devices.iter().try_for_each(|device| chain.load(device))?;
        Ok(devices)
    }

    /// Runs the job into an array of the program, on the first device.
    fn run_into_memory(&self, cancel: &Cancel, progress: &Progress) -> Result<Report, Failure> {
        let OpenJob { input, chain, .. } = self.open()?;
        let array = chain.output_of_part()?;
        let written = match &self.target {
            AnyTarget::Push(_) => PushTarget::granule(&array),
            _ => 1,
        };
        let devices = self.devices(&chain)?;
        let granule = chain.granule(written);
        let job = Job::new(&chain, &devices[..1], input.layout(), granule, self.options.settings)?;
        let first = self.first_row(&input, &chain);
        let rows = array.layout().rows;
        progress.all.store(rows, Ordering::Relaxed);
        let todo: Vec<_> =
            std::iter::once(first..first + rows).filter(|rows| !rows.is_empty()).collect();
        let on_rows = |rows| progress.add(rows);
        let report = match &self.target {
            AnyTarget::Memory(target) => {
                let sink = Python::attach(|py| target.get().open(py, &array, first))?;
                job.run_on_one(&input, &sink, &todo, cancel, &on_rows)?
            }
            AnyTarget::Push(target) => {
                let sink = PushSink { target: target.get(), array: &array, first };
                job.run_on_one(&input, sink, &todo, cancel, &on_rows)?
            }
            AnyTarget::Path(_) => unreachable!("`job_files` runs jobs into files"),
        };
        let state = JobState {
            job: format!("{array}, {}", chain.description()),
            kept_rows: 0,
            is_complete: true,
            left_out: input.left_out().to_vec(),
            verdict: Verdict::of(&devices)?,
            damaged: Vec::new(),
        };
        self.close(devices)?;
        Ok(Report::new(vec![report], state))
    }

    /// The first row of the results of a slice.
    fn first_row(&self, input: &Input, chain: &Chain) -> u64 {
        let items = input.array().shape()[0].max(1);
        let start = self.options.slice.map_or(0, |slice| slice.0);
        start * (chain.output().layout().rows / items)
    }

    /// Closes the devices. Errors of deferred work are errors of the job.
    pub(crate) fn close(&self, devices: Vec<Device>) -> trijet::Result<()> {
        self.forget();
        devices.into_iter().try_for_each(Device::close)
    }

    fn forget(&self) {
        for step in &self.steps {
            if let AnyStep::Stage(stage) = step {
                stage.get().end();
            }
        }
    }

    /// The exception that ended the job, if a function of the program raised one.
    fn take_exception(&self) -> Option<PyErr> {
        let of_step = |step: &AnyStep| match step {
            AnyStep::Stage(stage) => stage.get().take_failure(),
            AnyStep::Operation(_) => None,
        };
        let of_source = match &self.source {
            AnySource::Pull(pull) => pull.get().take_failure(),
            _ => None,
        };
        let of_target = match &self.target {
            AnyTarget::Push(push) => push.get().take_failure(),
            _ => None,
        };
        of_source.or(of_target).or_else(|| self.steps.iter().find_map(of_step))
    }

    fn run(&self, cancel: &Cancel, progress: &Progress) -> Result<Report, Failure> {
        let ran = match &self.target {
            AnyTarget::Path(target) => job_files::run(self, target.get(), cancel, progress),
            AnyTarget::Memory(_) | AnyTarget::Push(_) => self.run_into_memory(cancel, progress),
        };
        self.forget();
        ran
    }
}

/// A host device that no other job has, because a function of the program that fails makes the
/// device unusable.
fn own_host(check: &LiveCheck) -> trijet::Result<Device> {
    let builder = || with_check(Device::builder().host(HostConfig::new()), check);
    if check.check { builder().red_zones().open() } else { builder().open() }
}

/// Whether the thread of a job has ended its work.
#[derive(Debug, Default)]
struct Ended {
    flag: Mutex<bool>,
    changed: Condvar,
}

/// Sets the flag when it is dropped.
struct End<'a>(&'a Ended);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Ended {
    fn set(&self) {
        *self.flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    fn is_set_within(&self, time: Duration) -> bool {
        let flag = self.flag.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(flag, time, |is_set| !*is_set);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Waits for a job, and looks for signals. Returns the exception of a signal, after which the job
/// is cancelled.
fn wait(
    py: Python<'_>,
    ended: &Ended,
    cancel: &Cancel,
    progress: &Progress,
    on_progress: Option<&Py<PyAny>>,
) -> Option<PyErr> {
    let mut interrupted = None;
    loop {
        if py.detach(|| ended.is_set_within(LOOK_EVERY)) {
            return interrupted;
        }
        let told = on_progress.map_or(Ok(()), |told| {
            let done = progress.done.load(Ordering::Relaxed);
            told.bind(py).call1((done, progress.all.load(Ordering::Relaxed))).map(drop)
        });
        if let Err(exception) = py.check_signals().and(told) {
            cancel.cancel();
            interrupted.get_or_insert(exception);
        }
    }
}

/// Runs a job and waits for its end. `on_progress(done, all)` is called with numbers of rows.
#[pyfunction]
#[pyo3(signature = (source, target, steps, options, on_progress=None))]
pub(crate) fn run(
    py: Python<'_>,
    source: AnySource,
    target: AnyTarget,
    steps: Vec<AnyStep>,
    options: &Options,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Report> {
    let parts = Parts { source, target, steps, options: options.clone() };
    let (cancel, progress) = (Cancel::new(), Progress::default());
    let ended = Ended::default();
    let (ran, interrupted) = thread::scope(|scope| {
        let (parts, cancel, progress, ended) = (&parts, &cancel, &progress, &ended);
        let job =
            thread::Builder::new().name("trijet job".to_owned()).spawn_scoped(scope, move || {
                // Set also when the job panics.
                let _end = End(ended);
                parts.run(cancel, progress)
            });
        let job = match job {
            Ok(job) => job,
            Err(error) => return (Err(Failure::Trijet(error.into())), None),
        };
        let interrupted = wait(py, ended, cancel, progress, on_progress.as_ref());
        let panicked = |_| {
            let cause = "a thread of the job panicked";
            Err(Failure::Trijet(Error::new(ErrorKind::Panicked, "map", cause)))
        };
        (py.detach(|| job.join()).unwrap_or_else(panicked), interrupted)
    });
    let failure = match ran {
        Ok(report) => return interrupted.map_or(Ok(report), Err),
        Err(failure) => failure,
    };
    let error = match failure {
        Failure::Raised(exception) => return Err(exception),
        Failure::Trijet(error) => error,
    };
    // An exception of the program is raised as it is, with a note that tells the state of the job.
    match interrupted.or_else(|| parts.take_exception()) {
        Some(exception) => {
            exception.add_note(py, error.to_string())?;
            Err(exception)
        }
        None => Err(raised(py, &error)),
    }
}

/// The plan of a job: a list of names and values.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    source: AnySource,
    target: AnyTarget,
    steps: Vec<AnyStep>,
    options: &Options,
) -> PyResult<job_files::Plan> {
    let parts = Parts { source, target, steps, options: options.clone() };
    py.detach(|| job_files::plan(&parts)).or_raise(py)
}
