//! Allocation of device memory in a stream. The memory comes from the heap or the pool of the
//! device.
#![forbid(unsafe_code)]

use super::buffer::{Buffer, Element, bytes_of};
use super::heap::share;
use super::{heap, pool, red_zones, temporary};
use crate::base::error::{ErrorKind, Result};
use crate::stream::Stream;
use crate::stream::shared::MemorySource;
use std::panic::Location;

impl Stream {
    /// Allocates device memory for `len` elements; the values are arbitrary. The memory comes from
    /// the heap of the device, which prefers memory that this stream can use without a wait. Other
    /// streams can use the buffer too. The first operation that writes the memory follows the
    /// pending operations of earlier buffers in this memory. When the buffer is dropped, the memory
    /// returns to the heap. Neither the allocation nor the drop calls the driver, unless the heap
    /// grows.
    ///
    /// A device that was opened with [`DeviceBuilder::pool`](crate::DeviceBuilder::pool) allocates
    /// and frees in stream order instead (laws [A21](crate::laws#a21) and [A22](crate::laws#a22)).
    ///
    /// In a stream of a [recording](crate::graph::Recording) the memory belongs to the graph, and
    /// only the operations of the graph can use it. After the buffer was dropped, operations that
    /// are recorded later may use the same memory. They then follow the earlier operations.
    ///
    /// # Errors
    /// `OutOfMemory`, with the requested size and the free memory; `InvalidValue` if the size
    /// overflows or an element has no bytes.
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = bytes_of::<T>("alloc", len)?;
        let (device, site) = (self.device(), Location::caller());
        let block = match self.lane().recorder() {
            None => match (&device.source, &device.watched) {
                (MemorySource::Heap(heap), None) => share::alloc(self, heap, bytes, site)?,
                (MemorySource::Heap(heap), Some(watched)) => {
                    let (block, start) = red_zones::alloc(self, heap, watched, bytes, site)?;
                    return Ok(Buffer::at(block, start, len));
                }
                (MemorySource::Pool(pool, _), _) => pool::alloc(self, *pool, bytes, site)?,
            },
            Some(recorder) => temporary::alloc(self, &**recorder, bytes)?,
        };
        Ok(Buffer::new(block, len))
    }

    /// Allocates like [`alloc`](Stream::alloc). But if the device has no memory left, the calling
    /// thread waits for operations that use freed memory, until there is enough memory. It waits
    /// first for the memory that was freed first.
    ///
    /// Such a wait ends only if the operations end. So do not call this function if one of the
    /// operations waits for the calling thread, or for another process that waits for this thread.
    /// For this reason `alloc` never waits.
    ///
    /// ```
    /// use trijet::sim::HostConfig;
    /// use trijet::{Bytes, Device, HeapMode};
    /// let config = HostConfig::new().memory(Bytes(1 << 20));
    /// let device = Device::host(config)?.remove(0);
    /// device.set_heap_mode(HeapMode::NeverWait)?;
    /// let (a, b) = (device.stream()?, device.stream()?);
    /// let mut x = a.alloc::<u8>(1 << 20)?;
    /// a.fill_bytes(&mut x, 1)?;
    /// drop(x);
    /// let y = b.alloc_waiting::<u8>(1 << 20)?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `alloc`. `OutOfMemory` only if live buffers leave too little memory.
    #[track_caller]
    pub fn alloc_waiting<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let site = Location::caller();
        let device = self.device();
        let (MemorySource::Heap(heap), None, None) =
            (&device.source, &device.watched, self.lane().recorder())
        else {
            let refused = match self.alloc(len) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
                outcome => return outcome,
            };
            if self.lane().recorder().is_some() {
                return Err(refused);
            }
            // A pool can reuse freed memory after this wait of the host, because the wait shows
            // that the users of the memory are complete (law A25).
            self.device().synchronize(site)?;
            return self.alloc(len);
        };
        let block = heap::alloc_waiting(self, heap, bytes_of::<T>("alloc", len)?, site)?;
        Ok(Buffer::new(block, len))
    }
}
