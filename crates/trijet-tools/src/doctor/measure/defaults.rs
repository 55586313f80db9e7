//! Measures for each pair of kinds of streams, which include the default streams, whether work on
//! one kind waits for work on the other kind.

use super::bench::Bench;
use super::blocking::observe;
use super::work::Lane;
use crate::doctor::findings::BlockingPair;
use crate::doctor::verdict;
use trijet::{Device, Error, ErrorKind, Result, Stream, StreamOptions};

/// A function that opens a stream of one kind.
type Open = fn(&Device) -> Result<Stream>;

const KINDS: [(&str, Open); 4] = [
    ("legacy", Device::legacy_stream),
    ("per-thread", Device::per_thread_stream),
    ("blocking", |device| device.stream_with(StreamOptions::new().blocking())),
    ("non-blocking", Device::stream),
];

pub(super) fn measure(bench: &mut Bench) -> Result<()> {
    let rounds = bench.rounds(bench.plan.kernel_ms);
    for (first, open_first) in KINDS {
        for (second, open_second) in KINDS {
            let lane = |open: Open| Lane::new(&bench.device, open(&bench.device)?);
            let mut lanes = [lane(open_first)?, lane(open_second)?];
            let mut seen = Vec::new();
            for repeat in 0..=bench.plan.repeats {
                bench.device.synchronize()?;
                let o = observe(&mut lanes, rounds, |_, _| Ok(()), || Ok(true))?;
                if repeat > 0 {
                    seen.push(verdict::stream(&o));
                }
            }
            bench.device.synchronize()?;
            let (stream, agree) = verdict::majority(&seen).ok_or_else(|| {
                Error::new(ErrorKind::InvalidValue, "observe", "the plan has no repeats")
            })?;
            let agreeing = (agree, seen.len());
            bench.found.pairs.push(BlockingPair { first, second, stream, agreeing });
        }
    }
    Ok(())
}
