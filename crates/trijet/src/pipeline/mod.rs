//! Pipelines: source, upload, kernels, download, sink, all at once.
#![forbid(unsafe_code)]

mod io;

pub use io::{Layout, Sink, Source};
