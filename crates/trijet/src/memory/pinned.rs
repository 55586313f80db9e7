//! Host memory, page-locked or pageable, and the guards through which the host accesses it.
//!
//! Taking a guard waits only for the operations that still use the bytes. While the guard exists,
//! its borrow prevents the program from enqueuing conflicting operations. Guards need no state
//! except the stamps of the block. So forgetting a guard is harmless: the drop of a guard does
//! nothing.

use super::buffer::{Buffer, Element, PageLocked, Pageable, bytes_of};
use super::heap::kept;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Space;
use crate::log::calling;
use crate::stream::Device;
use crate::stream::ready::Waiting;
use crate::stream::shared::OpenDevice;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// Elements in page-locked host memory.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let mut h = device.pinned::<f32>(1000)?;
/// h.write()?.fill(1.5);
/// assert_eq!(h.read()?[999], 1.5);
/// # Ok::<(), trijet::Error>(())
/// ```
pub type PinnedBuffer<T> = Buffer<T, PageLocked>;

/// Elements in ordinary host memory. The driver copies such memory in stages, which takes longer
/// and may block the calling thread (law [A17](crate::laws#a17)). Use page-locked memory wherever
/// possible.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let s = device.stream()?;
/// let mut h = device.pageable::<u8>(100)?;
/// h.write()?.fill(7);
/// let mut x = s.alloc::<u8>(100)?;
/// s.copy(&h, &mut x)?;
/// h.write()?.fill(0);
/// s.copy(&x, &mut h)?;
/// assert_eq!(h.read()?[99], 7);
/// # Ok::<(), trijet::Error>(())
/// ```
pub type PageableBuffer<T> = Buffer<T, Pageable>;

mod sealed {
    #[expect(unnameable_types, reason = "only this crate implements it")]
    pub trait Sealed {}
}

/// Marks memory that the host can access: page-locked or pageable. Only this crate implements this
/// trait.
pub trait OnHost: sealed::Sealed {}
impl sealed::Sealed for PageLocked {}
impl sealed::Sealed for Pageable {}
impl OnHost for PageLocked {}
impl OnHost for Pageable {}

/// Elements that are lent to the host for reading.
#[derive(Debug)]
pub struct ReadGuard<'a, T>(&'a [T]);

/// The future of [`Buffer::ready`].
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct ReadReady<'a, T, S> {
    buffer: &'a Buffer<T, S>,
    waiting: Waiting,
    /// The site of the call that created the future.
    site: &'static Location<'static>,
}

/// Elements that are lent to the host for reading and writing.
#[derive(Debug)]
pub struct WriteGuard<'a, T>(&'a mut [T]);

/// Allocates page-locked memory for `len` elements. If a call of the driver is necessary, `device`
/// makes it.
#[track_caller]
pub(super) fn alloc<T: Element>(device: &Arc<OpenDevice>, len: usize) -> Result<PinnedBuffer<T>> {
    let block = kept::alloc(device, bytes_of::<T>("pinned", len)?, Space::Pinned)?;
    Ok(Buffer::new(block, len))
}

/// Page-locked memory with a copy of `data`, as the source of an upload.
#[track_caller]
pub(super) fn staged<T: Element>(device: &Arc<OpenDevice>, data: &[T]) -> Result<PinnedBuffer<T>> {
    let mut staged = alloc::<T>(device, data.len())?;
    staged.write()?.copy_from_slice(data);
    Ok(staged)
}

impl Device {
    /// Allocates page-locked host memory for `len` elements; the values are arbitrary. Memory of
    /// dropped buffers is reused, because locking pages costs far more than copying them.
    ///
    /// # Errors
    /// `OutOfMemory` if the system cannot lock more memory; `InvalidValue` if the size overflows or
    /// an element has no bytes.
    #[track_caller]
    pub fn pinned<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        alloc(self.shared(), len)
    }

    /// Allocates ordinary host memory for `len` elements; the values are arbitrary.
    ///
    /// # Errors
    /// `OutOfMemory` if the system has no more memory; `InvalidValue` if the size overflows or an
    /// element has no bytes.
    #[track_caller]
    pub fn pageable<T: Element>(&self, len: usize) -> Result<PageableBuffer<T>> {
        let block = kept::alloc(self.shared(), bytes_of::<T>("pageable", len)?, Space::Pageable)?;
        Ok(Buffer::new(block, len))
    }
}

