//! Pipelines: source, upload, kernels, download and sink at once, over chunks of rows.
//!
//! A pipeline places no events. A slot is a set of buffers, and every wait between the streams of
//! a run follows from the uses of the buffers in the slots.
//!
//! Data come from and go to files, or any type that implements [`Source`] and [`Sink`]; page-locked
//! memory, without a copy; and, typed, slices and vectors ([`rows_of`]), iterators
//! ([`rows_from_iter`]) and functions ([`rows_from_fn`], [`rows_to_fn`]).
//!
//! A run has four steps, each in its file: `validate`, `allocate`, `drive` and `measure`.
#![forbid(unsafe_code)]

mod advice;
mod allocate;
mod brief;
mod budget;
mod builder;
mod calibrate;
mod cancel;
mod choose;
mod copy_streams;
mod crew;
mod drive;
mod enqueue;
mod host_work;
mod layout;
mod limits;
mod measure;
mod paced;
mod page;
mod pass;
mod plan;
mod prepared;
mod progress;
mod reach;
mod reader;
mod remember;
mod replay;
mod replayer;
mod report;
mod rows;
mod run;
mod schedule;
mod sharing;
mod sink;
mod slot;
mod source;
mod spans;
mod stage;
mod streams;
mod tune;
mod validate;
mod way;
mod writer;

pub use advice::{Advice, Bound, Change};
pub use budget::Needs;
pub use builder::Pipeline;
pub use calibrate::{Calibration, Copies};
pub use cancel::Cancel;
pub use choose::Tried;
pub use host_work::HostWork;
pub use layout::Layout;
pub use limits::Limits;
pub use plan::{Chunk, ChunkChoice, Plan};
pub use prepared::Prepared;
pub use progress::Progress;
pub use replay::{Replay, Replayed};
pub use report::{Cold, EngineReport, Report};
pub use rows::{rows_from_fn, rows_from_iter, rows_of, rows_to_fn};
pub use schedule::Schedule;
pub use sharing::Sharing;
pub use sink::{ParallelSink, Sink};
pub use source::Source;
pub use stage::StageCx;
