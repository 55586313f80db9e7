//! Graphs: operations that are recorded once and launched many times, as one operation of a stream.
//!
//! A [`Recording`] has streams whose operations do not run. What they read and write gives the order among
//! them, as for all streams of the library: nodes of one stream follow each other, and nodes of two streams
//! only where they use the same bytes. The memory of a recording is named by arguments, and each launch
//! says which memory stands for them. So a graph keeps no buffer of the program, and a launch is ordered with everything
//! else that uses its memory. What a stream of the recording allocates belongs to the graph.
#![forbid(unsafe_code)]

mod arguments;
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

pub use arguments::Arguments;
pub use exec::Graph;
pub(crate) use exec::{Renewed, alike};
pub use recording::Recording;
