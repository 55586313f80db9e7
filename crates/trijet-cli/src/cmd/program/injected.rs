//! The recorders that the driver loads into a program, with the names of their variables and files.
#![forbid(unsafe_code)]

use trijet_cupti::calls::CALLS;
use trijet_cupti::recorder::RECORDINGS;
use trijet_cupti::{call_file, disk};

/// The environment variable that tells the CUDA driver which library to load.
pub(crate) const INJECTION: &str = "CUDA_INJECTION64_PATH";

/// The recorder that the driver loads into a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Injected {
    /// The activities of the GPU, for `trijet trace`.
    Trace,
    /// The calls of the driver, for `trijet check`.
    Calls,
    /// The same, and the memory that kernels access.
    CallsAndKernels,
}

impl Injected {
    /// The verb of the command.
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Calls | Self::CallsAndKernels => "check",
        }
    }

    /// The environment variable that names the folder for the files of processes.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::Trace => RECORDINGS,
            Self::Calls | Self::CallsAndKernels => CALLS,
        }
    }

    /// The extension of these files.
    pub(super) fn extension(self) -> &'static str {
        match self {
            Self::Trace => disk::EXTENSION,
            Self::Calls | Self::CallsAndKernels => call_file::EXTENSION,
        }
    }
}
