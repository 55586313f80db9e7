//! The rows that each device of a job computes.
#![forbid(unsafe_code)]

use std::ops::Range;

/// Divides the rows `todo` into `count` shares of whole granules of `granule` rows. The sizes of
/// the shares differ by one granule at most. The rows of a share are adjacent where possible.
pub(crate) fn shares(todo: &[Range<u64>], count: usize, granule: u64) -> Vec<Vec<Range<u64>>> {
    let granules = |rows: &Range<u64>| (rows.end - rows.start).div_ceil(granule);
    let all: u64 = todo.iter().map(granules).sum();
    let mut rest = todo.iter().cloned();
    let mut next = rest.next();
    let mut left = all;
    (0..count as u64)
        .map(|number| {
            let mut wanted = left.div_ceil(count as u64 - number);
            left -= wanted;
            let mut share = Vec::new();
            while let Some(rows) = next.take() {
                if wanted == 0 {
                    next = Some(rows);
                    break;
                }
                let taken = granules(&rows).min(wanted);
                let end = rows.end.min(rows.start.saturating_add(taken.saturating_mul(granule)));
                share.push(rows.start..end);
                wanted -= taken;
                next = if end < rows.end { Some(end..rows.end) } else { rest.next() };
            }
            share
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::testing::Prng;

    #[test]
    fn shares_have_all_rows_once_and_are_nearly_equal() {
        for seed in 0..500 {
            let mut draw = Prng::new(seed);
            let (granule, count) = (1 + draw.below(4), 1 + draw.below(5));
            let (mut at, mut todo) = (0, Vec::new());
            for _ in 0..draw.below(6) {
                at += draw.below(4) * granule;
                let end = at + (1 + draw.below(30)) * granule;
                todo.push(at..end);
                at = end;
            }
            let shares = shares(&todo, usize::try_from(count).unwrap(), granule);
            assert_eq!(shares.len() as u64, count, "seed {seed}");
            let rows =
                |ranges: &[Range<u64>]| -> Vec<u64> { ranges.iter().cloned().flatten().collect() };
            assert_eq!(rows(&shares.concat()), rows(&todo), "seed {seed}");
            let sizes: Vec<_> = shares.iter().map(|share| rows(share).len() as u64).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= granule, "seed {seed}: {sizes:?}");
            assert!(shares.concat().iter().all(|rows| rows.start.is_multiple_of(granule)));
        }
    }
}
