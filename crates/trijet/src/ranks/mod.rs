//! Processes that work together, and find the loss of one of them.
//!
//! [`Ranks`] joins the processes. [`LauncherRank`] reads the variables that torchrun, MPI or Slurm
//! set for them. [`CommunicatorBuilder::rank`](crate::comm::CommunicatorBuilder::rank) has one
//! device of each process.
#![forbid(unsafe_code)]

pub(crate) mod frames;
pub(crate) mod group;
pub(crate) mod join;
mod launcher;
mod messages;
#[expect(clippy::module_inception, reason = "a file is named after the one type that it holds")]
mod ranks;
pub(crate) mod steps;
mod token;

pub use launcher::LauncherRank;
pub use ranks::Ranks;
