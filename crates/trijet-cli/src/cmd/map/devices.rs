//! The devices of a job, and the rows that each of them computes.
#![forbid(unsafe_code)]

use crate::args::LiveCheck;
use crate::cmd::{self, print_stderr};
use crate::ranks::OwnRank;
use crate::values::{DeviceName, MapDevice};
use std::ops::Range;
use trijet::{Device, DeviceInfo, ErrorKind, Result};

/// Opens the device of a job, or every GPU for `all`. Without a GPU, `all` is the host device. For
/// `auto`, a process of a launcher takes the GPU of its number on the host.
pub(super) fn open(
    wanted: MapDevice,
    rank: Option<&OwnRank>,
    check: &LiveCheck,
) -> Result<Vec<Device>> {
    let gpus = || numbers(Device::cuda_devices());
    let names: Vec<DeviceName> = match (wanted, rank.and_then(|rank| rank.local)) {
        (MapDevice::All, _) => gpus()?.into_iter().map(DeviceName::Cuda).collect(),
        (MapDevice::One(DeviceName::Auto), Some(local)) => {
            vec![of_rank(&gpus()?, local).map_or(DeviceName::Auto, DeviceName::Cuda)]
        }
        (MapDevice::One(name), _) => vec![name],
    };
    if !names.is_empty() {
        return open_each(&names, check);
    }
    print_stderr(
        "--device all: no GPU was found, so the job runs on the host (see `trijet devices`)",
    );
    open_each(&[DeviceName::Auto], check)
}

/// Opens the one device of a process that a launcher started.
pub(crate) fn one_of_rank(wanted: DeviceName, rank: &OwnRank, check: &LiveCheck) -> Result<Device> {
    let mut devices = open(MapDevice::One(wanted), Some(rank), check)?;
    Ok(devices.remove(0))
}

/// Opens devices of one driver. If they are checked, they share a checker.
fn open_each(names: &[DeviceName], check: &LiveCheck) -> Result<Vec<Device>> {
    let open = |name: &DeviceName| {
        let plain = || cmd::with_check(cmd::builder(*name), check);
        if !check.check {
            return plain().open();
        }
        match plain().red_zones().open() {
            // A device that allocates from a pool has no red zones.
            Err(error) if error.kind() == ErrorKind::Unsupported => plain().open(),
            outcome => outcome,
        }
    };
    names.iter().map(open).collect()
}

/// The numbers of the GPUs that were found; none without a driver or a GPU.
fn numbers(found: Result<Vec<DeviceInfo>>) -> Result<Vec<u32>> {
    match found {
        Ok(gpus) => Ok((0..).zip(gpus).map(|(number, _)| number).collect()),
        Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::NoDevice) => {
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}

/// The GPU of the process with the number `local` on its host. Processes share GPUs if there are
/// too few.
fn of_rank(gpus: &[u32], local: u64) -> Option<u32> {
    let place = local.checked_rem(gpus.len() as u64)?;
    usize::try_from(place).ok().map(|place| gpus[place])
}

/// Divides rows into `count` shares of whole granules. The shares differ by one granule at most.
/// The rows of a share are adjacent where possible.
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
    use trijet::Error;
    use trijet::testing::Prng;

    /// A job on all GPUs once ran on the first one only, because the query of another one failed.
    #[test]
    fn only_a_host_without_gpus_has_none() {
        let failed = |kind| numbers(Err(Error::new(kind, "devices", "a reason")));
        for kind in [ErrorKind::Unsupported, ErrorKind::NoDevice] {
            assert_eq!(failed(kind).unwrap(), [0; 0]);
        }
        assert_eq!(failed(ErrorKind::Driver).unwrap_err().kind(), ErrorKind::Driver);
    }

    /// Two GPUs were once refused with `--check`, because the second device asked for a second
    /// checker.
    #[test]
    fn devices_of_a_driver_share_its_checker() {
        let names = [DeviceName::Host; 3];
        let devices = open_each(&names, &LiveCheck { check: true }).unwrap();
        assert!(devices.iter().all(|device| device.verdict().is_some()));
    }

    #[test]
    fn processes_of_a_host_take_its_gpus_in_turn() {
        let taken = |gpus: &[u32]| [0, 1, 2, 5].map(|local| of_rank(gpus, local));
        assert_eq!(taken(&[0, 1, 2]), [0, 1, 2, 2].map(Some));
        assert_eq!(taken(&[]), [None; 4]);
    }

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
