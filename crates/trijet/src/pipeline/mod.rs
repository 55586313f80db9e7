//! Pipelines: source, upload, kernels, download, sink, all at once, over chunks of rows.
//!
//! A run needs no events from its user. Slots are buffers, lanes are streams, and every wait
//! between them follows from the uses of the buffers.
#![forbid(unsafe_code)]

mod calibrate;
mod host_work;
mod io;
mod page;
mod plan;
mod report;
mod run;
mod spec;
mod tune;

pub use calibrate::Calibration;
pub use host_work::HostWork;
pub use io::{Layout, Sink, Source};
pub use plan::{Chunk, Plan, Schedule};
pub use report::{Cold, EngineReport, Report};
pub use spec::{Cancel, Pipeline, Progress, StageCx};
