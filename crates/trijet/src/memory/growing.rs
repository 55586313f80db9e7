//! Growing buffers: device memory that becomes larger without a copy and at the same address.
//!
//! A growing buffer has a range of addresses for its maximum number of elements. Memory is mapped
//! at addresses above the bytes that operations may use, so mapping waits for no operation. A
//! thread maps memory ahead of its use. When the buffer is dropped, the range keeps its memory for
//! the next growing buffer.
#![forbid(unsafe_code)]

use super::block::Block;
use super::buffer::{AsView, AsViewMut, Buffer, Element, View, ViewMut, bytes_of};
use super::heap::{access, note_from_heap};
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{MemoryCall, Mode, Place};
use crate::base::units::Bytes;
use crate::device::memory::Memory;
use crate::heap::{GrowingRange, Heap, Trim, Users};
use crate::log::calling;
use crate::order::track::Track;
use crate::stream::Stream;
use crate::stream::shared::{MemorySource, OpenDevice};
use std::borrow::Cow;
use std::fmt;
use std::ops::RangeBounds;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Elements in device memory. Their number can grow without a copy, and their address stays the
/// same.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let mut tokens = s.growing::<u32>(0, 1 << 20)?;
/// let address = tokens.address();
/// for token in 0..1000 {
///     tokens.grow_to(token + 1)?;
///     s.fill(&mut tokens.slice_mut(token..), token as u32)?;
/// }
/// let mut last = device.pinned::<u32>(2)?;
/// s.copy(&tokens.slice(998..), &mut last)?;
/// assert_eq!(&*last.read()?, &[998, 999]);
/// assert_eq!(tokens.address(), address);
/// # Ok::<(), trijet::Error>(())
/// ```
pub struct GrowingBuffer<T> {
    buffer: Buffer<T>,
    range: Arc<GrowingRange>,
    device: Arc<OpenDevice>,
    /// The maximum number of elements.
    len_max: usize,
    /// Whether other code got the address of the buffer. That code may also use elements that the
    /// buffer gets later.
    is_exposed: AtomicBool,
}

/// The source of the block of a growing buffer.
#[derive(Debug)]
struct Growing {
    device: Arc<OpenDevice>,
    range: Arc<GrowingRange>,
}

impl Stream {
    /// A growing buffer of `len` elements, which can grow to `len_max` elements; the values are
    /// arbitrary. For elements beyond `len`, only addresses are reserved. The memory may come from
    /// a growing buffer that was dropped. Then the first operation that writes the new buffer
    /// follows the operations that used the memory before.
    ///
    /// # Errors
    /// `OutOfMemory` if there is not enough memory or not enough addresses; `InvalidValue` if the
    /// size overflows, an element has no bytes, or `len` is more than `len_max`; `Unsupported` for
    /// a device that allocates from a pool, and in a stream of a recording.
    #[track_caller]
    pub fn growing<T: Element>(&self, len: usize, len_max: usize) -> Result<GrowingBuffer<T>> {
        let [used, bytes] = [bytes_of::<T>("growing", len)?, bytes_of::<T>("growing", len_max)?];
        let device = self.device();
        device.run_deferred();
        self.lane().admit("growing")?;
        let (MemorySource::Heap(heap), None) = (&device.source, self.lane().recorder()) else {
            let cause =
                "a growing buffer needs the heap of a device; a pool and a recording have no heap";
            return Err(Error::new(ErrorKind::Unsupported, "growing", cause).on(device.id));
        };
        let domain = &device.domain;
        let begun = domain.log().begin_call();
        let is_done = |user: &_| domain.counts_as_done(heap.mode(), *user);
        let reserved = heap.growing(&**domain.driver(), (used.0, bytes.0), is_done);
        let (range, users) = reserved.map_err(|error| device.failed(error))?;
        let whole = range.memory().bytes();
        let track = Track::following(domain.id(), whole, Place::Device, users).growing();
        if let Some(begun) = begun {
            note_from_heap(device, begun, &track, range.place(), whole, Location::caller());
        }
        let source = Growing { device: Arc::clone(device), range: Arc::clone(&range) };
        let block = Block::with_track(Arc::new(source), range.memory().span(0..whole), track);
        let device = Arc::clone(device);
        let mut growing = GrowingBuffer {
            buffer: Buffer::new(block, 0),
            range,
            device,
            len_max,
            is_exposed: AtomicBool::new(false),
        };
        growing.grow_to(len)?;
        Ok(growing)
    }
}

impl<T: Element> GrowingBuffer<T> {
    /// Increases the length of the buffer to `len` elements. Existing elements keep their values
    /// and their address, and the values of new elements are arbitrary. Pending operations that use
    /// the buffer continue, and operations on the new elements do not wait for them.
    ///
    /// If the memory is already mapped, the call makes no call of the driver. A thread maps memory
    /// ahead while the buffer grows. A device with a virtual executor has no such thread, so that
    /// every run is the same. On such a device, the call itself maps the memory.
    ///
    /// # Errors
    /// `InvalidValue` if `len` is less than the present length, or more than the maximum length;
    /// `OutOfMemory` if the device has no more memory. After an error the buffer is unchanged.
    #[inline]
    pub fn grow_to(&mut self, len: usize) -> Result<()> {
        calling::refuse("grow")?;
        if len < self.buffer.len || len > self.len_max {
            return Err(self.refused(len));
        }
        let bytes = (len * size_of::<T>()) as u64;
        if bytes > self.range.mapped() {
            self.map(bytes)?;
        }
        self.buffer.len = len;
        self.buffer.block.track.grow(bytes);
        if self.is_exposed.load(Ordering::Relaxed) {
            self.buffer.block.expose(&(0..bytes));
        }
        self.ask_ahead(bytes)
    }

