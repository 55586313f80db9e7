//! `trijet overlap`: one job under four schedules, with what each reaches of the bound.
//!
//! The job cleans a stack of images: the median of each pixel's surroundings into scratch from the
//! stream-ordered pool, then a stretch of the contrast. Data lie in page-locked memory, so that
//! only upload, kernels and download count. All four results must be equal.
#![forbid(unsafe_code)]

mod damage;
mod job;
mod show;
mod stack;

use super::{print, report};
use crate::args::{DeviceName, OverlapOptions, TimesName};
use job::Job;
use stack::{Pixel, Stack};
use trijet::device::probe::{self, Library};
use trijet::kernels::median::load;
use trijet::pipeline::{Calibration, Report};
use trijet::{Bytes, Device, Error, ErrorKind, Executor, HostConfig, Order, Result, Select};
use trijet_cli::format::{self, Dtype};
use trijet_cli::timeline;

/// The chunk size of the schedules that do not choose their own, where there is enough data.
const CHUNK: Bytes = Bytes(16 << 20);
const DEPTH: usize = 3;
/// What the link is measured with at most.
const CALIBRATION_MAX: u64 = 1 << 30;

/// A GPU if there is one; otherwise a modelled one, whose times mean something.
fn open(name: DeviceName) -> Result<Device> {
    let modelled = || {
        let executor = Executor::Virtual(Order::Greedy);
        Ok(Device::host(HostConfig { executor, ..HostConfig::default() })?.remove(0))
    };
    match name {
        DeviceName::Cuda(ordinal) => Device::open(Select::Cuda(ordinal)),
        DeviceName::Host => modelled(),
        DeviceName::Auto => match Device::open(Select::Cuda(0)) {
            Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::NoDevice) => {
                modelled()
            }
            other => other,
        },
    }
}

/// Refuses at once what would else fail after all the runs that are not recorded. The library is
/// looked at and not used: those runs would take longer with it.
fn demand_cupti() -> Result<()> {
    let mut libraries = probe::libraries().into_iter();
    let cupti = libraries.find(|report| report.library == Library::Cupti);
    cupti.map_or(Ok(()), |report| report.state.map(drop))
}

pub(crate) fn run(options: &OverlapOptions) -> Result<()> {
    // A name that cannot be written is refused before anything is run.
    let trace = options.trace.as_deref().map(timeline::Target::new).transpose()?;
    let device = open(options.device)?;
    let on_gpu = device.info().compute.0 > 0;
    if on_gpu && options.times == TimesName::Engines {
        demand_cupti()?;
    }
    let Some(path) = &options.input else {
        let size = match (options.size, on_gpu, options.drop_wait) {
            (Some(size), ..) => size,
            (None, true, None) => Bytes(4 << 30),
            (None, true, Some(_)) => Bytes(256 << 20),
            (None, false, _) => Bytes(32 << 20),
        };
        return show_off(options, trace, &device, Stack::<u16>::generate(&device, size)?);
    };
    let input = format::open(path, None)?;
    match input.array().dtype() {
        Dtype::U8 => show_off(options, trace, &device, Stack::<u8>::read(&device, &input)?),
        Dtype::U16 => show_off(options, trace, &device, Stack::<u16>::read(&device, &input)?),
        Dtype::F32 => {
            let cause = format!("{}: images of u8 or u16 are needed", path.display());
            Err(Error::new(ErrorKind::InvalidValue, "overlap", cause))
        }
    }
}

fn show_off<T: Pixel>(
    options: &OverlapOptions,
    trace: Option<timeline::Target>,
    device: &Device,
    stack: Stack<T>,
) -> Result<()> {
    let bytes = Bytes(stack.data.len() * size_of::<T>() as u64);
    load::<T>(device, options.radius)?;
    device.load(T::stretch())?;
    let eighth = Bytes((bytes.0 / 16).clamp(64 << 10, CHUNK.0));
    let mut job = Job {
        device: device.clone(),
        result: device.pinned(stack.data.len())?,
        radius: options.radius,
        chunk: options.chunk.unwrap_or(eighth),
        depth: options.depth.unwrap_or(DEPTH),
        times: options.times.into(),
        calibration: Calibration::measure(device, Bytes(bytes.0.min(CALIBRATION_MAX)))?,
        stack,
    };
    // What the calibration needed is not the job's.
    device.pool_trim(Bytes(0))?;
    device.pool_reset_high()?;
    if let Some(number) = options.drop_wait {
        return damage::run(&mut job, number, options);
    }
    let lines = job.compare(options.repeats)?;
    let tuned = lines.last().map(|line| &line.report);
    if let (Some(target), Some(tuned)) = (&trace, tuned) {
        target.write(tuned, &job.words())?;
    }
    if options.json {
        let schedules: Vec<_> = lines.iter().map(|line| report::json(&line.report)).collect();
        let hashes: Vec<_> = lines.iter().map(|line| line.hash.to_string()).collect();
        let pool = device.pool_stats()?;
        let value = serde_json::json!({
            "job": job.words(),
            "link": job.calibration.to_string(),
            "verdict": tuned.map(Report::verdict),
            "schedules": schedules,
            "hashes": hashes,
            "scratch_reserved_bytes": pool.reserved.0,
            "scratch_used_high_bytes": pool.used_high.0,
        });
        print(format_args!("{value:#}"))?;
    } else {
        show::table(&job.words(), &job.calibration, device, &lines)?;
        if let Some(target) = &trace {
            print(format_args!("its timeline: {}", target.path().display()))?;
        }
    }
    let first = lines.first().map(|line| line.hash.value());
    if lines.iter().any(|line| Some(line.hash.value()) != first) {
        let cause = "the schedules gave different results";
        return Err(Error::new(ErrorKind::InvalidValue, "overlap", cause));
    }
    device.clone().close()
}
