//! The log: entries about calls and operations, and the tracers that keep them.
//!
//! A `Tracer` has the ledger of some lanes, with the times of their operations. `Tracers` has all
//! tracers of a domain. `Log` makes the entries about the calls of host threads. When nothing is
//! traced, a call only reads a flag.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod activity;
pub(crate) mod calling;
pub(crate) mod entry;
pub(crate) mod instant;
pub(crate) mod names;
pub(crate) mod reading;
pub(crate) mod task_name;
pub(crate) mod thread;
pub(crate) mod trace;
pub(crate) mod tracer;
pub(crate) mod tracers;

pub use trace::Trace;
