//! The legal edges of a ledger: which points of operations come before which, by the laws of streams.
//!
//! An operation of a stream has three points ([`Point`]): its begin, its trigger and its end. Edges
//! lead to a begin, or to the return of a call of the host, and leave from
//!
//! | law | from | to | [`Edge`] |
//! |---|---|---|---|
//! | A1 | the end of the operation before in the stream | begin | `Lane` |
//! | A2 | the call that enqueues the operation, and what its thread knew | begin | `Call` |
//! | A4, A7 | the ends of what the stream of a record held | begin of what follows the wait | `Event` |
//! | A13, A14, A38 | the ends of what the blocking streams held, or the legacy stream | begin | `Legacy` |
//! | A8 to A10 | the ends of what is waited for | return of the wait | `Waited` |
//! | A16 to A18 | the trigger or the end of the operation itself | return of its call | `Waited` |
//! | A27 | the begin of a host function | what it does inside | - |
//!
//! The trigger of an operation is its end unless something is stated of its kind: a staged copy lets
//! its call return when it has read its source.
//!
//! [`Streams`] takes the entries of a ledger one by one. What has passed at a point is a value of the
//! reader's ([`Past`]): the checker's is a vector clock, so that it can read a ledger without end; the
//! timeline's is the list of the nodes of its graph that say so, each with its edge. So each law
//! stands here once, for both. Order that no edge of a stream makes is with the reader that knows of
//! it: ownership of memory, signals and doubtful events with the checker, engines with the timeline.
//!
//! The ordering of the library, the host device and the judge of the tests do not use this module:
//! each of them would hide a mistake in it.
//!
//! Imports: `base`. Imported by: `base::dag`, `check`.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod past;
mod peers;
mod returns;
mod streams;
#[cfg(test)]
mod tests;

pub use past::Edge;
pub(crate) use past::{Laws, Past, Point};
pub(crate) use returns::{may_wait, passed_at_return};
pub(crate) use streams::{Begun, Caller, Role, Streams};
