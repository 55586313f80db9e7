//! Allocation: pairs of an allocation and its free, many allocations and frees of random sizes, and
//! traces of workloads. The heap of the library and pools of the driver are compared with other
//! allocators.
#![forbid(unsafe_code)]

use crate::peer::{self, Peer};
use crate::results::Results;
use crate::rounds::{Side, Value};
use crate::setting::{Setting, pooled};
use crate::turns::record;
use crate::workload;
use serde::Deserialize;
use std::time::Instant;
use trijet::testing::Prng;
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, Result, Stream};
use trijet_tools::progress::Steps;

#[derive(Debug, Deserialize)]
pub(crate) struct Definition {
    samples: usize,
    /// The number of pairs of an allocation and its free in a sample.
    pairs: u32,
    /// The sizes of the allocations of pairs, in bytes.
    sizes: Vec<usize>,
    /// The numbers of allocations of random sizes. Each number is a separate measurement.
    random: Vec<u32>,
    /// Maximum size of an allocation of a random size, in bytes.
    size_max: u64,
    /// Maximum number of bytes that the random program has allocated at once.
    live_max: u64,
    #[serde(default)]
    peers: Vec<Peer>,
    replay: workload::Definition,
}

/// Allocates and frees `count` times, without using the memory.
fn pairs(stream: &Stream, bytes: usize, count: u32) -> Result<Vec<Value>> {
    let start = Instant::now();
    for _ in 0..count {
        drop(stream.alloc::<u8>(bytes)?);
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(count);
    stream.synchronize()?;
    Ok(vec![Value::new("allocation and free", "ns", ns)])
}

/// Allocates memory, fills its first bytes and frees it, `count` times, as a program does with
/// scratch memory. The measured time includes the call that fills the bytes.
fn used_pairs(stream: &Stream, bytes: usize, count: u32) -> Result<Vec<Value>> {
    let (mut ns, mut done) = (0.0, 0);
    while done < count {
        // A batch has fewer operations than may wait in a stream, so no call waits until the stream
        // has room.
        let batch = (count - done).min(200);
        let start = Instant::now();
        for _ in 0..batch {
            let mut x = stream.alloc::<u8>(bytes)?;
            stream.fill_bytes(&mut x.slice_mut(..64), 1)?;
        }
        ns += start.elapsed().as_secs_f64() * 1e9;
        stream.synchronize()?;
        done += batch;
    }
    Ok(vec![Value::new("allocation, fill and free", "ns", ns / f64::from(count))])
}

/// The live allocations of a random program. The keys are their addresses. No two allocations may
/// share a byte.
#[derive(Default)]
struct Live {
    buffers: Vec<Buffer<u8>>,
    bytes: u64,
    peak: u64,
}

/// A random program with the rule of `random_allocations` of RAPIDS rmm. Of 100 steps, 73 allocate
/// a random size, unless the live bytes would exceed the maximum. The other steps free a random
/// allocation.
fn random(
    device: &Device,
    stream: &Stream,
    definition: &Definition,
    count: u32,
) -> Result<Vec<Value>> {
    let mut draw = Prng::new(7);
    let (mut live, mut ops, mut made) = (Live::default(), 0u32, 0);
    device.trim_memory(Bytes(0))?;
    device.reset_memory_high()?;
    let calls = device.heap_stats().map(|stats| stats.calls);
    let start = Instant::now();
    while made < count {
        let bytes = 1 + draw.below(definition.size_max);
        let fits = live.bytes + bytes <= definition.live_max;
        if live.buffers.is_empty() || fits && draw.below(100) < 73 {
            live.buffers.push(stream.alloc::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX))?);
            live.bytes += bytes;
            live.peak = live.peak.max(live.bytes);
            made += 1;
        } else {
            let at = usize::try_from(draw.below(live.buffers.len() as u64)).unwrap_or(0);
            let freed = live.buffers.swap_remove(at);
            live.bytes -= freed.len() as u64;
        }
        ops += 1;
    }
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(ops);
    disjoint(live.buffers.iter().map(|buffer| (buffer.address(), buffer.len() as u64)))?;
    let reserved = device.memory_stats()?.reserved_high;
    let mut values = vec![
        Value::new("each operation", "ns", ns),
        Value::new("peak reserved over peak live", "ratio", reserved.0 as f64 / live.peak as f64),
    ];
    if let (Some(before), Some(after)) = (calls, device.heap_stats().map(|stats| stats.calls)) {
        values.push(Value::new("calls of the driver", "calls", (after - before) as f64));
    }
    drop(live);
    stream.synchronize()?;
    Ok(values)
}

