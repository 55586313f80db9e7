//! Array and image files as sources and sinks of pipelines: formats, outputs that appear under
//! their final name when they are complete, and the journal with which a stopped run is resumed.
#![forbid(unsafe_code)]

pub mod file_error;
pub mod format;
pub mod journal;
pub mod output;
