//! For tools: the libraries that Trijet opens at run time.
#![forbid(unsafe_code)]

pub use crate::device::probe::{Library, LibraryReport, libraries};
