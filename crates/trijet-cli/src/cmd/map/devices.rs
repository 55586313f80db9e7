//! The devices of a job, and the rows that each of them computes.
#![forbid(unsafe_code)]

use crate::args::LiveCheck;
use crate::cmd;
use crate::ranks::Rank;
use crate::values::{DeviceName, MapDevice};
use std::ops::Range;
use trijet::{Device, Result};

/// Opens the device of a job, or every GPU for `all`. Without a GPU, `all` is the host device. A
/// process of a launcher takes the GPU of its number on the host for `auto`.
pub(super) fn open(
    wanted: MapDevice,
    rank: Option<&Rank>,
    check: &LiveCheck,
) -> Result<Vec<Device>> {
    let gpus = || Device::cuda_devices().map_or(0, |list| list.len());
    let one = |name| cmd::open(name, check).map(|device| vec![device]);
    let numbers: Vec<u32> = match wanted {
        MapDevice::All => (0..u32::try_from(gpus()).unwrap_or(u32::MAX)).collect(),
        MapDevice::One(DeviceName::Auto) => {
            let local = rank.and_then(|rank| rank.local);
            let number = local.zip(u64::try_from(gpus()).ok().filter(|gpus| *gpus > 0));
            number.and_then(|(local, gpus)| u32::try_from(local % gpus).ok()).into_iter().collect()
        }
        MapDevice::One(name) => return one(name),
    };
    if numbers.is_empty() {
        return one(DeviceName::Auto);
    }
    numbers.into_iter().map(|number| cmd::open(DeviceName::Cuda(number), check)).collect()
}

/// Cuts rows into `count` shares of whole granules, which differ by one granule at most. Each share
/// has rows next to each other, as far as they are.
pub(super) fn shares(todo: &[Range<u64>], count: usize, granule: u64) -> Vec<Vec<Range<u64>>> {
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
