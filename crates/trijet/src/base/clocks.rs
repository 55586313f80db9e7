//! What times of operations mean.
#![forbid(unsafe_code)]

/// From when to when the times of a record reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Clocks {
    /// From ready to end: pairs of events. Time in the queue of an engine counts.
    #[default]
    ReadyToEnd,
    /// From the engine's begin to the end: a profiler, or the engines of a model.
    StartToEnd,
}
