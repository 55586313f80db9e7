//! Sets of rows.

use std::ops::Range;

/// A set of rows, as sorted ranges that do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rows {
    ranges: Vec<Range<u64>>,
}

impl Rows {
    /// Adds `rows` to the set.
    ///
    /// ```
    /// use trijet_io::Rows;
    /// let mut done = Rows::default();
    /// done.insert(4..6);
    /// done.insert(0..2);
    /// done.insert(2..3);
    /// assert_eq!(done.ranges(), [0..3, 4..6]);
    /// assert_eq!(done.missing(8), [3..4, 6..8]);
    /// ```
    pub fn insert(&mut self, rows: Range<u64>) {
        if rows.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|range| range.end < rows.start);
        let to = self.ranges.partition_point(|range| range.start <= rows.end);
        let mut merged = rows;
        for range in &self.ranges[from..to] {
            merged = merged.start.min(range.start)..merged.end.max(range.end);
        }
        self.ranges.splice(from..to, [merged]);
    }

    /// Removes `rows` from the set.
    pub(crate) fn remove(&mut self, rows: Range<u64>) {
        let mut rest = Vec::with_capacity(self.ranges.len() + 1);
        for range in &self.ranges {
            rest.push(range.start..range.end.min(rows.start.max(range.start)));
            rest.push(range.start.max(rows.end.min(range.end))..range.end);
        }
        if !rows.is_empty() {
            rest.retain(|range| !range.is_empty());
            self.ranges = rest;
        }
    }

    /// The rows of the set as ranges in ascending order. No two ranges overlap or touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The number of rows in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// The rows below `rows` that are not in the set, as ranges in ascending order.
    #[must_use]
    pub fn missing(&self, rows: u64) -> Vec<Range<u64>> {
        let mut missing = Vec::new();
        let mut next = 0;
        for range in &self.ranges {
            missing.push(next..range.start.min(rows));
            next = range.end;
        }
        missing.push(next..rows);
        missing.retain(|range| !range.is_empty());
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_rows_are_missing() {
        for start in 0..7 {
            for end in start..8 {
                let mut rows = Rows::default();
                rows.insert(1..3);
                rows.insert(4..7);
                rows.remove(start..end);
                for row in 0..8 {
                    let is_in = (1..3).contains(&row) || (4..7).contains(&row);
                    let is_left = is_in && !(start..end).contains(&row);
                    let found = rows.ranges().iter().any(|range| range.contains(&row));
                    assert_eq!(found, is_left, "{row} after {start}..{end}: {rows:?}");
                }
                assert!(rows.ranges().iter().all(|range| !range.is_empty()), "{rows:?}");
            }
        }
    }
}
