//! Many threads that allocate, use and free memory of one heap: no byte has two owners, and no work
//! of one owner reaches the bytes of the next.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, RwLock};
use trijet::testing::Prng;
use trijet::{Buffer, Device, PinnedBuffer, Result, Stream};

/// Every address of a heap is a multiple of this.
const GRANULE: u64 = 256;
/// The number of granules of a region. Each region has one table.
const REGION: u64 = 1 << 16;
/// Maximum number of buffers that a thread has at once, and maximum size of a buffer in bytes.
const LIVE_MAX: usize = 48;
const SIZE_MAX: u64 = 32 << 10;
/// One of every `USED` buffers is used.
const USED: u64 = 24;
/// The number of buffers that are checked before the host waits for the results.
const CHECKS: usize = 64;

/// The size of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Churn {
    pub(crate) threads: usize,
    /// The number of streams of each thread.
    pub(crate) streams: usize,
    /// The number of allocations that each thread makes.
    pub(crate) allocations: u64,
}

/// The owner of each granule. The keys are the numbers of the regions; an owner of 0 means none.
#[derive(Default)]
struct Owners(RwLock<BTreeMap<u64, Arc<[AtomicU32]>>>);

impl Owners {
    fn region(&self, number: u64) -> Arc<[AtomicU32]> {
        let known = self
            .0
            .read()
            .expect("no thread panicked while it held this lock")
            .get(&number)
            .cloned();
        known.unwrap_or_else(|| {
            let mut all = self.0.write().expect("no thread panicked while it held this lock");
            let new = || (0..REGION).map(|_| AtomicU32::new(0)).collect();
            Arc::clone(all.entry(number).or_insert_with(new))
        })
    }

    #[track_caller]
    fn pass(&self, buffer: &Buffer<u8>, from: u32, to: u32) {
        let first = buffer.address() / GRANULE;
        let mut region = self.region(first / REGION);
        for granule in first..first + (buffer.len() as u64).div_ceil(GRANULE) {
            if granule.is_multiple_of(REGION) {
                region = self.region(granule / REGION);
            }
            let at = usize::try_from(granule % REGION).expect("it is below a usize");
            let owner = region[at].swap(to, Ordering::Relaxed);
            assert_eq!(owner, from, "{:#x} has two owners", buffer.address());
        }
    }

    fn demand_none(&self) {
        let all = self.0.read().expect("no thread panicked while it held this lock");
        let owned = all.values().flat_map(|region| region.iter());
        assert!(owned.into_iter().all(|owner| owner.load(Ordering::Relaxed) == 0));
    }
}

/// A live buffer, with the expected value of its last byte if the buffer was used.
struct Held {
    buffer: Buffer<u8>,
    owner: u32,
    value: Option<u8>,
}

/// A thread of a run.
struct Worker<'a> {
    owners: &'a Owners,
    streams: Vec<Stream>,
    draw: Prng,
    live: Vec<Held>,
    /// Receives the last bytes of used buffers from the device. Their expected values follow.
    landed: PinnedBuffer<u8>,
    expected: Vec<u8>,
    to: Sender<Held>,
    from: Receiver<Held>,
}

impl Worker<'_> {
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.draw.below(count as u64)).expect("it is below a usize")
    }

    fn allocate(&mut self, number: u64, owner: u32) -> Result<()> {
        let at = self.below(self.streams.len());
        let bytes = 1 + self.draw.below(SIZE_MAX);
        let mut buffer =
            self.streams[at].alloc::<u8>(usize::try_from(bytes).expect("it is small"))?;
        self.owners.pass(&buffer, 0, owner);
        let value = number.is_multiple_of(USED).then_some((number % 251) as u8);
        if let Some(value) = value {
            self.streams[at].fill_bytes(&mut buffer, value)?;
        }
        self.live.push(Held { buffer, owner, value });
        Ok(())
    }

    /// Checks the last byte of a used buffer in any stream, and drops the buffer.
    fn free(&mut self, held: Held) -> Result<()> {
        let Held { buffer, owner, value } = held;
        if let Some(value) = value {
            let (at, slot) = (self.below(self.streams.len()), self.expected.len());
            let last = buffer.slice(buffer.len() - 1..);
            self.streams[at].copy(&last, &mut self.landed.slice_mut(slot..=slot))?;
            self.expected.push(value);
        }
        self.owners.pass(&buffer, owner, 0);
        drop(buffer);
        if self.expected.len() == CHECKS { self.check() } else { Ok(()) }
    }

    fn check(&mut self) -> Result<()> {
        let count = self.expected.len();
        assert_eq!(self.landed.read()?[..count], self.expected[..], "bytes of another owner");
        self.expected.clear();
        Ok(())
    }

    fn run(mut self, allocations: u64, owner: u32) -> Result<()> {
        for number in 0..allocations {
            self.allocate(number, owner)?;
            while self.live.len() > LIVE_MAX {
                let at = self.below(self.live.len());
                let held = self.live.swap_remove(at);
                // Another thread frees a quarter of the buffers.
                if number.is_multiple_of(4) {
                    if let Err(back) = self.to.send(held) {
                        self.free(back.0)?;
                    }
                } else {
                    self.free(held)?;
                }
            }
            while let Ok(held) = self.from.try_recv() {
                self.free(held)?;
            }
        }
        // Closes the channel, so that the next thread sees that it gets no more buffers.
        self.to = channel().0;
        while let Ok(held) = self.from.recv() {
            self.free(held)?;
        }
        while let Some(held) = self.live.pop() {
            self.free(held)?;
        }
        self.check()
    }
}

/// Runs threads that allocate, use and free, and checks that no byte had two owners, that used
/// memory kept its bytes, and that nothing leaked.
pub(crate) fn churn(device: &Device, churn: Churn) -> Result<()> {
    let before = device.memory_stats()?.used;
    let owners = Owners::default();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..churn.threads).map(|_| channel()).unzip();
    let mut workers = Vec::new();
    for (number, from) in receivers.into_iter().enumerate() {
        workers.push(Worker {
            owners: &owners,
            streams: (0..churn.streams).map(|_| device.stream()).collect::<Result<_>>()?,
            draw: Prng::new(number as u64),
            live: Vec::new(),
            landed: device.pinned(CHECKS)?,
            expected: Vec::new(),
            to: Sender::clone(&senders[(number + 1) % churn.threads]),
            from,
        });
    }
    drop(senders);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..)
            .zip(workers)
            .map(|(owner, worker)| scope.spawn(move || worker.run(churn.allocations, owner)))
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker panicked"))
    })?;
    device.synchronize()?;
    owners.demand_none();
    assert_eq!(device.memory_stats()?.used, before, "memory leaked");
    Ok(())
}

/// Laws M-B1 to M-B5, with threads.
pub(crate) fn threads_that_allocate_and_free_never_share_live_bytes(device: &Device) -> Result<()> {
    churn(device, Churn { threads: 4, streams: 2, allocations: 400 })
}
