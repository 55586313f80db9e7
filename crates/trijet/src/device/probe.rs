//! A report on the libraries of CUDA on this machine.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::device::cuda;
pub use crate::device::cuda::Library;

/// The report on one library.
#[derive(Debug)]
#[non_exhaustive]
pub struct LibraryReport {
    /// The library.
    pub library: Library,
    /// The symbols that the library lacks, or the reason why it cannot be used.
    pub state: Result<Vec<&'static str>>,
}

/// Opens every library of CUDA and reports the result. Calls no function of the libraries.
///
/// ```
/// let report = trijet::probe::libraries();
/// assert_eq!(report.len(), 4);
/// ```
#[must_use]
pub fn libraries() -> Vec<LibraryReport> {
    Library::ALL
        .into_iter()
        .map(|library| LibraryReport { library, state: cuda::missing_symbols(library) })
        .collect()
}
