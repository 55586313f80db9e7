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

    /// The ranges in ascending order; no two overlap or touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// The number of rows in the set.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.ranges.iter().map(|range| range.end - range.start).sum()
    }

    /// The rows below `rows` that are not in the set.
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
