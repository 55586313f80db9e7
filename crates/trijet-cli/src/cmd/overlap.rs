//! `trijet overlap`: one job under four schedules, each compared with the bound of the machine.
//!
//! The job cleans a stack of images: a median filter writes into scratch memory from the
//! heap of the device, then the contrast is stretched. The images are in page-locked memory, so
//! that only upload, kernels and download take time. All four results must be equal.
#![forbid(unsafe_code)]

mod damage;
mod job;
mod show;
mod stack;

use super::document::print_json;
use super::progress::Progress;
use super::verdict::Live;
use super::{print, report, with_check};
use crate::args::{OverlapOptions, TimesName};
use crate::timeline;
use crate::values::ReportLength;
use job::Job;
use stack::{Images, Pixel};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;
use trijet::kernels::median::load;
use trijet::pipeline::Calibration;
use trijet::probe::{self, Library};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Bytes, Device, Error, ErrorKind, PinnedBuffer, Report, Result, Select};
use trijet_io::{Dtype, Input, NewFile, shown};
use trijet_tools::command::device::{DeviceName, LiveCheck};
use trijet_tools::progress::{Step, Steps};

/// Maximum default chunk size. The tuned schedule chooses its own size.
const CHUNK: Bytes = Bytes(16 << 20);
const DEPTH: usize = 3;
/// Maximum number of bytes that are copied to measure the link.
const CALIBRATION_BYTES_MAX: u64 = 1 << 30;

/// Opens the device. Without a GPU, opens a host device with a model of a GPU's times, because the
/// times of CPU threads would show nothing about overlap.
fn open(name: DeviceName, check: &LiveCheck) -> Result<Device> {
    let gpu = |ordinal| with_check(Device::builder().select(Select::Cuda(ordinal)), check).open();
    let modelled = || {
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor);
        with_check(Device::builder().host(config), check).open()
    };
    match name {
        DeviceName::Cuda(ordinal) => gpu(ordinal),
        DeviceName::Host => modelled(),
        DeviceName::Auto => match gpu(0) {
            Err(e) if e.is_missing_gpu() => modelled(),
            other => other,
        },
    }
}

/// Fails before the timed runs if CUPTI is missing. This function does not attach CUPTI, because
/// CUPTI would slow the timed runs down.
fn require_cupti() -> Result<()> {
    let mut libraries = probe::libraries().into_iter();
    let cupti = libraries.find(|report| report.library == Library::Cupti);
    cupti.map_or(Ok(()), |report| report.state.map(drop))
}

pub(crate) fn run(options: &OverlapOptions) -> Result<ExitCode> {
    // An invalid file name is an error before anything runs.
    let outputs = outputs(options)?;
    let device = open(options.device, &options.check)?;
    let on_gpu = device.info().compute.0 > 0;
    if on_gpu && options.times == TimesName::Engines {
        require_cupti()?;
    }
    let setting = Setting { options, outputs, device: &device };
    let Some(path) = &options.input else {
        let size = match (options.size, on_gpu, options.drop_wait) {
            (Some(size), ..) => size,
            (None, true, None) => Bytes(4 << 30),
            (None, true, Some(_)) => Bytes(256 << 20),
            (None, false, _) => Bytes(16 << 20),
        };
        let images = Images::generated(size);
        return run_job(setting, images, |images| stack::generate(&device, images));
    };
    let input = Input::self_described(path)?;
    match input.array().dtype() {
        Dtype::U8 => run_job(setting, Images::of(&input)?, |_| stack::read::<u8>(&device, &input)),
        Dtype::U16 => {
            run_job(setting, Images::of(&input)?, |_| stack::read::<u16>(&device, &input))
        }
        other => {
            let cause =
                format!("{}: the images must be u8 or u16, but they are {other}", shown(path));
            Err(Error::new(ErrorKind::InvalidValue, "overlap", cause))
        }
    }
}

/// The options, the files and the device of a run.
struct Setting<'a> {
    options: &'a OverlapOptions,
    outputs: Outputs,
    device: &'a Device,
}

/// The files that a run writes.
struct Outputs {
    trace: Option<timeline::Target>,
    /// The picture of a run that leaves out one wait. `None` without `--drop-wait`.
    picture: Option<NewFile>,
}

