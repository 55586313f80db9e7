//! The commands.

pub(crate) mod bench;
pub(crate) mod devices;
pub(crate) mod map;
mod operation;
pub(crate) mod overlap;
mod report;
mod user_kernel;

use crate::args::DeviceName;
use trijet::{Device, Result, Select};

/// Opens the device that was asked for; CPU threads stand in for `auto` only.
fn open(name: DeviceName) -> Result<Device> {
    Device::open(match name {
        DeviceName::Auto => Select::Auto,
        DeviceName::Cuda(ordinal) => Select::Cuda(ordinal),
        DeviceName::Host => Select::Host(0),
    })
}
