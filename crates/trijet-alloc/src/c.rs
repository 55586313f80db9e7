//! The C interface that `include/trijet_alloc.h` describes. The functions convert the numbers and
//! pointers of C to devices, streams and addresses.

use crate::failure::{self, Shown};
use crate::opened::{self, HOST_DEVICE, Opened, all, existing, opened};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;
use trijet::{Bytes, Device, Error, ErrorKind, Result, Stream};

/// `cudaStreamLegacy`: a handle of the legacy default stream. 0 is a second handle of this stream.
const LEGACY: usize = 1;
/// `cudaStreamPerThread`: the handle of the per-thread default stream.
const PER_THREAD: usize = 2;

/// The structure `trijet_alloc_statistics` of the C header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct TrijetAllocStatistics {
    /// The size of all live allocations in bytes, each rounded up to whole units of the heap.
    pub live: u64,
    /// The maximum of `live` so far.
    pub live_high: u64,
    /// The number of bytes that the heap has from the device.
    pub reserved: u64,
    /// The maximum of `reserved` so far.
    pub reserved_high: u64,
    /// The number of driver calls that took memory from the device, recorded events or made streams
    /// wait.
    pub driver_calls: u64,
    /// The number of driver calls that made a stream wait. `driver_calls` includes them.
    pub waits: u64,
}

/// The key of a stream: its handle, or 0 for both handles of the legacy default stream.
fn key(device: c_int, stream: *mut c_void) -> usize {
    match stream.addr() {
        LEGACY if device != HOST_DEVICE => 0,
        other => other,
    }
}

/// The stream with the handle `raw` on the device with the number `number`. If the handle is not
/// known yet, `check` runs before the driver gets the handle.
///
/// # Safety
/// `raw` is a live stream of the device, and stays live until [`trijet_forget_stream`] forgets it.
unsafe fn stream(
    opened: &Opened,
    number: c_int,
    raw: *mut c_void,
    check: impl FnOnce() -> Result<()>,
) -> Result<Arc<Stream>> {
    let key = key(number, raw);
    let adopt = |device: &Device| {
        check()?;
        match key {
            0 => device.legacy_stream(),
            PER_THREAD if number != HOST_DEVICE => {
                let cause = "the default stream of a thread cannot be used; create a stream";
                Err(Error::new(ErrorKind::InvalidValue, "stream", cause))
            }
            _ => {
                // SAFETY: by the contract of this function, the handle is a live stream until
                // `trijet_forget_stream` drops the adopted stream. The other branches of this match
                // handle the default streams.
                unsafe { device.stream_from_raw(raw, ()) }
            }
        }
    };
    opened.stream(key, adopt)
}

/// The error for an address at which no live allocation of a device begins. If the address belongs
/// to another device, the error names that device.
fn not_of(device: c_int, address: u64) -> Error {
    let owner = all().find(|(_, opened)| opened.allocator.has(address));
    let cause = match owner {
        Some((owner, _)) => {
            format!("{address:#x} is an allocation of device {owner}, not of device {device}")
        }
        None => format!(
            "no live allocation begins at {address:#x}: it was freed before, or belongs to another \
             allocator"
        ),
    };
    Error::new(ErrorKind::InvalidValue, "trijet_free", cause)
}

/// Allocates device memory. The C header describes the function. Returns null if the allocation
/// fails.
///
/// # Safety
/// `stream` is 0 or a live stream of the device, and stays live until [`trijet_forget_stream`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trijet_alloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    static SHOWN: Shown = Shown::new("trijet_alloc");
    if size == 0 {
        let error = Error::new(ErrorKind::InvalidValue, "trijet_alloc", "0 bytes asked for");
        return failure::quiet(std::ptr::null_mut(), &error);
    }
    failure::entered(&SHOWN, std::ptr::null_mut(), || {
        let opened = opened(device)?;
        // SAFETY: by the contract of `trijet_alloc`.
        let stream = unsafe { self::stream(opened, device, stream, || Ok(())) }?;
        let address = opened.allocator.alloc(size, &stream)?;
        let address = usize::try_from(address).unwrap_or(0);
        Ok(std::ptr::with_exposed_provenance_mut(address))
    })
}

