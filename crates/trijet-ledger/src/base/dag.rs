//! The graph of a traced run: operations and calls of the host, with their times, and the edges
//! that order them.
//!
//! An operation has two nodes: the call of the host, and the work of the device. The edges follow
//! the laws. They are the order of a stream (A1), a call before its work (A2), a record before the
//! waits for it (A4, A7), and the barriers of the legacy stream (A13, A14). There is also the order
//! of the calls of a host thread. The end of work comes before the return of a call that waited for
//! the work (A8 to A10). An engine that does one operation at a time adds an edge from each of its
//! operations to the next operation.
//!
//! Pairs of events measure an operation from the moment at which it was ready to its end. In the
//! graph, the operation starts when its call is over, everything before it is done, and its engine
//! is free. So the intervals of one copy engine never overlap. If the times come from the engines,
//! an operation starts at its measured start. Then the previous operation of the engine precedes it
//! only if the previous operation had ended by that start. An edge is left out and counted if the
//! clocks contradict the edge: the end of its first node was measured later than the end of its
//! second node. The time to build the graph is linear in the number of entries, except for sorting
//! them.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod build;
mod graph;
mod nodes;

pub use crate::base::edges::Edge;
pub use graph::{Dag, DagNode, HeldBy, Kernels, by_engine};
