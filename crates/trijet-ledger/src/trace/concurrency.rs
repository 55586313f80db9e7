//! The concurrency of two operations, two streams, or two engines: whether they worked at the same
//! time, and if not, the reason.
//!
//! Times can mislead in two ways. First, two intervals that touch do not overlap: one ends when the
//! other begins. Second, a pair of events measures the time from the moment at which an operation
//! is ready to its end. So two kernels that queue for a busy device look concurrent although one
//! runs after the other. Isolated times, measured while nothing else runs, can decide the second
//! case. An operation takes at least its isolated time, whatever else runs. So the operation
//! certainly ran during the last part of its interval, for as long as its isolated time.
#![forbid(unsafe_code)]

use crate::base::dag::{Dag, DagNode, Edge};
use crate::base::id::LaneId;
use crate::base::ledger::{Engine, Op};
use crate::base::times::TimeSource;
use crate::base::units::Nanos;
use crate::trace::metrics::DeviceEngine;
use std::fmt;
use std::ops::Range;

/// The reason why the times of an operation cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableTimes {
    /// The operation has no measured times.
    Missing,
    /// The interval of the operation has no length.
    Empty,
    /// The operation began at an unknown time after it was ready. Another operation may have had
    /// the engine. The isolated times of the two operations are unknown, or do not show whether the
    /// operations ran at the same time.
    ReadyToEnd,
}

/// Whether two operations worked at the same time, and if not, why.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Concurrency {
    /// The operations worked at the same time.
    Overlap {
        /// The time for which the operations certainly worked at the same time.
        together: Nanos,
        /// `together` divided by the duration of the shorter operation.
        share: f64,
    },
    /// One operation began at the moment at which the other ended, and nothing orders the two.
    Touching,
    /// One operation was ordered before the other.
    Ordered {
        /// The first edge of the path that is not the order of a stream. If the path has no such
        /// edge, the first edge of the path.
        edge: Edge,
        /// The operation or call that the edge leads to.
        at: usize,
        /// All edges from the earlier operation to the later one.
        path: Vec<(DagNode, Edge)>,
    },
    /// Both operations needed the same engine, which executes one operation at a time.
    OneEngine(Engine),
    /// The host enqueued the later operation only after the earlier operation had ended.
    HostLate {
        /// The time from the end of the earlier operation to the enqueue of the later operation.
        by: Nanos,
    },
    /// One operation ran after the other, and no reason is known.
    Apart {
        /// The time from the end of one operation to the start of the other operation.
        by: Nanos,
    },
    /// One of the operations has no usable times.
    Unusable {
        /// The index of this operation.
        op: usize,
        /// The reason why its times cannot be used.
        why: UnusableTimes,
    },
}

impl fmt::Display for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap { together, share } => {
                let percent = share * 100.0;
                write!(f, "concurrent for {together}, {percent:.0} % of the shorter one")
            }
            Self::Touching => f.write_str("touching only: one began when the other ended"),
            Self::Ordered { edge, at, .. } => {
                let why = match edge {
                    Edge::Lane => "the order of a stream",
                    Edge::Event => "a wait for an event",
                    Edge::Legacy => "the legacy stream",
                    Edge::Graph => "a graph, which runs once at a time",
                    Edge::Call | Edge::Thread | Edge::Waited => "a wait of the host",
                    Edge::Engine => "an engine",
                };
                write!(f, "serial because ordered: {why}, #{at}")
            }
            Self::OneEngine(engine) => {
                let engine = super::critical::engine_name(*engine);
                write!(f, "serial because both need the {engine} engine")
            }
            Self::HostLate { by } => {
                write!(
                    f,
                    "serial because the host enqueued the second operation {by} after the first \
                     ended"
                )
            }
            Self::Apart { by } => write!(f, "serial, {by} apart, and nothing orders them"),
            Self::Unusable { op, why } => {
                let why = match why {
                    UnusableTimes::Missing => "has no times",
                    UnusableTimes::Empty => "took no time",
                    UnusableTimes::ReadyToEnd => {
                        "was measured from ready to end: its start is unknown"
                    }
                };
                write!(f, "not decided: #{op} {why}")
            }
        }
    }
}

/// A traced run, whose operations can be compared.
#[derive(Debug, Clone, Copy)]
pub struct TracedRun<'a> {
    /// The operations of the run.
    pub ops: &'a [Op],
    /// The graph of the operations.
    pub dag: &'a Dag,
    /// The source of the times of the operations.
    pub times: TimeSource,
}

