//! Were two operations, or two streams, really at work at once? One of six answers, with its reason.
//!
//! Two things mislead. Touching is not overlap: an end and a begin at one moment. And pairs of events
//! measure from ready to end: two kernels queued on a busy device look concurrent although one ran
//! after the other. Durations measured alone settle that, because an operation beside others takes
//! at least as long: it certainly ran during the last part of its interval that is as long as that.
#![forbid(unsafe_code)]

pub use crate::base::clocks::Clocks;
use crate::base::dag::{Dag, Edge, Node};
use crate::base::id::LaneId;
use crate::base::ledger::{Engine, Op};
use crate::base::units::Nanos;
use crate::trace::metrics::DeviceEngine;
use std::fmt;
use std::ops::Range;

/// Why an operation's interval says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusableTimes {
    /// It was not measured.
    Missing,
    /// It has no length.
    Empty,
    /// It began at an unknown moment after it was ready: another operation may have had the engine,
    /// and how long the two take alone is not known, or does not settle it.
    ReadyToEnd,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Concurrency {
    /// They worked at once.
    Overlap {
        /// For how long, at least.
        together: Nanos,
        /// As a share of the shorter one.
        share: f64,
    },
    /// One began at the moment at which the other ended; nothing forbade more.
    Touching,
    /// One had to come before the other.
    Ordered {
        /// The edge that says so: the first on the way that is not the order of a stream, if any.
        edge: Edge,
        /// The record that the edge leads to.
        at: usize,
        /// All edges, from the earlier operation to the later one.
        path: Vec<(Node, Edge)>,
    },
    /// Both needed the one engine.
    OneEngine(Engine),
    /// The host enqueued the later one only after the earlier one had ended.
    HostLate {
        /// How long after.
        by: Nanos,
    },
    /// Nothing that orders or forbids is known: they came one after the other by themselves.
    Apart {
        /// The time between them.
        by: Nanos,
    },
    /// One of them has no usable time.
    Unusable {
        /// Which one.
        op: usize,
        /// Why.
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
                write!(f, "serial because the host enqueued the second {by} after the first ended")
            }
            Self::Apart { by } => write!(f, "serial, {by} apart, and nothing orders them"),
            Self::Unusable { op, why } => {
                let why = match why {
                    UnusableTimes::Missing => "was not measured",
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

/// What the question is asked with.
#[derive(Debug, Clone, Copy)]
pub struct TracedRun<'a> {
    /// The records.
    pub ops: &'a [Op],
    /// Their graph.
    pub dag: &'a Dag,
    /// What their times mean.
    pub clocks: Clocks,
}

fn shared(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

impl TracedRun<'_> {
    fn usable(&self, op: usize) -> Result<Range<u64>, Concurrency> {
        let Some(span) = self.dag.work(op) else {
            return Err(Concurrency::Unusable { op, why: UnusableTimes::Missing });
        };
        if span.is_empty() && self.ops[op].times.is_some_and(|times| times.begin == times.end) {
            return Err(Concurrency::Unusable { op, why: UnusableTimes::Empty });
        }
        Ok(span)
    }

    /// Were `a` and `b` at work at once? `alone` is how long each takes when nothing else runs.
    #[must_use]
    pub fn concurrency(&self, a: usize, b: usize, alone: Option<[Nanos; 2]>) -> Concurrency {
        let (first, second) = match (self.usable(a), self.usable(b)) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(verdict), _) | (_, Err(verdict)) => return verdict,
        };
        let together = shared(&first, &second);
        let (x, y) = (&self.ops[a], &self.ops[b]);
        let one_engine = (x.device, x.engine) == (y.device, y.engine);
        if together > 0 {
            let queued = one_engine && self.clocks == Clocks::ReadyToEnd;
            return match (queued, alone) {
                (false, _) => overlap(together, &first, &second),
                (true, Some(alone)) => settle((a, &first), (b, &second), alone, x.engine),
                (true, None) => {
                    let op = if first.end > second.end { a } else { b };
                    Concurrency::Unusable { op, why: UnusableTimes::ReadyToEnd }
                }
            };
        }
        self.serial((a, &first), (b, &second))
    }

    /// Why two that did not overlap came one after the other.
    fn serial(&self, a: (usize, &Range<u64>), b: (usize, &Range<u64>)) -> Concurrency {
        let ends_first = (a.1.end, a.1.start, a.0) <= (b.1.end, b.1.start, b.0);
        let ((early, first), (late, second)) = if ends_first { (a, b) } else { (b, a) };
        if let Some(path) = self.dag.path(early, late) {
            let decisive = path.iter().find(|(_, edge)| *edge != Edge::Lane).or(path.first());
            if let Some(&(_, edge)) = decisive {
                // An edge is listed with what it leads from; the record it leads to comes next.
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
        let waited = self.dag.before(Node::work(late)).iter().any(|(_, e)| *e == Edge::Engine);
        let between = second.start.saturating_sub(first.end);
        if waited && (x.device, x.engine) == (y.device, y.engine) {
            return Concurrency::OneEngine(x.engine);
        }
        match between {
            0 => Concurrency::Touching,
            by => Concurrency::Apart { by: Nanos(by) },
        }
    }

    /// Were two streams at work at once? Decided by the pair of their operations that came nearest to
    /// it; `None` when one of them did nothing.
    #[must_use]
    pub fn concurrency_of_streams(&self, a: LaneId, b: LaneId) -> Option<Concurrency> {
        let of = |lane| self.timed(move |op| op.position.lane == lane);
        self.nearest(&of(a), &of(b))
    }

    /// Were two engines at work at once? Decided like [`TracedRun::concurrency_of_streams`].
    #[must_use]
    pub fn concurrency_of_engines(&self, a: DeviceEngine, b: DeviceEngine) -> Option<Concurrency> {
        let of = |engine| self.timed(move |op| (op.device, op.engine) == engine);
        self.nearest(&of(a), &of(b))
    }

    /// The operations with times of a kind, by begin.
    fn timed(&self, wanted: impl Fn(&Op) -> bool) -> Vec<usize> {
        let all = (0..self.ops.len()).filter(|op| wanted(&self.ops[*op]));
        let mut timed: Vec<usize> = all.filter(|op| self.dag.work(*op).is_some()).collect();
        timed.sort_by_key(|op| self.dag.work(*op).map(|span| span.start));
        timed
    }

    /// The verdict of the pair that was together for the longest, or apart for the shortest. Merges
    /// the two in order of time.
    fn nearest(&self, first: &[usize], second: &[usize]) -> Option<Concurrency> {
        let (mut i, mut j) = (0, 0);
        let mut best: Option<(i128, usize, usize)> = None;
        while let (Some(&x), Some(&y)) = (first.get(i), second.get(j)) {
            let (s, t) = (self.dag.work(x)?, self.dag.work(y)?);
            // Together as a positive number, apart as a negative one.
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

/// Two intervals from ready to end on one engine, with what each takes alone.
fn settle(
    (a, first): (usize, &Range<u64>),
    (b, second): (usize, &Range<u64>),
    alone: [Nanos; 2],
    engine: Engine,
) -> Concurrency {
    let tail = |span: &Range<u64>, alone: Nanos| {
        span.end.saturating_sub(alone.0).max(span.start)..span.end
    };
    let (x, y) = (tail(first, alone[0]), tail(second, alone[1]));
    let together = shared(&x, &y);
    if together > 0 {
        return overlap(together, &x, &y);
    }
    let (late, later, earlier) =
        if first.end > second.end { (a, &x, second) } else { (b, &y, first) };
    // The later one took exactly what it takes alone after the earlier one had ended: it ran then.
    // With more time than that between, it may have run beside, slowed down, or have waited.
    let left = later.end - earlier.end.min(later.end);
    if left <= (later.end - later.start) + (later.end - later.start) / 20 {
        return Concurrency::OneEngine(engine);
    }
    Concurrency::Unusable { op: late, why: UnusableTimes::ReadyToEnd }
}
