//! The part of the contract about ranges of addresses, into which memory is mapped piece by piece.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::memory::Memory;
use std::fmt::Debug;
use std::ops::Range;

/// The sizes of ranges of addresses on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RangeSizes {
    /// Pieces of memory start and end at multiples of this size.
    pub(crate) granule: Bytes,
    /// The size by which a heap grows. A call to map memory costs the same for any size, so this
    /// size is large.
    pub(crate) step: Bytes,
    /// The size of a range for a heap.
    pub(crate) range: Bytes,
}

/// Ranges of addresses on a device (laws M-F1 to M-F3). All calls act at once and in no stream.
pub(crate) trait Ranges: Debug {
    /// The sizes of ranges on a device.
    ///
    /// # Errors
    /// `Unsupported` if the device has no ranges of addresses.
    fn range_sizes(&self, device: DeviceId) -> Result<RangeSizes>;

    /// Reserves a range of addresses without memory.
    ///
    /// # Errors
    /// `OutOfMemory` if there are not enough free addresses.
    fn range_reserve(&self, device: DeviceId, bytes: Bytes) -> Result<Memory>;

    /// Maps new memory of the device at the bytes `at` of a range. These bytes must have no memory
    /// yet. When the call returns, the device can use the new memory. The devices that have access
    /// to the other memory of this device can also use the new memory.
    ///
    /// # Errors
    /// `OutOfMemory`, with the requested size and the memory that is free; `InvalidValue` for bytes
    /// that are not a multiple of the granule or have memory.
    fn range_map(&self, range: &Memory, at: Range<u64>) -> Result<()>;

    /// Unmaps the memory that one call mapped at the bytes `at`, and returns it to the device. No
    /// pending operation may use the memory (law M-F3).
    ///
    /// # Errors
    /// `InvalidValue` for bytes that are not exactly the bytes of one call of
    /// [`range_map`](Self::range_map).
    fn range_unmap(&self, range: &Memory, at: Range<u64>) -> Result<()>;

    /// Returns the addresses of a range to the system. The range must have no memory.
    ///
    /// # Errors
    /// `InvalidValue` if memory is mapped there.
    fn range_free(&self, range: &Memory) -> Result<()>;
}
