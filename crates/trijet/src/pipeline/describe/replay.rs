//! Whether the runs of a prepared pipeline are launches of a graph.
#![forbid(unsafe_code)]

use std::fmt;

/// Whether the runs of a [prepared](crate::Pipeline::prepare) pipeline are launches of
/// one [graph](crate::graph).
///
/// With a graph, the host makes one call per run instead of one call per operation, and the device
/// needs less time between kernels. This saves time if stages launch many short kernels. Copies
/// cost the same in a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Replay {
    /// From the second run on, runs are launches of a graph under three conditions: a run has at
    /// least 8 launches, at least two launches for each copy or fill, and at most 1024 chunks. Each
    /// run still calls the stages, and compares their operations with the graph. If only scalars or
    /// memory differ, the nodes of the graph are changed. The graph is dropped if a stage enqueues
    /// other operations, enqueues operations that a graph cannot have, allocates memory, or uses
    /// its own streams. The run in which this happens calls its stages twice. This run and all
    /// later runs are ordinary. [`Prepared::replayed`](crate::pipeline::Prepared::replayed) states
    /// whether there is a graph.
    #[default]
    Automatic,
    /// Every run is a launch of a graph. `prepare` calls each stage once for each chunk, and runs
    /// call no stage. So values that a stage computes from the state of the program stay as they
    /// were in `prepare`. Memory that a stage allocates belongs to the graph. If a stage enqueues
    /// an operation that a graph cannot have, `prepare` returns the error. If kernels use the
    /// page-locked data itself ([`Schedule::InPlace`](crate::pipeline::Schedule::InPlace)), a run
    /// returns `InvalidValue` for data at another address modulo 256 bytes.
    Fixed,
    /// No run is a launch of a graph.
    Never,
}

/// Whether the last run of a [prepared](crate::Pipeline::prepare) pipeline was a launch
/// of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayed {
    /// No graph was tried yet. The second run decides whether later runs are launches of a graph.
    Undecided,
    /// The run was a launch of a graph.
    Yes {
        /// The number of operations of the graph.
        operations: usize,
    },
    /// Neither this run nor a later run is a launch of a graph, for this reason.
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
