//! Metrics of overlap, from measured intervals and never from a formula.
//!
//! With I_e the union of the intervals of engine e, W_e its work measured alone, T the elapsed
//! time and B the bound (the largest of what cannot be avoided): busy share = |I_e| / T,
//! efficiency = B / T, achieved overlap = (sum W - T) / (sum W - B): 0 for a serial run, 1 for a
//! perfect one, below 0 for worse than serial. Lengths are those of unions, never sums.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, Op};
use crate::base::units::Nanos;
use std::ops::Range;

/// A set of disjoint, sorted time intervals in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union(Vec<Range<u64>>);

impl Union {
    /// The union of any intervals.
    ///
    /// ```
    /// use trijet::trace::overlap::Union;
    /// let busy = Union::of([5..9, 0..3, 2..4]);
    /// assert_eq!(busy.length().0, 8);
    /// assert_eq!(busy.minus(&Union::of([0..4])).length().0, 4);
    /// ```
    #[must_use]
    pub fn of(intervals: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut sorted: Vec<Range<u64>> = intervals.into_iter().filter(|i| !i.is_empty()).collect();
        sorted.sort_unstable_by_key(|i| i.start);
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
        for interval in sorted {
            match merged.last_mut() {
                Some(last) if interval.start <= last.end => last.end = last.end.max(interval.end),
                _ => merged.push(interval),
            }
        }
        Self(merged)
    }

    /// The time covered.
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos(self.0.iter().map(|i| i.end - i.start).sum())
    }

    /// The part of it inside `other`.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut both = Vec::new();
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let shared = x.start.max(y.start)..x.end.min(y.end);
            if !shared.is_empty() {
                both.push(shared);
            }
            if x.end < y.end {
                a.next()
            } else {
                b.next()
            };
        }
        Self(both)
    }

    /// The part of it outside `other`.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        let Some(end) = self.0.last().map(|i| i.end) else { return Self::default() };
        let mut gaps = Vec::new();
        let mut at = 0;
        for hole in &other.0 {
            gaps.push(at..hole.start.max(at));
            at = at.max(hole.end);
        }
        gaps.push(at..end.max(at));
        self.and(&Self::of(gaps))
    }

    /// The intervals, sorted and without common points.
    #[must_use]
    pub fn intervals(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The first and the last moment covered.
    #[must_use]
    pub fn hull(&self) -> Option<Range<u64>> {
        Some(self.0.first()?.start..self.0.last()?.end)
    }
}

/// When an engine was busy, by the operations with times.
#[must_use]
pub fn busy(ops: &[Op], engine: Engine) -> Union {
    let times = ops.iter().filter(|op| op.engine == engine).filter_map(|op| op.times);
    Union::of(times.map(|t| t.begin.0..t.end.0))
}

/// The sum of the durations of an engine's operations: its isolated work, when nothing else ran.
#[must_use]
pub fn work(ops: &[Op], engine: Engine) -> Nanos {
    let times = ops.iter().filter(|op| op.engine == engine).filter_map(|op| op.times);
    Nanos(times.map(|t| t.end.0 - t.begin.0).sum())
}

/// Why the limiting engine was idle, in parts that sum to its idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exposed {
    /// Before its first operation.
    pub fill: Nanos,
    /// After its last one.
    pub drain: Nanos,
    /// In between, while another engine worked on what it had to wait for.
    pub dependency: Nanos,
    /// In between, while no engine worked: the host was late, or launching took its time.
    pub host: Nanos,
}

impl Exposed {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Nanos {
        Nanos(self.fill.0 + self.drain.0 + self.dependency.0 + self.host.0)
    }
}

/// Splits the idle time of an engine within `window` by cause. `others` is when any other engine
/// was busy.
///
/// ```
/// use trijet::trace::overlap::{exposed, Union};
/// let (mine, others) = (Union::of([10..20, 30..40]), Union::of([0..25]));
/// let causes = exposed(0..50, &mine, &others);
/// assert_eq!((causes.fill.0, causes.drain.0), (10, 10));
/// assert_eq!((causes.dependency.0, causes.host.0), (5, 5));
/// assert_eq!(causes.total().0, 50 - mine.length().0);
/// ```
#[must_use]
pub fn exposed(window: Range<u64>, mine: &Union, others: &Union) -> Exposed {
    let mine = mine.and(&Union::of([window.clone()]));
    let Some(hull) = mine.hull() else {
        return Exposed { fill: Nanos(window.end - window.start), ..Exposed::default() };
    };
    let inner = Union::of([hull.clone()]).minus(&mine);
    let dependency = inner.and(others).length();
    Exposed {
        fill: Nanos(hull.start - window.start),
        drain: Nanos(window.end - hull.end),
        dependency,
        host: Nanos(inner.length().0 - dependency.0),
    }
}

/// Achieved overlap: 0 for a serial run, 1 for a perfect one. `None` when the work of all engines
/// exceeds the bound by less than a hundredth of the elapsed time: there is nothing to overlap, and
/// the quotient would only magnify noise.
///
/// ```
/// use trijet::base::units::Nanos;
/// use trijet::trace::overlap::achieved;
/// assert_eq!(achieved(Nanos(300), Nanos(300), Nanos(100)), Some(0.0));
/// assert_eq!(achieved(Nanos(300), Nanos(100), Nanos(100)), Some(1.0));
/// ```
#[must_use]
pub fn achieved(work: Nanos, elapsed: Nanos, bound: Nanos) -> Option<f64> {
    let (work, elapsed, bound) = (work.0 as f64, elapsed.0 as f64, bound.0 as f64);
    if work - bound < elapsed / 100.0 {
        return None;
    }
    Some((work - elapsed) / (work - bound))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        /// The law: unions behave as sets of points.
        #[test]
        fn a_union_is_a_set_of_points(
            a in vec((0u64..40, 0u64..12), 0..8),
            b in vec((0u64..40, 0u64..12), 0..8),
        ) {
            let points = |list: &[(u64, u64)]| -> Vec<bool> {
                (0..60).map(|p| list.iter().any(|(s, l)| (*s..s + l).contains(&p))).collect()
            };
            let count = |f: &dyn Fn(bool, bool) -> bool| {
                points(&a).iter().zip(points(&b)).filter(|(x, y)| f(**x, *y)).count() as u64
            };
            let union = |list: &[(u64, u64)]| Union::of(list.iter().map(|(s, l)| *s..s + l));
            let (ua, ub) = (union(&a), union(&b));
            prop_assert_eq!(ua.length().0, count(&|x, _| x));
            prop_assert_eq!(ua.and(&ub).length().0, count(&|x, y| x && y));
            prop_assert_eq!(ua.minus(&ub).length().0, count(&|x, y| x && !y));
        }
    }

    #[test]
    fn an_engine_that_never_worked_is_all_fill() {
        let causes = exposed(3..9, &Union::default(), &Union::of([0..50, 50..99]));
        assert_eq!((causes.fill, causes.total()), (Nanos(6), Nanos(6)));
    }
}
