//! The devices from which C code allocates, each with its number. The first call with a number
//! opens the device. The device is never closed, so nothing calls the driver when the process ends.
#![forbid(unsafe_code)]

use crate::allocator::Allocator;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use trijet::{Bytes, Device, Error, ErrorKind, Result, Select, Stream};

/// The number of the host device.
pub(crate) const HOST_DEVICE: c_int = -1;
/// Maximum number of CUDA devices.
const DEVICES_MAX: usize = 64;

/// An open device, and the streams that C code has named so far. The key of a stream is its handle,
/// or 0 for the legacy default stream.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) allocator: Allocator,
    streams: RwLock<HashMap<usize, Arc<Stream>>>,
}

static ALL: [OnceLock<Opened>; DEVICES_MAX + 1] = [const { OnceLock::new() }; DEVICES_MAX + 1];

fn slot(device: c_int) -> Result<&'static OnceLock<Opened>> {
    let index = usize::try_from(device.wrapping_add(1)).ok();
    index.and_then(|index| ALL.get(index)).ok_or_else(|| {
        let cause = format!("{device} is not the number of a device");
        Error::new(ErrorKind::NoDevice, "open", cause)
    })
}

/// The maximum amount of memory of each heap. The lock is held while a device is opened, so that
/// every device gets the limit.
fn limit_of_heaps() -> MutexGuard<'static, Option<Bytes>> {
    static LIMIT: Mutex<Option<Bytes>> = Mutex::new(None);
    LIMIT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits the memory that each heap takes from its device: the heaps of the devices that have been
/// opened, and of those that are opened later.
pub(crate) fn limit(bytes: Option<Bytes>) -> Result<()> {
    let mut limit = limit_of_heaps();
    all().try_for_each(|(_, opened)| opened.allocator.device().limit_memory(bytes))?;
    *limit = bytes;
    Ok(())
}

/// The device with the number `device`. The first call with this number opens the device.
pub(crate) fn opened(device: c_int) -> Result<&'static Opened> {
    let slot = slot(device)?;
    if let Some(opened) = slot.get() {
        return Ok(opened);
    }
    let limit = limit_of_heaps();
    if let Some(opened) = slot.get() {
        return Ok(opened);
    }
    let select = u32::try_from(device).map_or(Select::Host(0), Select::Cuda);
    let device = Device::open(select)?;
    if limit.is_some() {
        device.limit_memory(*limit)?;
    }
    let allocator = Allocator::new(device);
    Ok(slot.get_or_init(|| Opened { allocator, streams: RwLock::default() }))
}

/// The device with the number `device`. `None` if no call has opened it.
pub(crate) fn existing(device: c_int) -> Result<Option<&'static Opened>> {
    Ok(slot(device)?.get())
}

/// The devices that have been opened, each with its number.
pub(crate) fn all() -> impl Iterator<Item = (c_int, &'static Opened)> {
    (HOST_DEVICE..).zip(&ALL).filter_map(|(number, slot)| Some((number, slot.get()?)))
}

impl Opened {
    /// The stream with the key `key`. If the key is unknown, `adopt` makes the stream, and the
    /// stream is stored under the key.
    pub(crate) fn stream(
        &self,
        key: usize,
        adopt: impl FnOnce(&Device) -> Result<Stream>,
    ) -> Result<Arc<Stream>> {
        let known = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = known.get(&key) {
            return Ok(Arc::clone(stream));
        }
        drop(known);
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(&key) {
            return Ok(Arc::clone(stream));
        }
        let stream = Arc::new(adopt(self.allocator.device())?);
        streams.insert(key, Arc::clone(&stream));
        Ok(stream)
    }

    /// Forgets the stream with the key `key`, if there is one. The next owner of an allocation with
    /// which the stream was recorded still waits for the work that the stream has now.
    pub(crate) fn forget(&self, key: usize) -> Result<()> {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        let stream = streams.remove(&key);
        drop(streams);
        stream.map_or(Ok(()), |stream| self.allocator.forget_stream(&stream))
    }
}
