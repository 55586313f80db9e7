//! Points of operations, the edges between them, and sets of what has passed at a point.
#![forbid(unsafe_code)]

/// A point of an operation, or of a call of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    /// The start: everything that the operation or the call follows has passed.
    Begin,
    /// A point before the end, from which later operations may start. For a staged copy, this point
    /// is the moment at which the copy has read its source.
    Trigger,
    /// The end: the operation or the call is complete.
    End,
}

/// The reason why one point comes before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Edge {
    /// Both points are in one stream.
    Lane,
    /// The first point is at a record of an event, and the second point is at a wait for the event.
    Event,
    /// One point is in the legacy stream, and the other point is in a blocking stream.
    Legacy,
    /// Both points are in launches of one graph, which runs once at a time.
    Graph,
    /// The first point is in the call that enqueues the operation of the second point.
    Call,
    /// Both points are in calls of one host thread.
    Thread,
    /// A call of the host waited for the first point, and the second point is the return of that
    /// call.
    Waited,
    /// No law: one engine executed both operations, one after the other.
    Engine,
}

/// The edges that a reader relies on, in addition to the edges that CUDA documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laws {
    /// No additional edges.
    Documented,
    /// Edges that a driver was observed to keep but does not promise. A record in the legacy stream
    /// holds the blocking streams back as an operation does (law A14). A copy of pageable memory is
    /// staged, or complete, when its call returns (law A17).
    Observed,
    /// Edges that an H200 kept in every measurement: records, waits and allocations are in order
    /// with the legacy stream like other work. The times of a call that may wait show whether the
    /// call waited.
    Measured,
}

/// The set of everything that has passed at a point. If the set has a member, it also has
/// everything that comes before that member.
pub(crate) trait Past: Clone + Default {
    /// Adds everything in `other`. The point of `other` comes before this point because of `edge`.
    fn follow(&mut self, other: &Self, edge: Edge);

    /// Makes the set equal to `other`, without a new allocation if there is room.
    fn copy_from(&mut self, other: &Self);
}
