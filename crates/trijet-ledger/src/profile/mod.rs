//! Profiles of traced programs: the time for which each engine was busy, the time for which the
//! device was idle, and the habits of the program that cost time.
//!
//! Every length is the length of a union of intervals, never a sum of durations. The cost of a
//! finding is the time in which no kernel ran while
//! the operations or calls of the finding ran. For some findings, the cost is the idle time that
//! the calls of the finding caused. Costs of findings may overlap, so the costs do not add up. The
//! gain of a finding is the time that a replay of the run with the fix saves (`model`).
//!
//! The figures of a device are about the steps of the program: named ranges that repeat, or the
//! part of the run in which the names of the kernels repeat.
//! The time before the first step, such as reading and compiling, is stated separately.
//!
//! The ranks of a program are compared by the collectives that run on all of them.
//!
//! Records that no correct device could have made are set apart first (`laws`).
//!
//! A trace does not contain the accesses of kernels, so a profile contains nothing about races.
#![forbid(unsafe_code)]

mod activities;
mod calls;
mod chosen;
mod collectives;
mod device;
mod engine;
mod findings;
mod idle;
mod laws;
mod matching;
mod model;
mod named_steps;
mod names;
mod operations;
mod page;
mod period;
mod process;
mod program;
mod queues;
mod ranges;
mod ranks;
mod steps;
mod stream_pairs;
mod text;
mod verdict;
mod waits;
mod what_if;

pub use chosen::environment::{ClockFall, ClockReason, DeviceEnvironment, ValueSpread};
pub use chosen::graphs::{GraphTime, NodeTime};
pub use collectives::Communicated;
pub use device::{DeviceProfile, EngineTime, KernelStream, KernelTime};
pub use engine::communicates;
pub use findings::Habit;
pub use idle::{Idle, IdlePart};
pub use laws::Contradiction;
pub use model::{Gains, TogetherGain};
pub use names::readable as readable_name;
pub use page::{PageOptions, page};
pub use process::{ProcessProfile, analyse};
pub use program::Profile;
pub use ranges::RangeTime;
pub use ranks::{AwaitedRank, Rank, RankJob};
pub use steps::{FiguresOf, ProgramSteps, StepTimes};
pub use stream_pairs::{PairVerdict, StreamPair};
pub use text::text;
pub use verdict::LostTime;
pub use what_if::{LedgerRun, what_if, what_if_ledger};

#[cfg(test)]
mod tests;
