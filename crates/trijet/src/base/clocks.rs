//! The meaning of the times of operations.
#![forbid(unsafe_code)]

/// The interval that the times of an operation measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Clocks {
    /// From ready to end, as pairs of events measure. The time in the queue of an engine counts.
    #[default]
    ReadyToEnd,
    /// From the begin of the engine's work to its end, as CUPTI or a simulated clock measures.
    StartToEnd,
}
