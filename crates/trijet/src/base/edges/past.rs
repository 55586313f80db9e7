//! What has passed at a point, and why one point comes before another.
#![forbid(unsafe_code)]

/// A point of an operation, or of a call of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// It begins: all that it follows has passed.
    Begin,
    /// It lets others go on before its end: a staged copy has read its source.
    Trigger,
    /// It is complete.
    End,
}

/// Why one point comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// Both are in one stream.
    Lane,
    /// A wait for an event.
    Event,
    /// The legacy stream and a blocking one.
    Legacy,
    /// The call that enqueued it.
    Call,
    /// Both are calls of one host thread.
    Thread,
    /// The host waited for it.
    Waited,
    /// No law: the engine was taken.
    Engine,
}

/// Which edges count beside those that CUDA documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laws {
    /// None.
    Documented,
    /// Those that a driver was seen to keep and does not promise: a bare record in the legacy stream
    /// holds the blocking streams back (law A14), and copies of pageable memory are staged, or done,
    /// when their call returns (law A17).
    Observed,
    /// All that an H200 did whenever it was measured: records, waits and allocations are in order with
    /// the legacy stream like other work. Of calls that may wait, the times say whether they did.
    Measured,
}

/// What has passed at a point: a set that is closed under what comes before.
pub(crate) trait Past: Clone + Default {
    /// Adds what has passed at `other`, which comes before because of `edge`.
    fn follow(&mut self, other: &Self, edge: Edge);

    /// Becomes `other`, and keeps its memory.
    fn copy_from(&mut self, other: &Self);
}
