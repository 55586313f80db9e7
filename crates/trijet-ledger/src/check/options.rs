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
    /// The documented edges, and edges that a driver was observed to keep but does not promise. A
    /// record in the legacy stream holds back the blocking streams as an operation does (law
    /// [A14](crate::laws#a14)). An asynchronous copy of pageable memory is staged, or complete,
    /// when its call returns (law [A17](crate::laws#a17)).
    DriverObserved,
}

/// The assumption of the checker about the start and the end of host threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Threads {
    /// No assumption. Threads are ordered only by the work that they waited for (law
    /// [A11](crate::laws#a11)), and by memory that the library orders (law [A44](crate::laws#a44)).
    #[default]
    Apart,
    /// The thread of the first entry starts all other threads. When the first thread makes its next
    /// call, it has joined the threads that made calls before.
    OneStartsAll,
}

/// Options of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "nothing is checked yet"]
pub struct CheckOptions {
    pub(crate) assume: Assume,
    pub(crate) threads: Threads,
    pub(crate) to_the_end: bool,
    pub(crate) findings_max: usize,
    pub(crate) names: Names,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self {
            assume: Assume::Documented,
            threads: Threads::Apart,
            to_the_end: false,
            findings_max: 1000,
            names: Names::default(),
        }
    }
}

impl CheckOptions {
    /// The default options: documented edges, no assumption about host threads, and a trace that
    /// may end before the program does.
    pub fn new() -> Self {
        Self::default()
    }

    /// The edges that the checker relies on.
    pub fn assume(mut self, assume: Assume) -> Self {
        self.assume = assume;
        self
    }

    /// The assumption about host threads.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// States that the trace reaches the end of the program, so that an allocation without a free
    /// is a leak.
    pub fn to_the_end(mut self) -> Self {
        self.to_the_end = true;
        self
    }

    /// Maximum number of findings of each class that are kept, 1000 by default. Further findings
    /// are only counted. The limit is per class, so that repeated warnings do not hide an error.
    pub fn findings_max(mut self, findings: usize) -> Self {
        self.findings_max = findings;
        self
    }

    /// Names to print in reports.
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }
}
