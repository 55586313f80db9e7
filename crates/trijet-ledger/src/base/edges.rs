//! The legal edges of a ledger: the order of the points of operations, by the laws of streams.
//!
//! An operation of a stream has three points ([`Point`]): its start, its trigger and its end. An
//! edge leads to a start, or to the return of a call of the host, and leaves from one of these:
//!
//! | law | from | to | [`Edge`] |
//! |---|---|---|---|
//! | A1 | the end of the previous operation of the stream | start | `Lane` |
//! | A2 | the call that enqueues the operation, and what its thread knew | start | `Call` |
//! | A4, A7 | the ends of everything that the stream held at a record | start of a wait | `Event` |
//! | A13, A14, A38 | the ends of the work of the blocking or legacy stream | start | `Legacy` |
//! | A8 to A10 | the ends of the work that the host waits for | return of the wait | `Waited` |
//! | A16 to A18 | the trigger or the end of the operation itself | return of its call | `Waited` |
//! | A31 | the end of the previous launch of the same graph | start of a launch | `Graph` |
//! | A27 | the start of a host function | each act of the host function | - |
//!
//! The trigger of an operation is its end, except for a staged copy. The trigger of a staged copy
//! is the moment at which the copy has read its source. The call of the copy returns then.
//!
//! A reader takes the entries of a ledger one by one and asks [`Streams`] what each of them
//! follows. The set of everything that has passed at a point is a type of the reader ([`Past`]).
//! The checker uses a vector clock, because it reads ledgers of any length. The timeline's graph
//! uses a list of nodes, each with its edge. So each law of streams is stated once, here. The
//! readers add the other orders: the checker adds the orders of memory ownership, of signals and of
//! events in doubt, and the timeline adds the order of each engine.
//!
//! The ordering of the library, the host device and the judge of the tests must not use this
//! module. If they did, they would repeat a mistake of this module instead of showing it.
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
