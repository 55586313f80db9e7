//! A run as a graph of moments. A moment is the start or the end of a call or of an operation. An
//! edge states that a moment follows another one after a delay.
#![forbid(unsafe_code)]

use crate::trace::activity::CopyDirection;

/// The time in nanoseconds of a call that enqueues one operation or waits for nothing.
pub(in crate::profile) const CALL_NS: u64 = 2_000;

/// The wait that an edge from the end of an operation to the end of a call stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOf {
    /// The call waits for a stream, an event or the device.
    Sync,
    /// The call copies, and returns when its copy is complete.
    Copy,
    /// The call copies from or to pageable memory asynchronously, and returns when the driver has
    /// staged the copy.
    Staged(CopyDirection),
    /// The call allocates or frees memory outside of stream order.
    Allocation,
}

/// The effect of a call, for the changes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOf {
    /// The call waits for a stream, an event or the device.
    Sync,
    /// The call copies, and returns when its copy is complete.
    Copy,
    /// The call copies from or to pageable memory asynchronously.
    Staged,
    /// The call allocates or frees memory outside of stream order.
    Allocation,
    /// The call enqueues operations.
    Enqueue,
    /// The call has none of these effects.
    Other,
}

/// The reason for an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EdgeKind {
    /// Nothing earlier is known: the moment keeps its time after the start of the trace.
    Start,
    /// The code of the program between two calls.
    Program,
    /// A call, from its start to its end.
    Call(CallOf),
    /// From the start of a call to the start of an operation that it enqueues.
    Launch,
    /// From an operation to the next one of its stream. `is_copy` states for both whether they
    /// copy between host and device.
    Stream {
        /// Whether the operations copy between host and device.
        is_copy: [bool; 2],
    },
    /// From an operation to an operation of another stream.
    Between,
    /// From the work before the record of an event to a wait of a stream for the event, or, in a
    /// trace, to the first operation of the stream after the wait.
    Event,
    /// From an operation of a launch of a CUDA graph, or from a node of the graph that left no
    /// operation, to one that follows it by an edge of the graph.
    Graph,
    /// From an operation to an operation of another stream, because one of the streams is the
    /// legacy stream.
    Legacy,
    /// An operation, from its start to its end.
    Run,
    /// A copy from or to pageable memory, from its start to its end.
    StagedCopy {
        /// The direction of the copy.
        direction: CopyDirection,
        /// The number of bytes of the copy.
        bytes: u64,
        /// Whether the copy's call waits until the copy is complete, whatever its memory is.
        is_waited_for: bool,
    },
    /// From the end of an operation to the end of a call that waits for it.
    Awaited(WaitOf),
}

/// An edge to a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunEdge {
    /// The earlier moment.
    pub(super) from: u32,
    /// The least time in nanoseconds between the two moments.
    pub(super) delay: u64,
    pub(super) kind: EdgeKind,
}

/// The moments of a run and their edges. Moment 0 is the start of the trace.
#[derive(Debug)]
pub(super) struct Moments {
    /// The moments, each after all moments that it follows.
    order: Vec<u32>,
    /// For each moment, the index of its first edge; the edges of a moment end where the edges of
    /// the next one begin.
    first: Vec<u32>,
    edges: Vec<RunEdge>,
}

impl Moments {
    /// The graph of `count` moments with these edges, each with the moment that it leads to. `None`
    /// if the edges have a cycle, which only damaged records have, or if there are too many.
    pub(super) fn of(count: usize, edges: &[(u32, RunEdge)]) -> Option<Self> {
        u32::try_from(edges.len().max(count)).ok()?;
        let mut first = vec![0_u32; count + 1];
        let mut followers = vec![0_u32; count + 1];
        for (to, edge) in edges {
            first[index(*to) + 1] += 1;
            followers[index(edge.from) + 1] += 1;
        }
        for at in 0..count {
            first[at + 1] += first[at];
            followers[at + 1] += followers[at];
        }
        let (mut next_edge, mut next_follower) = (first.clone(), followers.clone());
        let none = RunEdge { from: 0, delay: 0, kind: EdgeKind::Start };
        let mut sorted = vec![none; edges.len()];
        let mut follower = vec![0_u32; edges.len()];
        for (to, edge) in edges {
            sorted[take(&mut next_edge[index(*to)])] = *edge;
            follower[take(&mut next_follower[index(edge.from)])] = *to;
        }
        let mut missing: Vec<u32> = first.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut order: Vec<u32> = Vec::with_capacity(count);
        order.extend(
            (0_u32..).zip(&missing).filter(|(_, missing)| **missing == 0).map(|(at, _)| at),
        );
        let mut done = 0;
        while let Some(&moment) = order.get(done) {
            done += 1;
            let range = index(followers[index(moment)])..index(followers[index(moment) + 1]);
            for &to in &follower[range] {
                missing[index(to)] -= 1;
                if missing[index(to)] == 0 {
                    order.push(to);
                }
            }
        }
        (order.len() == count).then_some(Self { order, first, edges: sorted })
    }

    /// The same moments in the order of their times. So an edge from a moment to a later one can be
    /// added without a cycle.
    pub(super) fn by_time(mut self) -> Self {
        let times = self.times(|_, edge| Some(edge.delay));
        // Moments of equal times keep their order.
        self.order.sort_by_key(|moment| times[index(*moment)]);
        self
    }

    /// The moments, each after all moments that it follows.
    pub(super) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The edges to a moment.
    pub(super) fn edges_to(&self, moment: u32) -> &[RunEdge] {
        &self.edges[index(self.first[index(moment)])..index(self.first[index(moment) + 1])]
    }

    /// The times of all moments in nanoseconds, if the first one is at 0. `delay` returns the delay
    /// of an edge to a moment in this run; `None` if the edge does not exist in it.
    pub(super) fn times(&self, delay: impl Fn(u32, &RunEdge) -> Option<u64>) -> Vec<u64> {
        let mut times = vec![0_u64; self.order.len()];
        for &moment in &self.order {
            let ends = self.edges_to(moment).iter().filter_map(|edge| {
                Some(times[index(edge.from)].saturating_add(delay(moment, edge)?))
            });
            times[index(moment)] = ends.max().unwrap_or(0);
        }
        times
    }
}

/// A number of a moment or of an edge, as an index.
pub(super) fn index(number: u32) -> usize {
    // No supported platform has addresses of less than 32 bits.
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// The index of the next free element, and moves on to the element after it.
fn take(next: &mut u32) -> usize {
    let at = index(*next);
    *next += 1;
    at
}
