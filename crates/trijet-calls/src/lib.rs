//! The calls that a foreign program made to the CUDA driver, read as a ledger and judged by the
//! checker of Trijet.
//!
//! `trijet check -- PROGRAM` makes the driver load the recorder of `trijet-cupti` into the program.
//! The recorder writes the calls of each process to a file ([`CallFile`]). This crate turns the
//! calls into entries of a ledger, and checks them ([`judge`]):
//!
//! - Copies, fills and frees declare what they read and write, so a conflict between them is an
//!   error.
//! - A kernel gets addresses as arguments. Unless its reads and writes were seen, a conflict with
//!   an address among its arguments is possible, and no error.
//! - With `trijet check --kernels`, the reads and writes of kernels are seen by their addresses,
//!   and a conflict between them is an error.
//! - The nodes of a graph follow its edges. They are judged at the first launch of the graph.
//!
//! The order of streams, events, captures and waits of the host comes from the laws of the ledger.
//! The calls of all host threads count as one sequence, in the order in which they returned: the
//! locks and joins by which threads order their calls are no calls of the driver.
#![forbid(unsafe_code)]

mod accesses;
mod call_stack;
mod captures;
mod excerpt;
mod file;
mod growing;
mod inside;
mod judged;
mod memory;
mod nodes;
mod reader;
mod seen;
mod streams;
mod tensors;

pub use excerpt::{Excerpt, excerpt};
pub use file::{Call, CallFile, Entry, FileError, TouchedRanges};
pub use growing::GrowingCalls;
pub use judged::{Judged, Possible, Stack, judge};
pub use trijet_cupti::call_file::CallLaunches;
