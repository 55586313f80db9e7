//! Processes that work together, and that notice the loss of a process.
//!
//! [`Ranks`] joins the processes. [`LauncherRank`] reads the variables that torchrun, MPI or Slurm
//! set for a process. [`CommunicatorBuilder::rank`](crate::comm::CommunicatorBuilder::rank) opens a
//! communicator with one device of each process.
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
