//! A job: from a source through operations to a target.
//!
//! The job runs on a thread of its own. The calling thread waits without the lock of Python, and
//! looks for signals, so that Ctrl-C ends the job between two chunks.

use crate::error::{OrRaise, raised, refused};
use crate::job_files;
use crate::outcome::{JobState, Report};
use crate::parts::{AnySource, AnyStep, AnyTarget, Failure, OpenJob, Options, Parts, Progress};
use crate::target::{PushSink, PushTarget};
use crate::verdict::Verdict;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use trijet::{Cancel, Error, ErrorKind, Source};
use trijet_io::Input;
use trijet_map::{Chain, Job};

/// Time between two looks for signals.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Parts {
    /// Runs the job into an array of the program, on the first device.
    fn run_into_memory(&self, cancel: &Cancel, progress: &Progress) -> Result<Report, Failure> {
        self.refuse_options_of_files()?;
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

    /// Refuses options that only a target in files has.
    fn refuse_options_of_files(&self) -> trijet::Result<()> {
        let Options { shard, claim, resume, restart, overwrite, device, .. } = &self.options;
        let given = [
            (shard.is_some(), "shard"),
            (claim.is_some(), "claim"),
            (*resume, "resume"),
            (*restart, "restart"),
            (*overwrite, "overwrite"),
            (device == "all", "device='all'"),
        ];
        match given.into_iter().find(|(is_given, _)| *is_given) {
            None => Ok(()),
            Some((_, name)) => {
                Err(refused("map", format!("`{name}` needs a target in files, and not an array")))
            }
        }
    }

    /// The first row of the results of a slice.
    fn first_row(&self, input: &Input, chain: &Chain) -> u64 {
        let items = input.array().shape()[0].max(1);
        let start = self.options.slice.map_or(0, |slice| slice.0);
        start * (chain.output().layout().rows / items)
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
                // Python makes a state for a thread when it first attaches, and drops it when the
                // outermost attachment ends. Each call of a stage would pay for that.
                Python::attach(|py| py.detach(|| parts.run(cancel, progress)))
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
