//! Pipelines: source, upload, kernels, download and sink work at the same time, on different chunks
//! of rows.
//!
//! A pipeline records no events to order its streams. A slot is a set of buffers, and every wait
//! between the streams of a run follows from the uses of the buffers in the slots.
//!
//! The data may be in files, or in any type that implements [`Source`](crate::Source) or
//! [`Sink`](crate::Sink). Page-locked memory is used without a copy. Typed data may be in slices
//! and vectors ([`rows_of`]), iterators ([`rows_from_iter`]) and functions ([`rows_from_fn`],
//! [`rows_to_fn`]).
//!
//! A pipeline is described (`describe`), planned (`plan`), run (`run`) and reported (`report`). A
//! run has four steps, each in a file of that name: `validate`, `allocate`, `drive` and `measure`.
#![forbid(unsafe_code)]

pub(crate) mod describe;
mod plan;
pub(crate) mod report;
mod run;

pub use describe::host_work::HostWork;
pub use describe::progress::Progress;
pub use describe::replay::{Replay, Replayed};
pub use describe::rows::{rows_from_fn, rows_from_iter, rows_of, rows_to_fn};
pub use describe::sharing::Sharing;
pub use describe::sink::ParallelSink;
pub use describe::source::Blocks;
pub use describe::stage::StageCx;
pub use plan::calibrate::{Calibration, Copies};
pub use plan::layout::Layout;
pub use plan::limits::Limits;
pub use plan::schedule::Schedule;
pub use plan::{Chunk, ChunkChoice, Plan};
pub use report::advice::{Advice, Bound, Change};
pub use report::memory::MemoryUse;
pub use report::{Cold, EngineReport};
pub use run::budget::Needs;
pub use run::choose::Tried;
pub use run::prepared::Prepared;
