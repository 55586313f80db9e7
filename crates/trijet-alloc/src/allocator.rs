//! An allocator over the heap of one device.
//!
//! An allocation may get bytes that earlier users still use. If the stream of the allocation does
//! not follow these users yet, the stream waits for them. A free notes the current positions of its
//! stream and of each recorded stream. It returns the bytes to the heap together with these
//! positions. The library later records events for the positions. If the next owner of the bytes
//! uses another stream, that stream waits for the events.
#![forbid(unsafe_code)]

use crate::table::{Block, Table};
use std::collections::hash_map::Entry;
use std::sync::Arc;
use trijet::{Buffer, Bytes, Device, Error, ErrorKind, Result, Stream};

/// An allocator of device memory for code that enqueues its work without Trijet.
///
/// ```
/// use std::sync::Arc;
/// use trijet::{Device, Select};
/// use trijet_alloc::Allocator;
/// let device = Device::open(Select::Host(0))?;
/// let stream = Arc::new(device.stream()?);
/// let allocator = Allocator::new(device);
/// let address = allocator.alloc(1000, &stream)?;
/// // Other code enqueues work on the bytes in `stream.as_raw()`.
/// allocator.free(address, 1000, &stream)?;
/// assert!(allocator.free(address, 1000, &stream).is_err(), "the memory was freed before");
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct Allocator {
    device: Device,
    live: Table,
}

/// The memory that the heap of a device has and uses, and the number of driver calls for the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// The size of all live allocations, each rounded up to whole units of the heap.
    pub live: Bytes,
    /// The maximum of [`Statistics::live`] so far.
    pub live_high: Bytes,
    /// The size of the memory that the heap has from the device.
    pub reserved: Bytes,
    /// The maximum of [`Statistics::reserved`] so far.
    pub reserved_high: Bytes,
    /// The number of driver calls that took memory from the device, recorded events or made streams
    /// wait. If the device allocates from a memory pool of the driver, the calls for this pool do
    /// not count.
    pub driver_calls: u64,
    /// The number of driver calls that made a stream wait. [`Statistics::driver_calls`] includes
    /// them.
    pub waits: u64,
}

fn refused(op: &'static str, cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, op, cause)
}

impl Allocator {
    /// An allocator that takes memory from `device`. All allocators of a device use the same heap.
    #[must_use]
    pub fn new(device: Device) -> Self {
        Self { device, live: Table::default() }
    }

    /// The device from which this allocator takes memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Allocates `bytes` bytes, and returns their address. Work that is enqueued in `stream` after
    /// this call can use the memory. Work in another stream can use the memory if that stream first
    /// waits for this point of `stream`. If the device has no memory left, the call waits for all
    /// work of the device, and tries once more. After this wait, separate pieces of freed memory
    /// can be joined.
    ///
    /// `InvalidValue` if `bytes` is 0 or more than `isize::MAX`; `OutOfMemory`; `Capturing` while
    /// the stream is being captured into a graph; an error of the driver.
    pub fn alloc(&self, bytes: usize, stream: &Stream) -> Result<u64> {
        if bytes == 0 || isize::try_from(bytes).is_err() {
            let cause = format!("{bytes} bytes asked for; 1 to {} are possible", isize::MAX);
            return Err(refused("alloc", cause));
        }
        let total = self.device.info().memory;
        if bytes as u64 > total.0 {
            let cause =
                format!("{} asked for, but the device has only {total}", Bytes(bytes as u64));
            return Err(Error::new(ErrorKind::OutOfMemory, "alloc", cause));
        }
        let buffer = self.buffer(bytes, stream)?;
        let address = buffer.address();
        self.live.insert(address, Block { buffer, others: Vec::new() });
        Ok(address)
    }

    fn buffer(&self, bytes: usize, stream: &Stream) -> Result<Buffer<u8>> {
        let attempt = || {
            let buffer = stream.alloc::<u8>(bytes)?;
            stream.follow_users(&buffer)?;
            Ok(buffer)
        };
        attempt().or_else(|error: Error| {
            if error.kind() != ErrorKind::OutOfMemory || self.device.synchronize().is_err() {
                return Err(error);
            }
            attempt()
        })
    }

    /// Frees the allocation of `bytes` bytes at `address`. Work that was enqueued before this call
    /// in `stream` or in a recorded stream may still use the memory. The next owner of the memory
    /// waits for that work. If the call returns an error, the allocation stays live.
    ///
    /// `InvalidValue` if no live allocation begins at the address, if the allocation has another
    /// size, or if `stream` belongs to another driver.
    pub fn free(&self, address: u64, bytes: usize, stream: &Stream) -> Result<()> {
        let block = match self.live.shard(address).entry(address) {
            Entry::Vacant(_) => return Err(unknown("free", address)),
            Entry::Occupied(found) if found.get().buffer.len() == bytes => found.remove(),
            Entry::Occupied(found) => {
                let len = found.get().buffer.len();
                let cause = format!("the allocation at {address:#x} has {len} bytes, not {bytes}");
                return Err(refused("free", cause));
            }
        };
        let mut users = block.others.iter().map(|other| &**other).chain([stream]);
        let noted = users.try_for_each(|user| user.note_user(&block.buffer));
        drop(users);
        if noted.is_err() {
            // The users of the memory are not all noted, so the memory stays allocated.
            self.live.insert(address, block);
        }
        noted
    }

    /// Declares that work in `stream` uses the allocation at `address`. `stream` is another stream
    /// than the one that frees the allocation. The declaration covers all work that is enqueued in
    /// `stream` before the allocation is freed.
    ///
    /// # Errors
    /// `InvalidValue` if no live allocation begins at the address.
    pub fn record_stream(&self, address: u64, stream: &Arc<Stream>) -> Result<()> {
        let mut shard = self.live.shard(address);
        let Some(block) = shard.get_mut(&address) else {
            return Err(unknown("record stream", address));
        };
        if !block.others.iter().any(|other| Arc::ptr_eq(other, stream)) {
            block.others.push(Arc::clone(stream));
        }
        Ok(())
    }

    /// Forgets a recorded stream. Call this before the stream is destroyed. The next owner of an
    /// allocation with which the stream was recorded still waits for the work that the stream has
    /// now. It does not wait for later work of the stream.
    ///
    /// # Errors
    /// `InvalidValue` for a stream of another driver.
    pub fn forget_stream(&self, stream: &Arc<Stream>) -> Result<()> {
        self.live.each(|block| {
            if let Some(at) = block.others.iter().position(|other| Arc::ptr_eq(other, stream)) {
                stream.note_user(&block.buffer)?;
                block.others.swap_remove(at);
            }
            Ok(())
        })
    }

    /// Whether a live allocation begins at an address.
    #[must_use]
    pub fn has(&self, address: u64) -> bool {
        self.live.has(address)
    }

    /// The statistics of the device's heap. They include the allocations through other handles of
    /// the device.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn statistics(&self) -> Result<Statistics> {
        let memory = self.device.memory_stats()?;
        let order = self.device.ordering();
        let of_heap = self.device.heap_stats().map_or(0, |stats| stats.calls);
        Ok(Statistics {
            live: memory.used,
            live_high: memory.used_high,
            reserved: memory.reserved,
            reserved_high: memory.reserved_high,
            driver_calls: of_heap + order.waits + order.records,
            waits: order.waits,
        })
    }
}

/// The error for an address at which no live allocation begins.
fn unknown(op: &'static str, address: u64) -> Error {
    let cause = format!(
        "no live allocation begins at {address:#x}: it was freed before, or belongs to another \
         allocator"
    );
    refused(op, cause)
}
