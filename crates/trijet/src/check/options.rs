//! How to check.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::names::Names;

/// Which edges count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Assume {
    /// Those that CUDA documents as guaranteed.
    #[default]
    Documented,
    /// Besides, what a driver was seen to do and does not promise: a bare record in the legacy
    /// stream holds back the blocking streams (law A14), and asynchronous copies of pageable memory
    /// are staged, or done, when their call returns (law A17).
    DriverObserved,
}

/// What is known of how host threads begin and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Threads {
    /// Nothing: threads follow each other by what they waited for, and by memory that the library
    /// orders (law A44).
    #[default]
    Apart,
    /// The thread of the first record starts all others, and has joined them when it calls again.
    OneStartsAll,
}

/// How to check.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which edges count.
    pub assume: Assume,
    /// What is known of threads.
    pub threads: Threads,
    /// The record goes to the end of the program: what is not freed in it is a leak.
    pub to_the_end: bool,
    /// Findings of each class to keep; more are counted. A warning in a loop hides no error.
    pub findings_max: usize,
    /// Findings that get a witness. Each costs a pass over the record, and there is none without
    /// the whole record.
    pub witnesses_max: usize,
    /// Names for people.
    pub names: Names,
}

impl Default for Options {
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