/// The length of the time that two intervals share.
fn shared(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

impl TracedRun<'_> {
    /// The interval of an operation, if its times can be used.
    fn usable(&self, op: usize) -> Result<Range<u64>, Concurrency> {
        let Some(span) = self.dag.work(op) else {
            return Err(Concurrency::Unusable { op, why: UnusableTimes::Missing });
        };
        if span.is_empty() && self.ops[op].times.is_some_and(|times| times.begin == times.end) {
            return Err(Concurrency::Unusable { op, why: UnusableTimes::Empty });
        }
        Ok(span)
    }

    /// Whether the operations `a` and `b` worked at the same time. `isolated` has the isolated time
    /// of each of the two operations.
    #[must_use]
    pub fn concurrency(&self, a: usize, b: usize, isolated: Option<[Nanos; 2]>) -> Concurrency {
        let (first, second) = match (self.usable(a), self.usable(b)) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(verdict), _) | (_, Err(verdict)) => return verdict,
        };
        let together = shared(&first, &second);
        let (x, y) = (&self.ops[a], &self.ops[b]);
        let one_engine = (x.device, x.engine) == (y.device, y.engine);
        if together > 0 {
            let queued = one_engine && !self.times.begins_with_the_work();
            return match (queued, isolated) {
                (false, _) => overlap(together, &first, &second),
                (true, Some(isolated)) => settle(a, &first, b, &second, isolated, x.engine),
                (true, None) => {
                    let op = if first.end > second.end { a } else { b };
                    Concurrency::Unusable { op, why: UnusableTimes::ReadyToEnd }
                }
            };
        }
        self.serial((a, &first), (b, &second))
    }

    /// The reason why two operations that did not overlap ran one after the other.
    fn serial(&self, a: (usize, &Range<u64>), b: (usize, &Range<u64>)) -> Concurrency {
        let ends_first = (a.1.end, a.1.start, a.0) <= (b.1.end, b.1.start, b.0);
        let ((early, first), (late, second)) = if ends_first { (a, b) } else { (b, a) };
        if let Some(path) = self.dag.path(early, late) {
            let decisive = path.iter().find(|(_, edge)| *edge != Edge::Lane).or(path.first());
            if let Some(&(_, edge)) = decisive {
                // The path lists each edge with the node that it leads from.
                let place = path.iter().position(|(_, e)| *e == edge).unwrap_or(0);
                let at = path.get(place + 1).map_or(late, |(node, _)| node.op());
                return Concurrency::Ordered { edge, at, path };
            }
        }
        let enqueued = self.dag.enqueued(late).unwrap_or(0);
        if enqueued > first.end {
            return Concurrency::HostLate { by: Nanos(enqueued - first.end) };
        }
        let (x, y) = (&self.ops[early], &self.ops[late]);
        let waited = self.dag.before(DagNode::work(late)).iter().any(|(_, e)| *e == Edge::Engine);
        let between = second.start.saturating_sub(first.end);
        if waited && (x.device, x.engine) == (y.device, y.engine) {
            return Concurrency::OneEngine(x.engine);
        }
        match between {
            0 => Concurrency::Touching,
            by => Concurrency::Apart { by: Nanos(by) },
        }
    }

    /// Whether two streams worked at the same time. The answer is about one operation of each
    /// stream: the pair that overlaps for the longest time. If no pair overlaps, the answer is
    /// about the pair that is the shortest time apart. `None` if one of the streams has no
    /// operations with times.
    #[must_use]
    pub fn concurrency_of_streams(&self, a: LaneId, b: LaneId) -> Option<Concurrency> {
        let of = |lane| self.timed(move |op| op.position.lane == lane);
        self.nearest(&of(a), &of(b))
    }

    /// Whether two engines worked at the same time, found as in
    /// [`TracedRun::concurrency_of_streams`].
    #[must_use]
    pub fn concurrency_of_engines(&self, a: DeviceEngine, b: DeviceEngine) -> Option<Concurrency> {
        let of = |engine| self.timed(move |op| (op.device, op.engine) == engine);
        self.nearest(&of(a), &of(b))
    }

    /// The wanted operations that have times, sorted by start.
    fn timed(&self, wanted: impl Fn(&Op) -> bool) -> Vec<usize> {
        let all = (0..self.ops.len()).filter(|op| wanted(&self.ops[*op]));
        let mut timed: Vec<usize> = all.filter(|op| self.dag.work(*op).is_some()).collect();
        timed.sort_by_key(|op| self.dag.work(*op).map(|span| span.start));
        timed
    }

    /// The answer for the pair that overlaps for the longest time. If no pair overlaps, the answer
    /// for the pair that is the shortest time apart. Merges the two lists in order of time.
    fn nearest(&self, first: &[usize], second: &[usize]) -> Option<Concurrency> {
        let (mut i, mut j) = (0, 0);
        let mut best: Option<(i128, usize, usize)> = None;
        while let (Some(&x), Some(&y)) = (first.get(i), second.get(j)) {
            let (s, t) = (self.dag.work(x)?, self.dag.work(y)?);
            // Positive for a pair that overlaps, negative for one that is apart.
            let near = i128::from(s.end.min(t.end)) - i128::from(s.start.max(t.start));
            if best.is_none_or(|(nearest, ..)| near > nearest) {
                best = Some((near, x, y));
            }
            if s.end < t.end {
                i += 1;
            } else {
                j += 1;
            }
        }
        best.map(|(_, x, y)| self.concurrency(x, y, None))
    }
}

fn overlap(together: u64, first: &Range<u64>, second: &Range<u64>) -> Concurrency {
    let shorter = (first.end - first.start).min(second.end - second.start).max(1);
    Concurrency::Overlap { together: Nanos(together), share: together as f64 / shorter as f64 }
}

/// The answer for two intervals from ready to end on one engine, with the isolated time of each.
fn settle(
    a: usize,
    first: &Range<u64>,
    b: usize,
    second: &Range<u64>,
    isolated: [Nanos; 2],
    engine: Engine,
) -> Concurrency {
    let tail = |span: &Range<u64>, isolated: Nanos| {
        span.end.saturating_sub(isolated.0).max(span.start)..span.end
    };
    let (x, y) = (tail(first, isolated[0]), tail(second, isolated[1]));
    let together = shared(&x, &y);
    if together > 0 {
        return overlap(together, &x, &y);
    }
    let (late, later, earlier) =
        if first.end > second.end { (a, &x, second) } else { (b, &y, first) };
    // Compares the time from the end of the earlier operation to the end of the later operation
    // with the isolated time of the later operation. If the time is not longer than the isolated
    // time, the later operation ran after the earlier one. If the time is longer, the later
    // operation either waited, or ran at the same time and was slowed down.
    let left = later.end - earlier.end.min(later.end);
    if left <= (later.end - later.start) + (later.end - later.start) / 20 {
        return Concurrency::OneEngine(engine);
    }
    Concurrency::Unusable { op: late, why: UnusableTimes::ReadyToEnd }
}