/// Frees an allocation. The C header describes the function.
///
/// # Safety
/// `stream` meets the conditions of [`trijet_alloc`]. After this call, no work that uses the memory
/// is enqueued.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trijet_free(
    ptr: *mut c_void,
    size: usize,
    device: c_int,
    stream: *mut c_void,
) {
    static SHOWN: Shown = Shown::new("trijet_free");
    if ptr.is_null() {
        return;
    }
    failure::entered(&SHOWN, (), || {
        let address = ptr.addr() as u64;
        let Some(opened) = existing(device)? else { return Err(not_of(device, address)) };
        let check = || match opened.allocator.has(address) {
            true => Ok(()),
            false => Err(not_of(device, address)),
        };
        // SAFETY: the contract of `trijet_free` demands a live stream. `self::stream` demands the
        // same.
        let stream = unsafe { self::stream(opened, device, stream, check) }?;
        let freed = opened.allocator.free(address, size, &stream);
        // If no allocation begins at the address, another device may have the address, and the
        // error names that device. Other errors already name their cause.
        freed.map_err(|error| if check().is_ok() { error } else { not_of(device, address) })
    });
}

/// Declares that work of `stream` uses an allocation. The C header describes the function.
///
/// # Safety
/// `stream` meets the conditions of [`trijet_alloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trijet_record_stream(ptr: *mut c_void, stream: *mut c_void) {
    static SHOWN: Shown = Shown::new("trijet_record_stream");
    if ptr.is_null() {
        return;
    }
    failure::entered(&SHOWN, (), || {
        let address = ptr.addr() as u64;
        let owner = all().find(|(_, opened)| opened.allocator.has(address));
        let Some((device, opened)) = owner else {
            let cause = format!("no live allocation begins at {address:#x}");
            return Err(Error::new(ErrorKind::InvalidValue, "trijet_record_stream", cause));
        };
        // SAFETY: the caller of `trijet_record_stream` keeps the stream alive until the stream is
        // forgotten.
        let stream = unsafe { self::stream(opened, device, stream, || Ok(())) }?;
        opened.allocator.record_stream(address, &stream)
    });
}

/// Forgets a stream before the stream is destroyed. The C header describes the function. Returns 0,
/// or 1 after an error.
#[unsafe(no_mangle)]
pub extern "C" fn trijet_forget_stream(device: c_int, stream: *mut c_void) -> c_int {
    static SHOWN: Shown = Shown::new("trijet_forget_stream");
    failure::entered(&SHOWN, 1, || {
        let key = key(device, stream);
        existing(device)?.map_or(Ok(()), |opened| opened.forget(key))?;
        Ok(0)
    })
}

/// Limits the memory of each heap. The C header describes the function. Returns 0, or 1 after an
/// error.
#[unsafe(no_mangle)]
pub extern "C" fn trijet_alloc_limit(bytes: u64) -> c_int {
    static SHOWN: Shown = Shown::new("trijet_alloc_limit");
    failure::entered(&SHOWN, 1, || {
        opened::limit((bytes > 0).then_some(Bytes(bytes)))?;
        Ok(0)
    })
}

/// Writes the statistics of a device to `out`. The C header describes the function. Returns 0, or 1
/// after an error.
///
/// # Safety
/// `out` is null or points to a `trijet_alloc_statistics` that this function may overwrite.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn trijet_alloc_stats(
    device: c_int,
    out: *mut TrijetAllocStatistics,
) -> c_int {
    static SHOWN: Shown = Shown::new("trijet_alloc_stats");
    failure::entered(&SHOWN, 1, || {
        if out.is_null() {
            let cause = "the pointer for the statistics is null";
            return Err(Error::new(ErrorKind::InvalidValue, "trijet_alloc_stats", cause));
        }
        let of = |opened: &Opened| opened.allocator.statistics();
        let found = existing(device)?.map_or_else(|| Ok(Default::default()), of)?;
        let written = TrijetAllocStatistics {
            live: found.live.0,
            live_high: found.live_high.0,
            reserved: found.reserved.0,
            reserved_high: found.reserved_high.0,
            driver_calls: found.driver_calls,
            waits: found.waits,
        };
        // SAFETY: `out` is not null. By the contract of this function, `out` then points to a
        // structure of the caller.
        unsafe { out.write(written) };
        Ok(0)
    })
}

/// The message of the last call of this thread that failed. Null if no call failed. The message is
/// valid until another call of the thread fails.
#[unsafe(no_mangle)]
pub extern "C" fn trijet_alloc_last_error() -> *const c_char {
    failure::last()
}
