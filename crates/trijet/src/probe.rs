//! For tools: the libraries that Trijet opens at run time, and the activities of a process that does
//! not use Trijet.
#![forbid(unsafe_code)]

pub use crate::device::probe::{Library, LibraryReport, RECORDINGS, libraries};
pub use crate::device::record_this_process;
