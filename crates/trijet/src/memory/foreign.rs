//! Blocks of foreign memory: allocated by the program or by another library, and used here without a
//! copy.
//!
//! The owner of the memory is a value that the program hands over with the address. It is dropped when
//! the last buffer is gone and every operation on the memory is complete. A drop does not wait for
//! that: if operations are pending, the owner is dropped by a later call of the device, and leaks if
//! there is none.

use super::block::Block;
use super::buffer::{Buffer, Element, bytes_of};
use super::kept::is_idle;
use super::pinned::PinnedBuffer;
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::Mode;
use crate::base::panic::caught;
use crate::base::units::Bytes;
use crate::device::memory::{Memory, Space};
use crate::log::calling;
use crate::order::track::{Needs, Track};
use crate::stream::device::Device;
use crate::stream::shared::Shared;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};

/// The owner of foreign memory. It leaks unless it is dropped on purpose.
type Owner = ManuallyDrop<Box<dyn Any + Send>>;

/// One piece of foreign memory.
struct ForeignSource {
    device: Arc<Shared>,
    owner: Mutex<Option<Owner>>,
}

impl fmt::Debug for ForeignSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignSource").field("device", &self.device).finish_non_exhaustive()
    }
}

/// The block of `bytes` at `address`, which `owner` keeps alive. What it takes to be sound is stated by
/// the public functions that call this.
pub(super) fn import(
    device: &Device,
    space: Space,
    (address, bytes): (u64, Bytes),
    owner: Box<dyn Any + Send>,
) -> Result<Block> {
    calling::refuse("foreign memory")?;
    let shared = Arc::clone(device.shared());
    let imported = shared.domain.driver().memory_from_raw(space, address, bytes);
    let memory = imported.map_err(|error| shared.failed(error))?;
    let owner = Mutex::new(Some(ManuallyDrop::new(owner)));
    let source = ForeignSource { device: shared, owner };
    Ok(Block::new(Arc::new(source), memory.span(0..bytes.0)))
}

impl BlockSource for ForeignSource {
    fn device(&self) -> &Arc<Shared> {
        &self.device
    }

    fn give_back(self: Arc<Self>, memory: Memory, track: Track) {
        let owner = self.owner.lock().expect("no panic under this lock").take();
        let Some(owner) = owner else { return };
        let mut users = Needs::new();
        track.all_users(&(0..u64::MAX), Mode::Write, |_| false, &mut users);
        let device = Arc::clone(&self.device);
        if calling::inside() || !device.domain.has_room_for_marks(users.iter()) {
            defer(device, memory, track, owner);
        } else {
            release(device, memory, track, owner);
        }
    }
}

/// Drops the owner if no operation uses the memory any more. The token of the memory is dropped first.
fn release(device: Arc<Shared>, memory: Memory, track: Track, mut owner: Owner) {
    match is_idle(&device.domain, &track) {
        Ok(true) => {
            drop(memory);
            // From here on the box is dropped as usual.
            drop(caught(|| drop(std::mem::replace(&mut *owner, Box::new(())))));
        }
        Ok(false) => defer(device, memory, track, owner),
        // The device is lost. What it does to the bytes is unknown, so they leak with their owner.
        Err(error) => device.keep_error(error),
    }
}

fn defer(device: Arc<Shared>, memory: Memory, track: Track, owner: Owner) {
    let later = Arc::clone(&device);
    device.defer(Box::new(move || release(later, memory, track, owner)));
}

/// Refuses an address at which no `T` may lie.
fn check_aligned<T>(address: u64) -> Result<()> {
    if address.is_multiple_of(align_of::<T>() as u64) {
        return Ok(());
    }
    let cause = format!("address {address:#x} is not a multiple of {}", align_of::<T>());
    Err(Error::new(ErrorKind::InvalidValue, "foreign memory", cause))
}

impl Device {
    /// A buffer of `len` elements of device memory that another library allocated, without a copy.
    /// Its uses are ordered like those of any other buffer. `owner` keeps the memory alive: it is
    /// dropped when the buffer is gone and every operation on the memory is complete, on whichever
    /// thread calls this device then.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// // The host device has its memory in this process.
    /// let values = vec![1.5f32; 64].into_boxed_slice();
    /// let address = values.as_ptr().expose_provenance() as u64;
    /// // SAFETY: the box moves into the buffer, so no other code reaches its elements.
    /// let x = unsafe { device.from_raw::<f32>(address, 64, values)? };
    /// let mut h = device.pinned::<f32>(64)?;
    /// s.copy(&x, &mut h)?;
    /// assert_eq!(h.read()?[63], 1.5);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `address` is that of `len` elements of memory of this device, which stays valid until `owner` is
    /// dropped. Accesses by other code before this call are complete, or ordered before every use of
    /// the buffer by streams and events; until `owner` is dropped there are no others but those in
    /// [`Stream::foreign`](crate::Stream::foreign).
    ///
    /// # Errors
    /// `InvalidValue` for a null address, one that is not a multiple of the alignment of `T`, and when
    /// the size overflows.
    pub unsafe fn from_raw<T: Element>(
        &self,
        address: u64,
        len: usize,
        owner: impl Any + Send,
    ) -> Result<Buffer<T>> {
        check_aligned::<T>(address)?;
        let bytes = bytes_of::<T>("foreign memory", len)?;
        let space = Space::Device(self.id());
        Ok(Buffer::new(import(self, space, (address, bytes), Box::new(owner))?, len))
    }

    /// [`Device::from_raw`] for page-locked host memory, for example of `cudaHostAlloc`. The elements
    /// must be initialised.
    ///
    /// # Safety
    /// As for [`Device::from_raw`], with initialised page-locked memory of the host.
    ///
    /// # Errors
    /// As for [`Device::from_raw`].
    pub unsafe fn pinned_from_raw<T: Element>(
        &self,
        address: u64,
        len: usize,
        owner: impl Any + Send,
    ) -> Result<PinnedBuffer<T>> {
        check_aligned::<T>(address)?;
        let bytes = bytes_of::<T>("foreign memory", len)?;
        Ok(Buffer::new(import(self, Space::Pinned, (address, bytes), Box::new(owner))?, len))
    }
}
