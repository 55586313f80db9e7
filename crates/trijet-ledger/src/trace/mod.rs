//! Traces of runs: the times in which each engine worked, the reasons why it was idle, and the
//! files and pages that show them.
//!
//! A trace is the operations of a ledger, with their times. This module reads, writes, summarizes
//! and draws traces, but takes no traces of programs.
#![forbid(unsafe_code)]

pub mod activity;
pub mod chrome;
pub mod concurrency;
pub mod critical;
pub mod exposed;
pub mod file;
pub mod gaps;
pub mod host_engines;
pub mod html;
pub(crate) mod json;
pub mod limit;
pub mod metrics;
pub mod perfetto;
pub mod process_file;
pub mod queued;
pub mod summary;
pub mod timeline;
mod tracks;

pub use crate::base::dag;
pub use crate::base::id::{BlockId, DeviceId, LaneId, Position};
pub use crate::base::ledger::{
    Access, Accesses, Asked, Declared, Engine, Handled, HostStep, Ledger, LedgerNote, MemoryCall,
    Mode, Named, Op, OpKind, OrderedBy, Place, Route, SignalStep, Signalled, Site, StreamClass,
    StreamMark, StreamWork, Times, WaitOutcome, Waited,
};
pub use crate::base::span::Union;
pub use crate::base::times::{TimeSource, TimesFrom};
pub use crate::base::units::{count, percent_of, rate};
