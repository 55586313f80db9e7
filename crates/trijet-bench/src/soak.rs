//! A soak of the heap: allocations from many threads and streams, for a long time. No byte may have
//! two owners at once, and at the end nothing may be allocated.
#![forbid(unsafe_code)]

use crate::results::Results;
use serde::Deserialize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;
use trijet::testing::{HAS_TAG, Prng, TAG};
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, LaunchConfig, Result, Stream};
use trijet_tools::progress::Steps;
use trijet_tools::stats::Samples;

/// The number of bytes for each bit of the map. The address of every allocation is a multiple of
/// this number.
const GRANULE: u64 = 256;
/// One of every `HANDED_EVERY` allocations is freed by another thread.
const HANDED_EVERY: u64 = 8;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Definition {
    threads: usize,
    streams: usize,
    /// The number of allocations, summed over all threads.
    allocations: u64,
    /// The number of allocations that each thread keeps at once.
    kept: usize,
    /// Maximum size of an allocation, in bytes.
    size_max: u64,
    /// Kernels use one of every `used_every` allocations.
    used_every: u64,
    /// Maximum number of bytes that the heap may reserve.
    limit: u64,
}

fn wrong(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidValue, "bench soak", cause.into())
}

/// A map of the bytes that have an owner. The map has one bit for each granule, starting at address
/// `base`.
#[derive(Debug)]
struct Owned {
    base: u64,
    words: Vec<AtomicU64>,
}

