//! Options of a check.
#![forbid(unsafe_code)]

use super::names::Names;

/// The edges that the checker relies on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Assume {
    /// The edges that CUDA documents as guaranteed.
    #[default]
    Documented,
    /// The documented edges, and edges that a driver was observed to keep but does not promise: a
    /// bare record in the legacy stream holds back the blocking streams (law A14), and an
    /// asynchronous copy of pageable memory is staged, or complete, when its call returns (law
    /// A17).
    DriverObserved,
}

/// The assumption of the checker about the start and the end of host threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Threads {
    /// Nothing. Threads are ordered only by what they waited for (law A11), and by memory that the
    /// library orders (law A44).
    #[default]
    Apart,
    /// The thread of the first entry starts all others. When it makes its next call, it has joined
    /// them.
    OneStartsAll,
}

/// Options of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckOptions {
    /// The edges that the checker relies on.
    pub assume: Assume,
    /// The assumption about host threads.
    pub threads: Threads,
    /// Whether the trace reaches the end of the program. If so, an allocation that it does not free
    /// is a leak.
    pub to_the_end: bool,
    /// The number of findings to keep of each class. Further ones are only counted. The limit is
    /// per class, so that repeated warnings do not hide an error.
    pub findings_max: usize,
    /// The number of findings that get a witness. Each witness costs a pass over the trace. A
    /// [`Checker`](super::Checker), which does not have the whole trace, makes none.
    pub witnesses_max: usize,
    /// Names to print in reports.
    pub names: Names,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            assume: Assume::Documented,
            threads: Threads::Apart,
            to_the_end: false,
            findings_max: 1000,
            witnesses_max: 8,
            names: Names::default(),
        }
    }
}
