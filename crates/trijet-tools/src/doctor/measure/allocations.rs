//! Measures the time of an allocation and its free, for each way to allocate and each size.

use super::bench::{Bench, samples};
use crate::bare::lab::Lab;
use crate::doctor::findings::AllocPair;
use std::time::Instant;
use trijet::{Bytes, Device, Result, Stream};

/// The number of pairs of an allocation and its free in one sample. `DEAR` is for ways to allocate
/// that get memory from the device in each pair. `CHEAP` is for all other ways.
const CHEAP: u32 = 200;
const DEAR: u32 = 12;

/// The names of the ways to allocate and free.
pub(in crate::doctor) const THRESHOLD_0: &str = "stream-ordered, threshold 0, synchronized";
pub(in crate::doctor) const THRESHOLD_MAX: &str = "stream-ordered, threshold max";
pub(in crate::doctor) const OURS_0: &str = "trijet, threshold 0, synchronized";
pub(in crate::doctor) const OURS_MAX: &str = "trijet, threshold max (default)";

fn bare(lab: &Lab, way: &'static str, bytes: usize) -> Result<f64> {
    let pair = match way {
        THRESHOLD_0 => lab.pool_pairs(bytes, DEAR, true),
        THRESHOLD_MAX => lab.pool_pairs(bytes, CHEAP, false),
        _ => lab.alloc_pairs(bytes, DEAR),
    };
    pair.map(|cost| cost.host)
}

fn ours(s: &Stream, bytes: Bytes, wait: bool) -> Result<f64> {
    let count = if wait { DEAR } else { CHEAP };
    let start = Instant::now();
    for _ in 0..count {
        drop(s.alloc::<u8>(bytes.to_usize())?);
        if wait {
            s.synchronize()?;
        }
    }
    let time = start.elapsed();
    s.synchronize()?;
    Ok(time.as_secs_f64() * 1e9 / f64::from(count))
}

fn library(
    device: &Device,
    s: &Stream,
    bytes: Bytes,
    wait: bool,
    repeats: usize,
) -> Result<AllocPair> {
    device.keep_memory(Bytes(if wait { 0 } else { u64::MAX }))?;
    let pair_ns = samples(repeats, || ours(s, bytes, wait));
    device.keep_memory(Bytes(u64::MAX))?;
    let way = if wait { OURS_0 } else { OURS_MAX };
    Ok(AllocPair { way, bytes, pair_ns: pair_ns? })
}

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let repeats = bench.plan.repeats;
    let s = bench.device.stream()?;
    for bytes in bench.plan.allocations {
        if let Some(lab) = &bench.lab {
            lab.enter()?;
            let size = usize::try_from(*bytes).unwrap_or(usize::MAX);
            for (way, keep) in
                [("cuMemAlloc + cuMemFree", 0), (THRESHOLD_0, 0), (THRESHOLD_MAX, u64::MAX)]
            {
                lab.pool_keep(keep)?;
                let pair_ns = samples(repeats, || bare(lab, way, size))?;
                bench.found.allocations.push(AllocPair { way, bytes: Bytes(*bytes), pair_ns });
            }
            lab.pool_keep(0)?;
        }
        for wait in [true, false] {
            let pair = library(&bench.device, &s, Bytes(*bytes), wait, repeats)?;
            bench.found.allocations.push(pair);
        }
    }
    Ok(())
}
