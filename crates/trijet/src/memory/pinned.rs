//! Host memory, page-locked or pageable: a buffer like any other, and the host is a lane.
//!
//! The host reads and writes it through guards. Taking one waits for the operations that still
//! use the bytes, and for nothing else; while it lives, the borrow keeps new ones from being
//! enqueued. So the guards rest on the same stamps as everything, and forgetting one is harmless:
//! nothing is undone when it drops.
//!
//! Imports: `base`, `device`, `stream`. The only unsafe code of this floor.

use super::block::Block;
use super::buffer::{Buffer, Element, PageLocked, Pageable, bytes_of};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::device::memory::Space;
use crate::stream::{Device, callback};
use std::ops::{Deref, DerefMut};

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

/// Elements in ordinary host memory. The driver stages copies from and to it, which costs time and
/// may hold the host up (law A17): page-locked memory is the better choice wherever one has it.
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

/// Marks memory that the host reaches: page-locked or pageable.
pub trait OnHost {}
impl OnHost for PageLocked {}
impl OnHost for Pageable {}

/// Elements that the host reads.
#[derive(Debug)]
pub struct ReadGuard<'a, T>(&'a [T]);

/// Elements that the host reads and writes.
#[derive(Debug)]
pub struct WriteGuard<'a, T>(&'a mut [T]);

impl Device {
    /// Page-locked host memory for `len` elements; their values are arbitrary. It comes from a
    /// pool, because locking pages costs far more than copying them.
    ///
    /// # Errors
    /// `OutOfMemory` when the system locks no more; `InvalidValue` when the size overflows or an
    /// element has no bytes.
    pub fn pinned<T: Element>(&self, len: u64) -> Result<PinnedBuffer<T>> {
        let block = Block::on_host(self, bytes_of::<T>("pinned", len)?, Space::Pinned)?;
        Ok(Buffer::new(block, len))
    }

    /// Ordinary host memory for `len` elements; their values are arbitrary.
    ///
    /// # Errors
    /// `OutOfMemory` when the system has no more; `InvalidValue` when the size overflows or an
    /// element has no bytes.
    pub fn pageable<T: Element>(&self, len: u64) -> Result<PageableBuffer<T>> {
        let block = Block::on_host(self, bytes_of::<T>("pageable", len)?, Space::Pageable)?;
        Ok(Buffer::new(block, len))
    }
}

impl<T: Element, S: OnHost> Buffer<T, S> {
    /// Waits for the operations that still write the buffer, then lends it for reading.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    pub fn read(&self) -> Result<ReadGuard<'_, T>> {
        callback::refuse("read")?;
        let range = self.view().range();
        self.block.host_wait(range.clone(), Mode::Read)?;
        let host = self.block.memory.host().ok_or_else(no_bytes)?;
        // SAFETY: every operation that writes the range is complete (waited for above), and none
        // can be enqueued while the guard borrows the buffer: writing takes `&mut`. A split-off
        // part has another range. Manual ordering is unsafe and its user promised the same.
        let bytes = unsafe { host.slice(range) };
        Ok(ReadGuard(bytemuck::cast_slice(bytes)))
    }

    /// Waits for the operations that still use the buffer, then lends it for writing.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    pub fn write(&mut self) -> Result<WriteGuard<'_, T>> {
        callback::refuse("write")?;
        let range = self.view().range();
        self.block.host_wait(range.clone(), Mode::Write)?;
        let host = self.block.memory.host().ok_or_else(no_bytes)?;
        // SAFETY: every operation that touches the range is complete (waited for above), and none
        // can be enqueued while the guard borrows the buffer mutably. A split-off part has
        // another range, and no other guard of this one can exist.
        let bytes = unsafe { host.slice_mut(range) };
        Ok(WriteGuard(bytemuck::cast_slice_mut(bytes)))
    }
}

fn no_bytes() -> Error {
    Error::new(ErrorKind::InvalidValue, "host access", "the host does not reach the memory")
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