impl<T: Element, S: OnHost> Buffer<T, S> {
    /// Waits for the operations that still write the buffer. Then lends the elements for reading.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_, T>> {
        calling::refuse("read")?;
        let range = self.view().range();
        self.block.host_wait(range, Mode::Read, Location::caller())?;
        self.lend(Location::caller())
    }

    /// Lends the elements for reading. Requires that every operation that writes them is complete.
    fn lend(&self, site: &'static Location<'static>) -> Result<ReadGuard<'_, T>> {
        let range = self.view().range();
        self.block.note_host(range.clone(), Mode::Read, site);
        let host = self.block.whole().memory().host().ok_or_else(inaccessible)?;
        // SAFETY: every operation that writes the range is complete, because both callers of this
        // function wait for these operations first. No such operation can be enqueued while the
        // guard borrows the buffer, because writing takes `&mut`. A part that was split off has
        // another range. Manual ordering is unsafe, and the caller of `order_manually` has promised
        // the same. A part of the data of tasks is lent only while the tasks that write this part
        // are held back.
        let bytes = unsafe { host.slice(self.block.in_memory(&range)) };
        Ok(ReadGuard(bytemuck::cast_slice(bytes)))
    }

    /// A future that waits for the operations that still write the buffer. Then it lends the
    /// elements for reading, like [`Buffer::read`].
    ///
    /// ```
    /// # use std::pin::pin;
    /// # use std::task::{Context, Poll, Waker};
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// #         if let Poll::Ready(output) = polled { break output }
    /// #         std::thread::yield_now();
    /// #     }
    /// # }
    /// use trijet::{Device, Result, Select};
    /// async fn seventh(device: &Device) -> Result<u32> {
    ///     let s = device.stream()?;
    ///     let mut h = device.pinned::<u32>(1000)?;
    ///     let mut x = s.alloc::<u32>(1000)?;
    ///     s.fill_bytes(&mut x, 1)?;
    ///     s.copy(&x, &mut h)?;
    ///     let v = h.ready().await?;
    ///     Ok(v[7])
    /// }
    /// // `block_on` of any executor.
    /// let value = block_on(seventh(&Device::open(Select::Host(0))?))?;
    /// assert_eq!(value, 0x0101_0101);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The future ends with the error of work that failed, or with `Stalled`.
    #[track_caller]
    pub fn ready(&self) -> ReadReady<'_, T, S> {
        let site = Location::caller();
        let waiting = self.block.host_waiting(self.view().range(), Mode::Read, site);
        ReadReady { buffer: self, waiting, site }
    }

    /// Waits for the operations that still use the buffer. Then lends the elements for writing.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn write(&mut self) -> Result<WriteGuard<'_, T>> {
        calling::refuse("write")?;
        let range = self.view().range();
        self.block.host_wait(range.clone(), Mode::Write, Location::caller())?;
        self.block.note_host(range.clone(), Mode::Write, Location::caller());
        let host = self.block.whole().memory().host().ok_or_else(inaccessible)?;
        // SAFETY: every operation that accesses the range is complete (waited for above). No
        // operation on the range can be enqueued while the guard borrows the buffer mutably. A part
        // that was split off has another range, and no other guard of this range can exist. A part
        // of the data of tasks is lent only while the tasks that use this part are held back.
        let bytes = unsafe { host.slice_mut(self.block.in_memory(&range)) };
        Ok(WriteGuard(bytemuck::cast_slice_mut(bytes)))
    }
}

impl<'a, T: Element, S: OnHost> Future for ReadReady<'a, T, S> {
    type Output = Result<ReadGuard<'a, T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(self.waiting.poll(context))?;
        // The future waits only for operations that were pending when it was created. Since then,
        // the borrow has prevented new writers.
        Poll::Ready(self.buffer.lend(self.site))
    }
}

fn inaccessible() -> Error {
    Error::new(ErrorKind::InvalidValue, "host access", "the host cannot access the memory")
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.0
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0
    }
}
