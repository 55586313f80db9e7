//! Helpers of the examples: their arguments, their input, the comparison and the result.

use std::fmt::Debug;
use std::process::ExitCode;
use trijet::check::CheckOptions;
use trijet::sim::HostConfig;
use trijet::{Device, DeviceBuilder, Select};

/// The result of an example. A wrong result is an error like any other error.
pub(crate) type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The devices that an example takes: one device, or a slice of two.
pub(crate) trait Devices {
    const COUNT: u32;

    fn of(devices: &[Device]) -> &Self;
}

impl Devices for Device {
    const COUNT: u32 = 1;

    fn of(devices: &[Device]) -> &Self {
        &devices[0]
    }
}

/// Two host devices, or the GPU of the first argument and the next GPU. If there is no next GPU,
/// one GPU.
impl Devices for [Device] {
    const COUNT: u32 = 2;

    fn of(devices: &[Device]) -> &Self {
        devices
    }
}

/// Runs an example on the device that its first argument names: `host`, the default, or `cuda:N`.
/// With the second argument `check`, a checker runs with the example, and a finding is an error.
/// The second argument `plain` has no effect.
pub(crate) fn run<D: Devices + ?Sized>(example: fn(&D) -> Outcome<String>) -> ExitCode {
    let name = env!("CARGO_BIN_NAME");
    match attempt(example) {
        Ok(shown) => {
            println!("PASS {name}: {shown}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("FAIL {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The devices that the first argument names, with a checker if `is_checked`.
fn open(count: u32, is_checked: bool) -> Outcome<Vec<Device>> {
    let named = std::env::args().nth(1).unwrap_or_else(|| "host".to_owned());
    let check = |builder: DeviceBuilder| match is_checked {
        true => builder.check(CheckOptions::default()),
        false => builder,
    };
    let Some(ordinal) = named.strip_prefix("cuda:") else {
        if named != "host" {
            return Err(format!("unknown device `{named}`: use `host` or `cuda:N`").into());
        }
        let config = HostConfig::new().devices(count);
        return Ok(check(Device::builder().host(config)).open_all()?);
    };
    let first: u32 = ordinal.parse().map_err(|e| format!("`{named}`: {e}"))?;
    // One checker sees all GPUs of the process.
    let mut devices = vec![check(Device::builder().select(Select::Cuda(first))).open()?];
    let gpus = u32::try_from(Device::cuda_devices()?.len())?;
    for next in 1..count.min(gpus) {
        devices.push(Device::open(Select::Cuda((first + next) % gpus))?);
    }
    Ok(devices)
}

fn attempt<D: Devices + ?Sized>(example: fn(&D) -> Outcome<String>) -> Outcome<String> {
    let is_checked = match std::env::args().nth(2).as_deref() {
        None | Some("plain") => false,
        Some("check") => true,
        Some(other) => {
            return Err(format!("unknown argument `{other}`: use `check` or `plain`").into());
        }
    };
    let devices = open(D::COUNT, is_checked)?;
    let mut shown = example(D::of(&devices))?;
    let device = &devices[0];
    if let Some(verdict) = device.verdict() {
        if !verdict.findings.is_empty() {
            return Err(verdict.to_string().into());
        }
        shown += &format!(" (checked: {} accesses, no finding)", verdict.accesses);
    }
    // This also returns errors of earlier drops.
    devices.into_iter().try_for_each(Device::close)?;
    Ok(shown)
}

/// Element `i` of every example's input. It is a small whole number, so that sums and products of a
/// few elements are exact in single precision.
pub(crate) fn sample(i: usize) -> f32 {
    (i % 1021) as f32
}

/// Compares every element of `got` with the expected value `want`.
pub(crate) fn verify<T: PartialEq + Debug>(
    what: &str,
    got: &[T],
    want: impl Fn(usize) -> T,
) -> Outcome<()> {
    match got.iter().enumerate().find(|(i, value)| **value != want(*i)) {
        Some((i, value)) => Err(format!("{what}[{i}] is {value:?}, not {:?}", want(i)).into()),
        None => Ok(()),
    }
}
