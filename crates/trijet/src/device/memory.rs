//! Owning tokens for memory. The asynchronous verbs of the driver contract take these and never
//! bare pointers: a queued operation holds a token, so the bytes it will touch stay allocated.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::device::region::{HostBytes, RangeGuard};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Where memory lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Space {
    /// On a device.
    Device(DeviceId),
    /// Page-locked host memory, which the copy engines reach.
    Pinned,
    /// Ordinary host memory, which the driver stages.
    Pageable,
}

impl Space {
    /// Whether the host reaches it.
    #[must_use]
    pub fn is_host(self) -> bool {
        match self {
            Self::Device(_) => false,
            Self::Pinned | Self::Pageable => true,
        }
    }
}

/// One allocation. Clones share it; the driver frees it only when told to. Where the host cannot
/// reach the bytes a clone is a plain copy: every launch makes some.
#[derive(Debug, Clone)]
pub struct Memory {
    space: Space,
    address: u64,
    bytes: u64,
    host: Option<Arc<HostBytes>>,
}

impl Memory {
    /// Only the drivers make tokens.
    pub(in crate::device) fn new(
        space: Space,
        address: u64,
        bytes: u64,
        host: Option<HostBytes>,
    ) -> Self {
        Self { space, address, bytes, host: host.map(Arc::new) }
    }

    /// Ordinary memory of this process. An operation that was handed it may touch it after the
    /// call returns (law A17), so whoever frees it waits for its users, as for page-locked memory.
    ///
    /// # Errors
    /// `OutOfMemory` when the system has no more.
    pub(crate) fn pageable(bytes: Bytes) -> Result<Self> {
        let host = HostBytes::zeroed(bytes.0).ok_or_else(|| {
            let cause = format!("the system has no {bytes} left");
            Error::new(ErrorKind::OutOfMemory, "pageable", cause)
        })?;
        Ok(Self::new(Space::Pageable, host.address(), bytes.0, Some(host)))
    }

    /// Where the memory lives.
    #[must_use]
    #[inline]
    pub fn space(&self) -> Space {
        self.space
    }

    /// The address as kernels see it.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.address
    }

    /// The size in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes themselves, where the host can reach them.
    pub(crate) fn host(&self) -> Option<&HostBytes> {
        self.host.as_deref()
    }

    /// Locks the bytes of `range`, unless an overlapping lock excludes it. `None` as well where the
    /// host does not reach them.
    pub(in crate::device) fn lock(&self, range: Range<u64>, mode: Mode) -> Option<RangeGuard<'_>> {
        RangeGuard::try_new(self.host()?, range, mode)
    }

    /// A part of the memory.
    ///
    /// # Panics
    /// When the range does not lie within the memory: the floors above check lengths first.
    #[must_use]
    #[inline]
    pub fn span(&self, range: Range<u64>) -> Span {
        assert!(range.start <= range.end && range.end <= self.bytes, "span {range:?} outside");
        Span { memory: self.clone(), range }
    }
}

/// A byte range of an allocation, with a share in its ownership.
#[derive(Debug, Clone)]
pub struct Span {
    memory: Memory,
    range: Range<u64>,
}

impl Span {
    /// The allocation.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The bytes of the allocation it covers.
    #[must_use]
    #[inline]
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Locks its bytes, unless an overlapping lock excludes them. `None` as well where the host does
    /// not reach them.
    pub(crate) fn lock(&self, mode: Mode) -> Option<RangeGuard<'_>> {
        self.memory.lock(self.range(), mode)
    }

    /// The address of its first byte.
    #[must_use]
    #[inline]
    pub fn address(&self) -> u64 {
        self.memory.address() + self.range.start
    }

    /// Its length in bytes.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether a kernel or fill of `device` reaches the bytes: its own memory, and page-locked
    /// memory. Another device's memory is reached by copies.
    #[must_use]
    #[inline]
    pub fn is_reached_by(&self, device: DeviceId) -> bool {
        match self.memory.space() {
            Space::Device(home) => home == device,
            Space::Pinned => true,
            Space::Pageable => false,
        }
    }

    /// Whether the two share a byte. By address: a pool hands the same bytes out again.
    #[must_use]
    #[inline]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.address().max(other.address())
            < (self.address() + self.bytes()).min(other.address() + other.bytes())
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.memory.space() {
            Space::Device(home) => write!(f, "memory of {home}"),
            Space::Pinned => write!(f, "page-locked memory"),
            Space::Pageable => write!(f, "pageable memory"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_of_two_windows_overlap_where_the_windows_share_bytes() {
        let whole = HostBytes::zeroed(64).expect("a few bytes");
        let window = |range: Range<u64>| {
            let (bytes, len) = (whole.part(range.clone()), range.end - range.start);
            Memory::new(Space::Pinned, bytes.address(), len, Some(bytes)).span(0..len)
        };
        let (a, b, c) = (window(0..32), window(16..48), window(32..64));
        assert!(a.overlaps(&b) && !a.overlaps(&c));
        let _held = a.lock(Mode::Write).expect("free");
        assert!(b.lock(Mode::Read).is_none() && c.lock(Mode::Write).is_some());
    }
}
