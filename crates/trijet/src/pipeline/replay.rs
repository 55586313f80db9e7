//! Whether the runs of a prepared pipeline are launches of a graph.
#![forbid(unsafe_code)]

use std::fmt;

/// Whether the runs of a [prepared](super::Pipeline::prepare) pipeline are launches of one
/// [graph](crate::graph).
///
/// The host then makes one call for a run instead of one for each operation, and the device needs less time
/// between kernels. That matters where stages launch many short kernels. The copies of a run cost the same in a
/// graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Replay {
    /// From the second run on, if a run has at least 8 launches, two for each copy or fill, and at most 1024 chunks. Each run calls
    /// the stages, as ever, and what they enqueue is compared with the graph: other scalars and other memory change
    /// its nodes. Once they enqueue other operations, or operations that a graph cannot have, allocate
    /// memory, or use a stream of their own, this run and later ones are ordinary; its stages are then called twice. [`Prepared::replayed`](super::Prepared::replayed)
    /// tells.
    #[default]
    Automatic,
    /// In every run. `prepare` calls each stage once for each chunk, and runs call none: what a stage
    /// computes from the state of the program stays as it was then, and memory that it allocates belongs to the
    /// graph. `prepare` returns the error of a stage that enqueues what a graph cannot have.
    Fixed,
    /// In no run.
    Never,
}

/// Whether the last run of a [prepared](super::Pipeline::prepare) pipeline was a launch of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayed {
    /// Not yet: the second run decides.
    Undecided,
    /// It was a launch of a graph with so many operations.
    Yes {
        /// The operations of the graph.
        operations: usize,
    },
    /// It was not, and no later one will be, for this reason.
    No(String),
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undecided => f.write_str("not replayed yet"),
            Self::Yes { operations } => write!(f, "replayed, {operations} operations"),
            Self::No(reason) => write!(f, "not replayed: {reason}"),
        }
    }
}
