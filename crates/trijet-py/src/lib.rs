//! The extension module of the Python package `trijet`. The package in `python/trijet` is thin: it
//! checks and names arguments, and calls this module.
//!
//! Nothing is opened when the module is imported: no driver, no device, no thread.

mod array;
mod buffer;
mod dlpack;
mod error;
mod feed;
mod host_stage;
mod import;
mod job;
mod job_claims;
mod job_files;
mod operation;
mod outcome;
mod parts;
mod saved;
mod source;
mod stage;
mod stage_array;
mod streams;
mod target;
mod verdict;
mod watched;

use pyo3::prelude::*;
use std::ffi::OsString;
use std::process::ExitCode;

/// The native module.
#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::array::dtype_names;
    #[pymodule_export]
    use crate::buffer::{Buffer, empty, from_dlpack, from_interface, upload};
    #[pymodule_export]
    use crate::feed::Feed;
    #[pymodule_export]
    use crate::job::{plan, run};
    #[pymodule_export]
    use crate::job_files::Plan;
    #[pymodule_export]
    use crate::main;
    #[pymodule_export]
    use crate::operation::{Operation, operations};
    #[pymodule_export]
    use crate::outcome::Report;
    #[pymodule_export]
    use crate::parts::Options;
    #[pymodule_export]
    use crate::saved::{Recording, Saved};
    #[pymodule_export]
    use crate::source::{MemorySource, PathSource, PullSource, can_open};
    #[pymodule_export]
    use crate::stage::Stage;
    #[pymodule_export]
    use crate::stage_array::{DeviceArray, Stream};
    #[pymodule_export]
    use crate::target::{MemoryTarget, PathTarget, PushTarget};
    #[pymodule_export]
    use crate::watched::WatchedProcess;
}

/// Runs a command line of the command `trijet` in this process, and returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<OsString>) -> u8 {
    let code = py.detach(|| trijet_cli::main(args));
    // An `ExitCode` can be compared, but does not tell its number.
    (0..=u8::MAX).find(|number| ExitCode::from(*number) == code).unwrap_or(1)
}
