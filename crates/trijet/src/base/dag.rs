//! What had to come before what in a recorded run, and when: the graph of the ends and begins of
//! operations and of calls of the host.
//!
//! An operation has two nodes: the call of the host, and what the device did. Edges are those of
//! the laws: order of a stream (A1), a call before its work (A2), a wait after the record it stands
//! for (A4, A7), the barriers of the legacy stream (A13, A14), order of a host thread, a wait of the
//! host after what it waited for (A8 to A10), and, where an engine does one thing at a time, the
//! operation that it did before.
//!
//! Pairs of events measure from ready to end. Here an operation begins when its call was over, all
//! that precedes it was done, and its engine was free; so the intervals of one copy engine never
//! overlap. Where times are the engines' own, an operation begins when it was measured to, and only
//! what was done by then precedes it on its engine. An edge that the clocks contradict, because what comes first ended last, is left out
//! and counted. Everything is linear in the number of records but for sorting them.
//!
//! Imports: nothing but `base`. Imported by: `trace`, `check`.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod build;
mod graph;
mod nodes;

pub use crate::base::edges::Edge;
pub use graph::{Dag, Held, Kernels, Node, by_engine};