/// Returns an error if two of the allocations share bytes. Each allocation is an address and a
/// size.
fn disjoint(live: impl Iterator<Item = (u64, u64)>) -> Result<()> {
    let mut all: Vec<(u64, u64)> = live.collect();
    all.sort_unstable();
    if all.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
        let cause = "two live allocations share bytes";
        return Err(Error::new(ErrorKind::InvalidValue, "bench memory", cause));
    }
    Ok(())
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if live allocations share bytes; every error of the device and of a peer.
pub(crate) fn run(
    setting: &Setting<'_>,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    let (heap, pool) = (setting.device, &pooled(setting.device)?);
    let replays = definition.replay.steps();
    steps.expect((definition.sizes.len() + definition.random.len() + 1) as u64 + replays);
    let mut results = Results::of_device(heap);
    results.note("verified", "no two live allocations of a random program share a byte");
    let streams = (heap.stream()?, pool.stream()?);
    for bytes in &definition.sizes {
        steps.begin("pairs");
        let size = Bytes(*bytes as u64);
        let count = definition.pairs;
        let mut sides = [
            Side::new(format!("pairs of {size}, heap"), || pairs(&streams.0, *bytes, count)),
            Side::new(format!("pairs of {size}, pool"), || pairs(&streams.1, *bytes, count)),
            Side::new(format!("used pairs of {size}, heap"), || {
                used_pairs(&streams.0, *bytes, count)
            }),
            Side::new(format!("used pairs of {size}, pool"), || {
                used_pairs(&streams.1, *bytes, count)
            }),
        ];
        record(setting, &mut sides, definition.samples, str::to_owned, &mut results)?;
    }
    for count in &definition.random {
        steps.begin("random sizes");
        let of = |device, stream| random(device, stream, definition, *count);
        let mut sides = [
            Side::new(format!("{count} random sizes, heap"), || of(heap, &streams.0)),
            Side::new(format!("{count} random sizes, pool"), || of(pool, &streams.1)),
        ];
        record(setting, &mut sides, definition.samples.min(10), str::to_owned, &mut results)?;
    }
    steps.begin("peers");
    peer::figures(&definition.peers, definition.samples, &[], &mut results)?;
    workload::measure((heap, pool), &definition.replay, setting, steps, &mut results)?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn pairs_and_random_sizes_have_their_times_and_the_heap_its_calls() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let definition = Definition {
            samples: 2,
            pairs: 3,
            sizes: vec![4096],
            random: vec![200],
            size_max: 1 << 16,
            live_max: 1 << 20,
            peers: Vec::new(),
            replay: workload::Definition::for_tests(),
        };
        let mut show = |_: Step<'_>| ();
        let setting = Setting::for_tests(&device);
        let printed = run(&setting, &definition, &mut Steps::new(&mut show))?.to_string();
        for row in [
            "pairs of 4 KiB, heap: allocation and free",
            "used pairs of 4 KiB, pool: allocation, fill and free",
            "200 random sizes, heap: each operation",
            "200 random sizes, heap: calls of the driver",
            "200 random sizes, pool: peak reserved over peak live",
            "two streams, heap: each allocation",
            "two streams, pool: whole run",
            "3 streams with 150 % of the memory, heap: failed allocations",
            "2 graphs, heap: held",
        ] {
            assert!(printed.contains(row), "{row}: {printed}");
        }
        assert_no_finding(&device, 10);
        Ok(())
    }

    #[test]
    fn live_allocations_that_share_bytes_are_refused() {
        disjoint([(512, 256), (0, 512), (768, 1)].into_iter()).expect("they lie beside each other");
        let error = disjoint([(512, 257), (0, 512), (768, 1)].into_iter()).expect_err("one byte");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
    }
}
