//! The libraries of CUDA that this machine has, and what is missing of the others.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::device::cuda;
pub use crate::device::cuda::{Library, RECORDINGS};

/// The state of one library on this machine.
#[derive(Debug)]
pub struct LibraryReport {
    /// Which library.
    pub library: Library,
    /// `Ok` with the symbols that it lacks, or why it cannot be used.
    pub state: Result<Vec<&'static str>>,
}

/// Looks at every library without using any.
///
/// ```
/// let report = trijet::device::probe::libraries();
/// assert_eq!(report.len(), 4);
/// ```
#[must_use]
pub fn libraries() -> Vec<LibraryReport> {
    Library::ALL
        .into_iter()
        .map(|library| LibraryReport { library, state: cuda::missing_symbols(library) })
        .collect()
}
