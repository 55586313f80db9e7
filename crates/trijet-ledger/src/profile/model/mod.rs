//! The run of a program as a graph of its calls and operations, and the time that the run would
//! take without a habit.
//!
//! A moment of the graph is the start or the end of a call or of an operation. Its edges state what
//! it follows: the code of the program, the call that enqueued the operation, the operation before
//! it in the stream or in its CUDA graph, operations of other streams, and for a call that waits,
//! the operations that it waits for. A replay gives each moment the earliest time that its edges
//! allow.
//!
//! An edge reproduces a delay only as far as its reason explains it. The delay of a launch, the gap
//! between two operations of a stream and the return from a wait have maximum lengths. So the
//! replay of the unchanged run takes less than the measured time if the graph lacks a reason. The
//! difference is the error of the model, which is reported beside every gain.
//!
//! A fix removes edges or shortens delays (`fixes`). The gain of several fixes together is the gain
//! of one replay with all of them, so no time counts twice.
#![forbid(unsafe_code)]

mod build;
mod coded;
mod edges;
mod events;
mod fixes;
pub(super) mod gains;
mod graphs;
mod host;
mod ledger;
mod run;
mod sorted;
mod waits;

pub(super) use coded::CodedRun;
pub(super) use edges::CALL_NS;
pub(super) use fixes::{PROGRAM_MAX_NS, RunFix};
pub use gains::{Gains, TogetherGain};
pub(super) use ledger::{LedgerMoments, call_time, direction, is_staged};
pub(super) use run::RunModel;
pub(super) use sorted::SortedTrace;
