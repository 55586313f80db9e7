//! The processes that write one output together, and the rows that each of them writes.

use std::ops::Range;
use trijet::pipeline::Layout;

/// One of several processes that write one output together.
///
/// ```
/// use trijet::pipeline::Layout;
/// use trijet_io::Shard;
/// let images = Layout::rows(70, 100).granule(10);
/// let rows = |index| Shard::new(index, 3).expect("the index is below 3").rows(images);
/// assert_eq!([rows(0), rows(1), rows(2)], [0..20, 20..40, 40..70]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    index: u64,
    count: u64,
}

impl Shard {
    /// The process with the number `index` of `count` processes. The first process has the number
    /// 0. `None` if `index` is not below `count`.
    #[must_use]
    pub fn new(index: u64, count: u64) -> Option<Self> {
        (index < count).then_some(Self { index, count })
    }

    /// The number of the process, counted from 0.
    #[must_use]
    pub fn index(self) -> u64 {
        self.index
    }

    /// The number of processes that write the output.
    #[must_use]
    pub fn count(self) -> u64 {
        self.count
    }

    /// The rows that this process writes, in whole granules. The processes together write all rows.
    #[must_use]
    pub fn rows(self, layout: Layout) -> Range<u64> {
        let granules = u128::from(layout.rows.div_ceil(layout.granule));
        let edge = |index: u64| {
            let granule = granules * u128::from(index) / u128::from(self.count);
            let rows = u64::try_from(granule).unwrap_or(u64::MAX).saturating_mul(layout.granule);
            rows.min(layout.rows)
        };
        edge(self.index)..edge(self.index + 1)
    }

    /// All processes that write the output.
    pub(super) fn all(self) -> impl Iterator<Item = Self> {
        (0..self.count).map(move |index| Self { index, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shards_have_all_rows_once(
            granules in 0u64..1000, granule in 1u64..9, count in 1u64..40,
        ) {
            let layout = Layout::rows(granules * granule, 3).granule(granule);
            let mut next = 0;
            for shard in (Shard { index: 0, count }).all() {
                let rows = shard.rows(layout);
                prop_assert_eq!(rows.start, next);
                prop_assert!(rows.end.is_multiple_of(granule));
                let own = (rows.end - rows.start) / granule;
                prop_assert!(own == granules / count || own == granules.div_ceil(count));
                next = rows.end;
            }
            prop_assert_eq!(next, layout.rows);
        }
    }
}
