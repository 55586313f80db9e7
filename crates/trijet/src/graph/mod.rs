//! Graphs: operations that are recorded once and launched many times, as one operation of a stream.
//!
//! A [`Recording`] has streams whose operations do not run. The order of the operations follows
//! from their reads and writes, as for all streams of the library. Nodes of one stream follow each
//! other. Nodes of two streams follow each other only if they use the same bytes. A recording names
//! its memory as arguments, and each launch supplies the memory for them. So a graph keeps no
//! buffer of the program, and a launch is ordered with all other uses of its memory. Memory that a
//! stream of the recording allocates belongs to the graph.
#![forbid(unsafe_code)]

mod captured;
mod comparison;
mod conditional;
mod edges;
mod exec;
mod heap;
mod node;
mod nodes;
mod recording;
mod verify;

pub use exec::Graph;
#[cfg(feature = "task")]
pub(crate) use exec::{Renewed, alike};
pub use recording::Recording;
