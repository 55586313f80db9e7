//! The setting of a benchmark: its device, the command that it starts, and a way to stop it.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use trijet::{Cancel, Device};

/// The device of a benchmark, the command that it starts, and a way to stop it.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The device.
    pub device: &'a Device,
    /// The command `trijet`, for benchmarks that start it.
    pub trijet: PathBuf,
    /// Ends the benchmark before its next run. Only benchmarks whose runs take seconds observe it.
    pub cancel: Cancel,
}

#[cfg(test)]
impl<'a> Setting<'a> {
    pub(crate) fn for_tests(device: &'a Device) -> Self {
        Self { device, trijet: PathBuf::new(), cancel: Cancel::new() }
    }
}
