//! Functions for tools, and for libraries that are built on this one. They show the libraries that
//! Trijet opens at run time and the memory of a heap, and refuse calls in a child of `fork`.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::device::fork;
pub use crate::device::probe::{Library, LibraryReport, libraries};
use crate::memory::{Buffer, Element};
use crate::stream::Device;
use std::ops::Range;

/// Returns an error in a child of `fork`, if a device was opened before the `fork`. A library with
/// its own locks calls this function before it takes a lock: the thread that holds the lock may
/// exist only in the parent.
///
/// ```
/// assert!(trijet::probe::refuse_in_child("allocate").is_ok());
/// ```
///
/// # Errors
/// `Forked` in a child of `fork`, if a device was opened before the `fork`.
pub fn refuse_in_child(op: &'static str) -> Result<()> {
    fork::refuse(op)
}

/// The ranges of addresses at which the heap of a device has memory. The heap gets each range from
/// the device as a whole, and returns it as a whole. The list is empty for a device that allocates
/// from a pool of the driver.
///
/// ```
/// use trijet::{Device, Select, probe};
/// let device = Device::open(Select::Host(0))?;
/// let x = device.stream()?.alloc::<u8>(1000)?;
/// let address = x.address();
/// assert!(probe::heap_ranges(&device).iter().any(|range| range.contains(&address)));
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn heap_ranges(device: &Device) -> Vec<Range<u64>> {
    device.heap_ranges()
}

/// The address of a buffer, for a drawing of memory. No code may use the bytes at this address,
/// because a host device has not initialised them. [`Buffer::address`] initialises the bytes.
///
/// ```
/// use trijet::{Device, Select, probe};
/// let device = Device::open(Select::Host(0))?;
/// let x = device.stream()?.alloc::<u8>(1000)?;
/// assert_eq!(probe::address(&x), x.address());
/// # Ok::<(), trijet::Error>(())
/// ```
#[must_use]
pub fn address<T: Element>(buffer: &Buffer<T>) -> u64 {
    buffer.unexposed_address()
}
