//! Blocks of foreign memory: memory that the program or another library allocated, used here
//! without a copy.
//!
//! The program passes the address together with an owner, a value that keeps the memory alive. The
//! owner is dropped when the last buffer was dropped and every operation on the memory is complete.
//! The drop of a buffer does not wait for operations. If some operations are pending then, a later
//! call on the device drops the owner. Without such a call, the owner leaks.

use super::block::Block;
use super::buffer::{Buffer, Element, bytes_of};
use super::heap::kept::is_idle;
use super::pinned::PinnedBuffer;
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::base::panic::caught;
use crate::base::units::Bytes;
use crate::device::memory::{Memory, Space};
use crate::log::calling;
use crate::order::track::{NeededPositions, Track};
use crate::stream::device::Device;
use crate::stream::shared::OpenDevice;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

/// The owner of foreign memory. It leaks unless it is dropped explicitly.
type ForeignOwner = ManuallyDrop<Box<dyn Any + Send>>;

/// One piece of foreign memory.
struct ForeignSource {
    device: Arc<OpenDevice>,
    owner: Mutex<Option<ForeignOwner>>,
}

impl fmt::Debug for ForeignSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignSource").field("device", &self.device).finish_non_exhaustive()
    }
}

/// A block of `bytes` at `address`, which `owner` keeps alive. The public callers of this function
/// state the conditions under which the use of the block is sound.
pub(super) fn import(
    device: &Device,
    space: Space,
    address: u64,
    bytes: Bytes,
    owner: Box<dyn Any + Send>,
) -> Result<Arc<Block>> {
    calling::refuse("foreign memory")?;
    let shared = Arc::clone(device.shared());
    let imported = shared.domain.driver().memory_from_raw(space, address, bytes);
    let memory = imported.map_err(|error| shared.failed(error))?;
    let owner = Mutex::new(Some(ManuallyDrop::new(owner)));
    let source = ForeignSource { device: shared, owner };
    Ok(Block::new(Arc::new(source), memory.span(0..bytes.0)))
}

impl BlockSource for ForeignSource {
    fn device(&self) -> &OpenDevice {
        &self.device
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.device)
    }

    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, _: u32) {
        let owner = self.owner.lock().expect("no thread panicked while it held this lock").take();
        let Some(owner) = owner else { return };
        let mut users = NeededPositions::new();
        track.all_users(&(0..u64::MAX), Mode::Write, |_| false, &mut users);
        let (device, memory, track) = (Arc::clone(&self.device), memory.clone(), track.take());
        if calling::inside() || !device.domain.has_room_for_marks(users.iter()) {
            defer(device, memory, track, owner);
        } else {
            release(device, memory, track, owner);
        }
    }
}

/// If no operation uses the memory any more, drops `memory` and then `owner`. Otherwise a later
/// call on the device tries again.
fn release(device: Arc<OpenDevice>, memory: Memory, track: Track, mut owner: ForeignOwner) {
    match is_idle(&device.domain, &track) {
        Ok(true) => {
            drop(memory);
            // `ManuallyDrop` drops nothing by itself. So the box is taken out and then dropped.
            drop(caught(|| drop(std::mem::replace(&mut *owner, Box::new(())))));
        }
        Ok(false) => defer(device, memory, track, owner),
        // The device is lost, but may still access the bytes. So the bytes and their owner leak.
        Err(error) => device.keep_error(error),
    }
}

fn defer(device: Arc<OpenDevice>, memory: Memory, track: Track, owner: ForeignOwner) {
    let later = Arc::clone(&device);
    device.defer(Box::new(move || release(later, memory, track, owner)));
}

/// Returns an error if the address is not aligned for `T`.
fn check_aligned<T>(address: u64) -> Result<()> {
    if address.is_multiple_of(align_of::<T>() as u64) {
        return Ok(());
    }
    let cause = format!(
        "address {address:#x} is not a multiple of {} bytes, the alignment of the elements",
        align_of::<T>()
    );
    Err(Error::new(ErrorKind::InvalidValue, "foreign memory", cause))
}

impl Device {
    /// A buffer of `len` elements of device memory that another library allocated, without a copy.
    /// Uses of the buffer are ordered like the uses of any other buffer. `owner` keeps the memory
    /// alive. `owner` is dropped when the buffer was dropped and every operation on the memory is
    /// complete. This happens in the drop of the buffer, or in a later call on this device.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// // The memory of the host device is memory of this process.
    /// let values = vec![1.5f32; 64].into_boxed_slice();
    /// let address = values.as_ptr().expose_provenance() as u64;
    /// // SAFETY: the box moves into the buffer, so no other code reaches its elements.
    /// let x = unsafe { device.buffer_from_raw::<f32>(address, 64, values)? };
    /// let mut h = device.pinned::<f32>(64)?;
    /// s.copy(&x, &mut h)?;
    /// assert_eq!(h.read()?[63], 1.5);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `address` is the address of `len` elements in memory of this device, which stays valid until
    /// `owner` is dropped. Accesses by other code that began before this call are complete, or
    /// streams and events order them before every use of the buffer. Until `owner` is dropped,
    /// other code accesses the memory only in [`Stream::foreign`](crate::Stream::foreign). For a
    /// host device, the elements are initialised.
    ///
    /// # Errors
    /// `InvalidValue` if the address is null or not a multiple of the alignment of `T`, if an
    /// element has no bytes, and if the size overflows.
    pub unsafe fn buffer_from_raw<T: Element>(
        &self,
        address: u64,
        len: usize,
        owner: impl Any + Send,
    ) -> Result<Buffer<T>> {
        check_aligned::<T>(address)?;
        let bytes = bytes_of::<T>("foreign memory", len)?;
        let space = Space::Device(self.id());
        Ok(Buffer::new(import(self, space, address, bytes, Box::new(owner))?, len))
    }

    /// A buffer of `len` elements of page-locked host memory that other code allocated, for example
    /// with `cudaHostAlloc`. In all other respects, it is like a buffer of
    /// [`Device::buffer_from_raw`].
    ///
    /// # Safety
    /// The conditions of [`Device::buffer_from_raw`] hold, for page-locked memory of the host. The
    /// elements are initialised.
    ///
    /// # Errors
    /// The errors of [`Device::buffer_from_raw`].
    pub unsafe fn pinned_from_raw<T: Element>(
        &self,
        address: u64,
        len: usize,
        owner: impl Any + Send,
    ) -> Result<PinnedBuffer<T>> {
        check_aligned::<T>(address)?;
        let bytes = bytes_of::<T>("foreign memory", len)?;
        Ok(Buffer::new(import(self, Space::Pinned, address, bytes, Box::new(owner))?, len))
    }
}
