//! What a benchmark runs on.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use trijet::{Cancel, Device};

/// What a benchmark runs on.
#[derive(Debug)]
pub struct Setting<'a> {
    /// The device.
    pub device: &'a Device,
    /// The command `trijet`, for benchmarks that start it.
    pub trijet: PathBuf,
    /// Ends the benchmark before its next run. Only benchmarks with runs of seconds look at it.
    pub cancel: Cancel,
}

#[cfg(test)]
impl<'a> Setting<'a> {
    pub(crate) fn for_tests(device: &'a Device) -> Self {
        Self { device, trijet: PathBuf::new(), cancel: Cancel::new() }
    }
}
