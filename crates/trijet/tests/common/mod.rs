//! Checked host devices, for several test programs.

use trijet::check::CheckOptions;
use trijet::sim::HostConfig;
use trijet::{Device, Result};

/// The devices of a new driver, with a checker that reads their calls while they are made.
pub(crate) fn checked(config: HostConfig) -> Result<Vec<Device>> {
    Device::builder().host(config).check(CheckOptions::default()).open_all()
}

/// Demands that the checker has found nothing.
#[track_caller]
pub(crate) fn demand_clean(device: &Device) {
    let verdict = device.verdict().expect("it is checked");
    assert_eq!(verdict.findings, [], "{verdict}");
}