    /// Reduces the length of the buffer to `len` elements, unless it is shorter already. The buffer
    /// keeps the memory.
    pub fn truncate(&mut self, len: usize) {
        self.buffer.len = self.buffer.len.min(len);
    }

    /// Maps the memory for `len` elements now. Later the buffer can grow to this length without a
    /// call of the driver.
    ///
    /// # Errors
    /// The errors of [`grow_to`](Self::grow_to).
    pub fn prepare(&self, len: usize) -> Result<()> {
        calling::refuse("prepare")?;
        if len > self.len_max {
            return Err(self.refused(len));
        }
        self.map((len * size_of::<T>()) as u64)
    }

    /// The number of elements.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there are no elements.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The maximum number of elements.
    #[must_use]
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// The number of bytes for which memory is mapped.
    #[must_use]
    pub fn mapped(&self) -> Bytes {
        Bytes(self.range.mapped())
    }

    /// The address of the first element, as kernels and other libraries see it. The address never
    /// changes.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.is_exposed.store(true, Ordering::Relaxed);
        self.buffer.address()
    }

    /// Gives the buffer a name, which findings and timelines use.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.buffer.block.name(name);
        self
    }

    /// The elements `range`, for reading.
    ///
    /// # Panics
    /// If the range does not lie within the buffer, as for a slice.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        self.buffer.slice(range)
    }

    /// The elements `range`, for writing.
    ///
    /// # Panics
    /// If the range does not lie within the buffer, as for a slice.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        self.buffer.slice_mut(range)
    }

    #[cold]
    fn refused(&self, len: usize) -> Error {
        let cause = format!(
            "{len} elements asked for; the buffer has {} and may have up to {}",
            self.buffer.len, self.len_max
        );
        Error::new(ErrorKind::InvalidValue, "grow", cause).on(self.device.id)
    }

    fn heap(&self) -> Result<&Arc<Heap>> {
        match &self.device.source {
            MemorySource::Heap(heap) => Ok(heap),
            MemorySource::Pool(..) => {
                Err(Error::new(ErrorKind::Unsupported, "grow", "the device has no heap"))
            }
        }
    }

    /// Maps memory for the first `bytes` bytes. If the device has no more memory, the heap first
    /// releases unused memory.
    #[cold]
    fn map(&self, bytes: u64) -> Result<()> {
        let (heap, domain) = (self.heap()?, &self.device.domain);
        let driver = &**domain.driver();
        let is_done = |user: &_| domain.is_done(*user);
        let refused = match heap.extend(driver, &self.range, bytes) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
            outcome => return outcome.map_err(|error| self.device.failed(error)),
        };
        domain.gather_in_heap(heap);
        domain.retire_in_heap(heap, &mut domain.lock_heap(heap));
        let freed = heap.trim(driver, Trim::Keep(0), is_done);
        let again = match freed.map_err(|error| self.device.failed(error))? {
            0 => Err(refused),
            _ => heap.extend(driver, &self.range, bytes),
        };
        again.map_err(|error| self.device.failed(error))
    }

    /// If the first `bytes` bytes end near the end of the mapped memory, asks the mapper thread to
    /// map more memory. Does nothing on a device with a virtual executor.
    #[inline]
    fn ask_ahead(&self, bytes: u64) -> Result<()> {
        let (heap, domain) = (self.heap()?, &self.device.domain);
        let driver = domain.driver();
        let Some(sizes) = heap.sizes(&**driver)? else { return Ok(()) };
        if let Some(to) = self.range.ahead(bytes, sizes)
            && !domain.gate.is_simulated
        {
            heap.ask_ahead(driver, &self.range, to);
        }
        Ok(())
    }
}

impl<T: Element> AsView for GrowingBuffer<T> {
    type Element = T;
    fn as_view(&self) -> View<'_, T> {
        self.buffer.view()
    }
}

impl<T: Element> AsViewMut for GrowingBuffer<T> {
    type Element = T;
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.buffer.view_mut()
    }
}

impl<T> fmt::Debug for GrowingBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "growing buffer of {} of {} elements of {name}", self.buffer.len, self.len_max)
    }
}

impl BlockSource for Growing {
    fn device(&self) -> &OpenDevice {
        &self.device
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.device)
    }

    /// Parks the range in the heap. The range keeps its memory. The heap notes the operations that
    /// used the memory last.
    fn give_back(self: Arc<Self>, _: &Memory, track: &mut Track, _: u32) {
        let MemorySource::Heap(heap) = &self.device.source else { return };
        let domain = &*self.device.domain;
        if let Some(begun) = domain.log().begin_call() {
            domain.log().note_call(begun, MemoryCall::ToHeap, self.device.id, |op| {
                op.accesses.push(access(track, track.bytes()));
                op.label = Cow::Borrowed("free");
            });
        }
        let mut users = Users::new();
        let mode = heap.mode();
        let is_done = |user| domain.counts_as_done(mode, user);
        track.all_users(&(0..u64::MAX), Mode::Write, is_done, &mut users);
        heap.park(Arc::clone(&self.range), users);
    }
}
