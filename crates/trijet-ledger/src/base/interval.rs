//! A map from byte ranges to values, for example to the operation that last accessed the bytes.
//!
//! Entries are disjoint, sorted and not empty, and neighbours with equal values are merged. So the
//! map of a buffer that is always used as a whole has one entry, and an update of this map
//! allocates nothing. Look-up is a binary search: O(log n + k) for a map with n entries and a
//! result of k entries. An update moves the tail of a vector, which is cheaper than a tree for the
//! tens of ranges that a buffer has.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Disjoint byte ranges with a value each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeMap<T> {
    entries: Vec<(Range<u64>, T)>,
}

impl<T> Default for RangeMap<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T: Clone + PartialEq> RangeMap<T> {
    /// The entries that share at least one byte with `range`, in order. Their ranges may extend
    /// beyond `range`.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = &(Range<u64>, T)> {
        let first = self.entries.partition_point(|(r, _)| r.end <= range.start);
        self.entries[first..].iter().take_while(move |(r, _)| r.start < range.end)
    }

    /// Applies `change` to the values of all bytes in `range`. Bytes without a value get the value
    /// of `empty()` first. An empty range changes nothing.
    ///
    /// # Panics
    /// If `range.start > range.end`.
    pub fn update(
        &mut self,
        range: Range<u64>,
        empty: impl Fn() -> T,
        mut change: impl FnMut(&mut T),
    ) {
        assert!(range.start <= range.end, "the byte range {range:?} ends before it starts");
        if range.is_empty() {
            return;
        }
        // If the only entry has exactly this range, its value changes in place.
        if let [(only, value)] = &mut self.entries[..]
            && *only == range
        {
            change(value);
            return;
        }
        self.cut(range.start);
        self.cut(range.end);
        let first = self.entries.partition_point(|(r, _)| r.end <= range.start);
        let mut index = first;
        let mut at = range.start;
        while at < range.end {
            let gap_end = match self.entries.get(index) {
                Some((r, _)) if r.start == at => at,
                Some((r, _)) => r.start.min(range.end),
                None => range.end,
            };
            if gap_end > at {
                self.entries.insert(index, (at..gap_end, empty()));
            }
            let (r, value) = &mut self.entries[index];
            change(value);
            at = r.end;
            index += 1;
        }
        self.merge(first.saturating_sub(1), index);
    }

    /// Applies `change` to every value, removes the entries for which it returns false, and merges
    /// neighbours that have become equal.
    pub fn retain(&mut self, mut change: impl FnMut(&mut T) -> bool) {
        self.entries.retain_mut(|(_, value)| change(value));
        self.entries.dedup_by(|right, left| {
            let same = left.0.end == right.0.start && left.1 == right.1;
            if same {
                left.0.end = right.0.end;
            }
            same
        });
    }

    /// Replaces two neighbouring entries by one entry if their ranges touch and `join` returns a
    /// value for their two values.
    pub fn coarsen(&mut self, join: impl Fn(&T, &T) -> Option<T>) {
        self.entries.dedup_by(|right, left| {
            let touches = left.0.end == right.0.start;
            let Some(joined) = touches.then(|| join(&left.1, &right.1)).flatten() else {
                return false;
            };
            (left.0.end, left.1) = (right.0.end, joined);
            true
        });
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries, and keeps the memory for new ones.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// All entries, in the order of their ranges.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(Range<u64>, T)> {
        self.entries.iter()
    }

    /// Splits the entry that contains `at` into an entry that ends at `at` and one that begins at
    /// `at`.
    fn cut(&mut self, at: u64) {
        let index = self.entries.partition_point(|(r, _)| r.end <= at);
        let Some((r, value)) = self.entries.get_mut(index) else { return };
        if r.start < at {
            let right = (at..r.end, value.clone());
            r.end = at;
            self.entries.insert(index + 1, right);
        }
    }

    /// Merges neighbours that touch and are equal, among the entries `first..=last`.
    fn merge(&mut self, first: usize, last: usize) {
        let mut index = first;
        let mut left = last.saturating_sub(first) + 1;
        while left > 0 && index + 1 < self.entries.len() {
            let touches = self.entries[index].0.end == self.entries[index + 1].0.start;
            if touches && self.entries[index].1 == self.entries[index + 1].1 {
                self.entries[index].0.end = self.entries[index + 1].0.end;
                self.entries.remove(index + 1);
            } else {
                index += 1;
            }
            left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const SPAN: usize = 48;

    proptest! {
        /// The map agrees with an array of one value per byte, and its entries stay sorted,
        /// disjoint, non-empty and merged.
        #[test]
        fn range_map_equals_one_value_per_byte(
            steps in vec((0..SPAN, 0..SPAN, 0u8..3), 1..40),
        ) {
            let mut map = RangeMap::default();
            let mut bytes: Vec<Option<u8>> = vec![None; SPAN];
            for (a, b, add) in steps {
                let range = a.min(b) as u64..a.max(b) as u64;
                map.update(range.clone(), || 0u8, |v| *v = v.wrapping_mul(5).wrapping_add(add));
                for byte in &mut bytes[a.min(b)..a.max(b)] {
                    *byte = Some(byte.unwrap_or(0).wrapping_mul(5).wrapping_add(add));
                }
                for (index, expected) in bytes.iter().enumerate() {
                    let at = index as u64;
                    let found: Vec<_> = map.overlapping(at..at + 1).map(|(_, v)| *v).collect();
                    prop_assert_eq!(found, expected.iter().copied().collect::<Vec<_>>());
                }
                let entries: Vec<_> = map.iter().collect();
                for (range, _) in &entries {
                    prop_assert!(range.start < range.end);
                }
                for pair in entries.windows(2) {
                    prop_assert!(pair[0].0.end <= pair[1].0.start);
                    let merged = pair[0].0.end < pair[1].0.start || pair[0].1 != pair[1].1;
                    prop_assert!(merged, "neighbours {:?} not merged", pair);
                }
            }
        }
    }

    #[test]
    fn retain_changes_removes_and_merges() {
        let mut map = RangeMap::default();
        for (range, value) in [(0..4, 1), (4..6, 2), (6..9, 3), (12..14, 3)] {
            map.update(range, || value, |_| ());
        }
        map.retain(|value| {
            *value = (*value).max(2);
            *value == 2
        });
        assert_eq!(map.iter().cloned().collect::<Vec<_>>(), [(0..6, 2)]);
    }

    #[test]
    fn an_empty_range_changes_nothing() {
        let mut map = RangeMap::default();
        map.update(5..5, || 0, |v| *v = 1);
        assert_eq!(map.iter().count(), 0);
    }
}
