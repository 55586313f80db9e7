//! The parts of a job: a source, steps, a target and options, as Python passes them.

use crate::error::refused;
use crate::operation::Operation;
use crate::source::{MemorySource, PathSource, PullSource};
use crate::stage::Stage;
use crate::target::{MemoryTarget, PathTarget, PushTarget};
use pyo3::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use trijet::sim::HostConfig;
use trijet::{Bytes, Device, Error};
use trijet_io::Input;
use trijet_map::{Chain, Origin, Settings, Step};
use trijet_tools::command::device::{
    DeviceName, LiveCheck, gpus, of_process, open_each, with_check,
};

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
    /// The lease in seconds of a process that claims rows.
    pub(crate) claim: Option<u64>,
    axis: usize,
    pub(crate) slice: Option<(u64, Option<u64>)>,
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, device, memory, chunk, depth, check, resume, restart, overwrite,
                        same_input, durable, shard, claim, axis, slice))]
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
        claim: Option<u64>,
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
            claim,
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

    /// Closes the devices. Errors of deferred work are errors of the job.
    pub(crate) fn close(&self, devices: Vec<Device>) -> trijet::Result<()> {
        self.forget();
        devices.into_iter().try_for_each(Device::close)
    }

    pub(crate) fn forget(&self) {
        for step in &self.steps {
            if let AnyStep::Stage(stage) = step {
                stage.get().end();
            }
        }
    }

    /// The exception that ended the job, if a function of the program raised one.
    pub(crate) fn take_exception(&self) -> Option<PyErr> {
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
}

/// A host device that no other job has, because a function of the program that fails makes the
/// device unusable.
fn own_host(check: &LiveCheck) -> trijet::Result<Device> {
    let builder = || with_check(Device::builder().host(HostConfig::new()), check);
    if check.check { builder().red_zones().open() } else { builder().open() }
}
