//! Metrics of overlap, from measured intervals and never from a formula.
//!
//! With I_e the union of the intervals of engine e, W_e its work measured alone, T the elapsed
//! time and B the bound (the largest of what cannot be avoided): busy share = |I_e| / T,
//! efficiency = B / T, achieved overlap = (sum W - T) / (sum W - B): 0 for a serial run, 1 for a
//! perfect one, below 0 for worse than serial. Lengths are those of unions, never sums.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, Op};
pub use crate::base::span::Union;
use crate::base::units::Nanos;
use std::ops::Range;

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

    #[test]
    fn an_engine_that_never_worked_is_all_fill() {
        let causes = exposed(3..9, &Union::default(), &Union::of([0..50, 50..99]));
        assert_eq!((causes.fill, causes.total()), (Nanos(6), Nanos(6)));
    }
}