/// Prepares the files that a run writes. A file that cannot be written is an error before anything
/// runs.
fn outputs(options: &OverlapOptions) -> Result<Outputs> {
    let existing = options.overwrite.existing();
    let sources: Vec<&Path> = options.input.iter().map(PathBuf::as_path).collect();
    let picture = match options.drop_wait {
        Some(_) => Some(NewFile::new("picture", &options.picture, existing, &sources)?),
        None => None,
    };
    let trace = options.trace.as_deref();
    let trace = trace.map(|trace| timeline::Target::new(trace, existing, &sources)).transpose()?;
    let trace = match (trace, &picture) {
        (Some(trace), Some(picture)) => Some(trace.beside(picture.path())?),
        (trace, _) => trace,
    };
    Ok(Outputs { trace, picture })
}

/// The number of progress steps that [`prepare`] shows.
const PREPARATIONS: u64 = 2;

/// Fills the input of the job, and measures the link.
fn prepare<T: Pixel>(
    options: &OverlapOptions,
    device: &Device,
    images: Images,
    fill: impl FnOnce(&Images) -> Result<PinnedBuffer<T>>,
    steps: &mut Steps<'_>,
) -> Result<Job<T>> {
    steps.begin(&format!("filling memory: {}", images.name));
    let data = fill(&images)?;
    let bytes = Bytes((data.len() * size_of::<T>()) as u64);
    let default_chunk = Bytes((bytes.0 / 16).clamp(64 << 10, CHUNK.0));
    steps.begin("measuring the link");
    let job = Job {
        device: device.clone(),
        result: device.pinned(data.len())?,
        radius: options.radius,
        chunk: options.chunk.unwrap_or(default_chunk),
        depth: options.depth.unwrap_or(DEPTH),
        times: options.times.into(),
        calibration: Calibration::measure(device, Bytes(bytes.0.min(CALIBRATION_BYTES_MAX)))?,
        passes: 0,
        images,
        data,
    };
    // The memory statistics of the job must not include the calibration.
    device.trim_memory(Bytes(0))?;
    device.reset_memory_high()?;
    Ok(job)
}

fn run_job<T: Pixel>(
    setting: Setting<'_>,
    images: Images,
    fill: impl FnOnce(&Images) -> Result<PinnedBuffer<T>>,
) -> Result<ExitCode> {
    let Setting { options, outputs: Outputs { trace, picture }, device } = setting;
    load::<T>(device, options.radius)?;
    device.load(T::stretch())?;
    let description = job::description::<T>(&images, options.radius);
    let begin = Instant::now();
    let is_damaged = options.drop_wait.is_some();
    if !options.json && !is_damaged {
        print(&description)?;
    }
    let progress = Progress::on_stderr();
    let mut show = |step: Step<'_>| progress.show(step);
    let mut steps = Steps::new(&mut show);
    if let (Some(number), Some(picture)) = (options.drop_wait, picture) {
        steps.expect(PREPARATIONS + damage::STEPS);
        let mut job = prepare(options, device, images, fill, &mut steps)?;
        let trace = trace.as_ref();
        return damage::run(&mut job, number, options, &picture, trace, &progress, steps);
    }
    steps.expect(PREPARATIONS + job::steps(device, options.repeats));
    let mut job = prepare(options, device, images, fill, &mut steps)?;
    let results = job.compare(options.repeats, &mut steps)?;
    drop(progress);
    let verdict = Live::of(device);
    let tuned = results.last().map(|result| &result.report);
    if let (Some(target), Some(tuned)) = (&trace, tuned) {
        target.write(tuned, &description)?;
    }
    if options.json {
        let schedules: Vec<_> = results.iter().map(|result| report::json(&result.report)).collect();
        let digests: Vec<_> = results.iter().map(|result| result.digest.to_string()).collect();
        let pool = device.memory_stats()?;
        let mut value = serde_json::json!({
            "job": description,
            "link": report::link(&job.calibration),
            "verdict": tuned.map(Report::verdict),
            "schedules": schedules,
            "hashes": digests,
            "scratch_reserved_bytes": pool.reserved.0,
            "scratch_used_high_bytes": pool.used_high.0,
        });
        verdict.add_to(&mut value);
        print_json("overlap", &value)?;
    } else {
        let computed = job.computed(begin.elapsed());
        match options.report {
            ReportLength::Short => show::short(computed.as_deref(), &results, options)?,
            ReportLength::Full => {
                show::full(computed.as_deref(), &job.calibration, device, &results, options)?;
            }
        }
        if let Some(target) = &trace {
            print(format_args!("timeline: {}", shown(target.path())))?;
        }
        verdict.print()?;
    }
    let first = results.first().map(|result| result.digest.value());
    if results.iter().any(|result| Some(result.digest.value()) != first) {
        let cause = "the schedules gave different results, which is a bug in trijet";
        return Err(Error::new(ErrorKind::InvalidValue, "overlap", cause));
    }
    device.clone().close()?;
    Ok(verdict.exit_code())
}
