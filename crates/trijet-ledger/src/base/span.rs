//! Unions of time intervals. The length of an overlap is the length of a union, never a sum of
//! durations.
#![forbid(unsafe_code)]

use crate::base::units::Nanos;
use std::ops::Range;

/// A union of time intervals in nanoseconds, kept as disjoint, sorted intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Union(Vec<Range<u64>>);

impl Union {
    /// The union of any intervals.
    ///
    /// ```
    /// use trijet::trace::Union;
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

    /// The union of several unions.
    #[must_use]
    pub fn all<'a>(unions: impl IntoIterator<Item = &'a Self>) -> Self {
        Self::of(unions.into_iter().flat_map(|union| union.0.iter().cloned()))
    }

    /// The disjoint intervals, sorted by their starts.
    #[must_use]
    pub fn intervals(&self) -> &[Range<u64>] {
        &self.0
    }

    /// The length of the union.
    #[must_use]
    pub fn length(&self) -> Nanos {
        Nanos(self.0.iter().map(|i| i.end - i.start).sum())
    }

    /// The part of the union inside `other`.
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

    /// The part of the union outside `other`.
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

    /// The length in nanoseconds of the part inside `span`. The cost is logarithmic in the number
    /// of intervals, and linear in the number of intervals inside `span`.
    #[must_use]
    pub fn overlap(&self, span: &Range<u64>) -> u64 {
        let first = self.0.partition_point(|i| i.end <= span.start);
        let inside = self.0[first..].iter().take_while(|i| i.start < span.end);
        inside.map(|i| i.end.min(span.end).saturating_sub(i.start.max(span.start))).sum()
    }

    /// The part of the union inside one interval. The cost is the same as for [`Union::overlap`].
    #[must_use]
    pub fn within(&self, span: &Range<u64>) -> Self {
        let first = self.0.partition_point(|i| i.end <= span.start);
        let inside = self.0[first..].iter().take_while(|i| i.start < span.end);
        Self(inside.map(|i| i.start.max(span.start)..i.end.min(span.end)).collect())
    }

    /// The interval from the first to the last moment of the union; `None` if it is empty.
    #[must_use]
    pub fn hull(&self) -> Option<Range<u64>> {
        Some(self.0.first()?.start..self.0.last()?.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
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
}
