//! The options `--device` and `--check`, and the devices that they open. Shell completions propose
//! only some values of `--device`. The help names all values.
#![forbid(unsafe_code)]

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use std::ffi::OsStr;
use std::marker::PhantomData;
use std::str::FromStr;
use trijet::check::{CheckOptions, Names};
use trijet::trace::summary::Audience;
use trijet::{Device, DeviceBuilder, DeviceInfo, ErrorKind, Select};

/// The values of `--device` that completions propose for most commands.
pub const ONE: &[&str] = &["auto", "host", "cuda:0", "cuda:1"];
/// The values of `--device` that completions propose for `trijet map`.
pub const ONE_OR_ALL: &[&str] = &["auto", "all", "host", "cuda:0", "cuda:1"];

/// Parses a value of `--device`.
#[derive(Debug)]
pub struct DeviceParser<T> {
    proposed: &'static [&'static str],
    of: PhantomData<fn() -> T>,
}

impl<T> Clone for DeviceParser<T> {
    fn clone(&self) -> Self {
        Self { proposed: self.proposed, of: PhantomData }
    }
}

/// A parser of `--device` for which shell completions propose the values `proposed`.
#[must_use]
pub fn proposing<T>(proposed: &'static [&'static str]) -> DeviceParser<T> {
    DeviceParser { proposed, of: PhantomData }
}

impl<T> TypedValueParser for DeviceParser<T>
where
    T: FromStr<Err = String> + Clone + Send + Sync + 'static,
{
    type Value = T;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        StringValueParser::new().try_map(|text| text.parse()).parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.proposed.iter().map(PossibleValue::new)))
    }
}

/// The device that the user has chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceName {
    /// A GPU, or the host device if there is no GPU.
    Auto,
    /// The GPU with this ordinal.
    Cuda(u32),
    /// The host device.
    Host,
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "host" => Ok(Self::Host),
            _ => text
                .strip_prefix("cuda:")
                .and_then(|number| number.parse().ok())
                .map(Self::Cuda)
                .ok_or_else(|| format!("unknown device `{text}`: use auto, cuda:N or host")),
        }
    }
}

/// The option `--check`, which runs the checker along with a command.
#[derive(Debug, Args)]
pub struct LiveCheck {
    /// Check all calls for races while the command runs, and print the verdict at the end. The exit
    /// status is 1 if there is an error. The command runs slower.
    #[arg(long)]
    pub check: bool,
}

/// Opens the device that `name` means. This is the host device for `host`, and for `auto` if there
/// is no GPU.
///
/// # Errors
/// Every error of the device.
pub fn open(name: DeviceName, check: &LiveCheck) -> trijet::Result<Device> {
    with_check(builder(name), check).open()
}

/// The builder of the device that `name` means.
pub fn builder(name: DeviceName) -> DeviceBuilder {
    Device::builder().select(match name {
        DeviceName::Auto => Select::Auto,
        DeviceName::Cuda(ordinal) => Select::Cuda(ordinal),
        DeviceName::Host => Select::Host(0),
    })
}

/// The names that findings about the calls of this command use. The readers of these findings are
/// users, who cannot change the calls.
#[must_use]
pub fn names() -> Names {
    Names { audience: Audience::User, ..Names::default() }
}

/// Adds the checker to a device before it is opened, if `--check` is given.
pub fn with_check(builder: DeviceBuilder, check: &LiveCheck) -> DeviceBuilder {
    let options = CheckOptions::new().names(names());
    if check.check { builder.check(options) } else { builder }
}

/// Opens devices of one driver. With `--check`, the devices share one checker. They have red zones
/// if the device supports red zones.
///
/// # Errors
/// Every error of the devices.
pub fn open_each(names: &[DeviceName], check: &LiveCheck) -> trijet::Result<Vec<Device>> {
    let open = |name: &DeviceName| {
        let plain = || with_check(builder(*name), check);
        if !check.check {
            return plain().open();
        }
        match plain().red_zones().open() {
            // A device that allocates from a pool has no red zones.
            Err(error) if error.kind() == ErrorKind::Unsupported => plain().open(),
            outcome => outcome,
        }
    };
    names.iter().map(open).collect()
}

/// The ordinals of the GPUs of this host. The list is empty if there is no driver or no GPU.
///
/// # Errors
/// Every error of the driver, except the errors for a missing driver and a missing GPU.
pub fn gpus() -> trijet::Result<Vec<u32>> {
    numbers(Device::cuda_devices())
}

/// The ordinals of the GPUs in `found`. The list is empty if `found` is the error for a missing
/// driver or a missing GPU.
fn numbers(found: trijet::Result<Vec<DeviceInfo>>) -> trijet::Result<Vec<u32>> {
    match found {
        Ok(gpus) => Ok((0..).zip(gpus).map(|(number, _)| number).collect()),
        Err(error) if error.is_missing_gpu() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The device for one process of a job. `local` is the number of the process on its host, if a
/// launcher has set this number. If `wanted` is `auto` and this number is set, the process gets one
/// of the GPUs of the host. Otherwise the result is `wanted`.
///
/// # Errors
/// Every error of the driver.
pub fn of_process(wanted: DeviceName, local: Option<u64>) -> trijet::Result<DeviceName> {
    match (wanted, local) {
        (DeviceName::Auto, Some(local)) => {
            Ok(of_rank(&gpus()?, local).map_or(DeviceName::Auto, DeviceName::Cuda))
        }
        _ => Ok(wanted),
    }
}

/// The ordinal of the GPU for the process with the number `local` on its host. If there are more
/// processes than GPUs, several processes get the same GPU. `None` if there is no GPU.
fn of_rank(gpus: &[u32], local: u64) -> Option<u32> {
    let place = local.checked_rem(gpus.len() as u64)?;
    usize::try_from(place).ok().map(|place| gpus[place])
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Error;

    /// In an earlier version, if the query of one GPU failed, a job on all GPUs ran only on the
    /// first GPU.
    #[test]
    fn only_a_host_without_gpus_has_none() {
        let failed = |kind| numbers(Err(Error::new(kind, "devices", "a reason")));
        for kind in [ErrorKind::Unsupported, ErrorKind::NoDevice] {
            assert_eq!(failed(kind).unwrap(), [0; 0]);
        }
        assert_eq!(failed(ErrorKind::Driver).unwrap_err().kind(), ErrorKind::Driver);
    }

    /// In an earlier version, two GPUs were refused with `--check`, because the second device asked
    /// for a second checker.
    #[test]
    fn devices_of_a_driver_share_its_checker() {
        let names = [DeviceName::Host; 3];
        let devices = open_each(&names, &LiveCheck { check: true }).unwrap();
        assert!(devices.iter().all(|device| device.verdict().is_some()));
    }

    #[test]
    fn processes_of_a_host_take_its_gpus_in_turn() {
        let taken = |gpus: &[u32]| [0, 1, 2, 5].map(|local| of_rank(gpus, local));
        assert_eq!(taken(&[0, 1, 2]), [0, 1, 2, 2].map(Some));
        assert_eq!(taken(&[]), [None; 4]);
    }
}
