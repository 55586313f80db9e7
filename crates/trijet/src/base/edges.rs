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
//! The trigger of an operation is its end, except for a staged copy: its trigger is the moment at which
//! it has read its source, and its call returns then.
//!
//! A reader takes the entries of a ledger one by one and asks [`Streams`] what each of them follows.
//! What has passed at a point is a type of the reader ([`Past`]): a vector clock of the checker, which
//! reads a ledger of any length, or a list of nodes of the timeline's graph, each with its edge. So
//! each law is stated once, here. Other orders are stated by the reader that knows them: ownership of
//! memory, signals and doubtful events by the checker, engines by the timeline.
//!
//! The ordering of the library, the host device and the judge of the tests must not use this module:
//! they would repeat a mistake in it instead of showing it.
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