impl Owned {
    fn new(base: u64, bytes: u64) -> Self {
        let words = bytes.div_ceil(GRANULE * 64);
        Self { base, words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// The words of the map for a range of bytes, each with a mask of the bits that belong to the
    /// range.
    fn masks(&self, address: u64, bytes: u64) -> Result<impl Iterator<Item = (&AtomicU64, u64)>> {
        let outside = || wrong(format!("{address:#x} is not in the range of the heap"));
        let first = address.checked_sub(self.base).ok_or_else(outside)? / GRANULE;
        let end = first + bytes.max(1).div_ceil(GRANULE);
        if end.div_ceil(64) > self.words.len() as u64 {
            return Err(outside());
        }
        Ok((first / 64..end.div_ceil(64)).map(move |word| {
            let from = first.max(word * 64) - word * 64;
            let to = end.min(word * 64 + 64) - word * 64;
            let mask = (u64::MAX >> (64 - (to - from))) << from;
            (&self.words[usize::try_from(word).expect("it is in memory")], mask)
        }))
    }

    /// Sets the bits of the bytes of a buffer. Returns an error if one of these bits is already
    /// set.
    fn take(&self, buffer: &Buffer<u32>) -> Result<()> {
        let (address, bytes) = (buffer.address(), buffer.len() as u64 * 4);
        for (word, mask) in self.masks(address, bytes)? {
            if word.fetch_or(mask, Ordering::Relaxed) & mask != 0 {
                return Err(wrong(format!(
                    "bytes of {bytes} at {address:#x} have an owner already"
                )));
            }
        }
        Ok(())
    }

    /// Clears the bits of the bytes of a buffer. The caller frees the buffer directly after this
    /// call.
    fn give(&self, buffer: &Buffer<u32>) -> Result<()> {
        for (word, mask) in self.masks(buffer.address(), buffer.len() as u64 * 4)? {
            word.fetch_and(!mask, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A live allocation. If kernels use the allocation, it has a tag.
#[derive(Debug)]
struct Live {
    buffer: Buffer<u32>,
    tag: Option<u32>,
}

/// A soak in progress.
struct Soak<'a> {
    definition: &'a Definition,
    device: &'a Device,
    owned: Owned,
    /// For each thread, the allocations that it must free for other threads.
    handed: Vec<Mutex<Vec<Live>>>,
    stopped: AtomicBool,
}

impl Soak<'_> {
    /// Runs the allocations of one thread. Returns the number of failed comparisons.
    fn thread(&self, number: usize) -> Result<u32> {
        let Definition { threads, streams, allocations, .. } = *self.definition;
        let own = (number..streams.max(threads)).step_by(threads);
        let lanes = own.map(|_| self.device.stream()).collect::<Result<Vec<Stream>>>()?;
        let mut errors = self.device.alloc::<u32>(1)?;
        lanes[0].fill_bytes(&mut errors, 0)?;
        let mut draw = Prng::new(number as u64 + 1);
        let mut live: Vec<Live> = Vec::new();
        for turn in 0..allocations / threads as u64 {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(0);
            }
            let lane = &lanes[below(&mut draw, lanes.len())];
            live.push(self.allocate(lane, &mut errors, self.tag(number, turn), &mut draw)?);
            if live.len() < self.definition.kept {
                continue;
            }
            let one = live.swap_remove(below(&mut draw, live.len()));
            if turn.is_multiple_of(HANDED_EVERY) {
                self.handed[below(&mut draw, threads)].lock().expect("no panic").push(one);
            } else {
                self.free(lane, &mut errors, one)?;
            }
            let handed = std::mem::take(&mut *self.handed[number].lock().expect("no panic"));
            for one in handed {
                self.free(lane, &mut errors, one)?;
            }
        }
        for one in live {
            self.free(&lanes[0], &mut errors, one)?;
        }
        Ok(lanes[0].download(&errors)?[0])
    }

    /// The tag that a thread writes into the allocation of a turn; `None` if no kernel uses the
    /// allocation.
    fn tag(&self, thread: usize, turn: u64) -> Option<u32> {
        turn.is_multiple_of(self.definition.used_every).then(|| {
            u32::try_from(turn % (1 << 24)).unwrap_or(0) << 8 | u32::try_from(thread).unwrap_or(0)
        })
    }

    fn allocate(
        &self,
        lane: &Stream,
        errors: &mut Buffer<u32>,
        tag: Option<u32>,
        draw: &mut Prng,
    ) -> Result<Live> {
        let bits = 8 + draw.below(u64::from(self.definition.size_max.ilog2()) - 7);
        let words = below(draw, 1 << (bits - 2)) + 1;
        let mut buffer = lane.alloc::<u32>(words)?;
        self.owned.take(&buffer)?;
        if let Some(tag) = tag {
            lane.launch_with(&TAG, ONE, (tag, 0, errors, &mut buffer))?;
        }
        Ok(Live { buffer, tag })
    }

    fn free(&self, lane: &Stream, errors: &mut Buffer<u32>, one: Live) -> Result<()> {
        let Live { mut buffer, tag } = one;
        if let Some(tag) = tag {
            lane.launch_with(&HAS_TAG, ONE, (tag, 0, errors, &mut buffer))?;
        }
        self.owned.give(&buffer)?;
        drop(buffer);
        Ok(())
    }
}

const ONE: LaunchConfig = LaunchConfig::new([1, 1, 1], [32, 1, 1]);

fn below(draw: &mut Prng, count: usize) -> usize {
    usize::try_from(draw.below(count as u64)).unwrap_or(0)
}

/// Runs the benchmark.
///
/// # Errors
/// `InvalidValue` if bytes had two owners at once, or if memory leaked; every error of the device.
pub(crate) fn run(
    device: &Device,
    definition: &Definition,
    steps: &mut Steps<'_>,
) -> Result<Results> {
    steps.expect(1);
    steps.begin("soak");
    device.synchronize()?;
    device.trim_memory(Bytes(0))?;
    device.limit_memory(Some(Bytes(definition.limit)))?;
    device.reset_memory_high()?;
    // The first allocation of an empty heap is at the start of its range.
    let base = device.stream()?.alloc::<u8>(1)?.address();
    let handed = (0..definition.threads).map(|_| Mutex::default()).collect();
    // The heap leaves holes, so its addresses span more than the limit.
    let owned = Owned::new(base, 4 * definition.limit);
    let soak = Soak { definition, device, owned, handed, stopped: AtomicBool::new(false) };
    let begin = Instant::now();
    let ended = std::thread::scope(|scope| {
        let start = |number| {
            let soak = &soak;
            scope.spawn(move || {
                let ended = soak.thread(number);
                soak.stopped.fetch_or(ended.is_err(), Ordering::Relaxed);
                ended
            })
        };
        let threads: Vec<_> = (0..definition.threads).map(start).collect();
        let panicked = |_| Err(Error::new(ErrorKind::Panicked, "bench soak", "a thread panicked"));
        threads.into_iter().map(|one| one.join().unwrap_or_else(panicked)).collect::<Vec<_>>()
    });
    let seconds = begin.elapsed().as_secs_f64();
    device.synchronize()?;
    let wrong_tags: u32 = ended.into_iter().sum::<Result<u32>>()?;
    if wrong_tags > 0 {
        return Err(wrong(format!("{wrong_tags} kernels found the tag of another owner")));
    }
    drop(soak);
    device.limit_memory(None)?;
    let (memory, heap) = (device.memory_stats()?, device.heap_stats().unwrap_or_default());
    if memory.used != Bytes(0) {
        return Err(wrong(format!("{} are allocated after everything was freed", memory.used)));
    }
    let mut results = Results::of_device(device);
    results.note(
        "verified",
        "no byte had two owners at once, every tag was right, and nothing was allocated in the end",
    );
    let mut push = |what: &str, unit: &str, value: f64| {
        results.push(what.to_owned(), unit, Samples::one(value), None);
    };
    push("allocations", "calls", definition.allocations as f64);
    push("allocation and free, all threads", "ns", seconds * 1e9 / definition.allocations as f64);
    push("most memory allocated", "MiB", memory.used_high.0 as f64 / f64::from(1 << 20));
    push("most memory held", "MiB", memory.reserved_high.0 as f64 / f64::from(1 << 20));
    push("calls of the driver for memory", "calls", heap.calls as f64);
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{assert_no_finding, checked_device};
    use trijet::sim::Order;
    use trijet_tools::progress::Step;

    #[test]
    fn a_short_soak_gives_no_byte_to_two_owners_and_leaks_nothing() -> Result<()> {
        for (seed, threads) in [(1, 1), (2, 3)] {
            let device = checked_device(Order::Seeded(seed))?;
            let definition = Definition {
                threads,
                streams: 4,
                allocations: 3000,
                kept: 12,
                size_max: 1 << 14,
                used_every: 5,
                limit: 1 << 20,
            };
            let mut show = |_: Step<'_>| ();
            let printed = run(&device, &definition, &mut Steps::new(&mut show))?.to_string();
            assert!(printed.contains("allocation and free, all threads"), "{printed}");
            assert_no_finding(&device, 100);
        }
        Ok(())
    }

    #[test]
    fn bytes_with_two_owners_are_refused() -> Result<()> {
        let device = checked_device(Order::Greedy)?;
        let buffer = device.stream()?.alloc::<u32>(64 * 200)?;
        let owned = Owned::new(buffer.address() - 300 * GRANULE, 1 << 20);
        owned.take(&buffer)?;
        assert!(owned.take(&buffer).is_err());
        owned.give(&buffer)?;
        owned.take(&buffer)?;
        let outside = Owned::new(buffer.address() + 1, 1 << 20);
        assert!(outside.take(&buffer).is_err());
        Ok(())
    }
}
