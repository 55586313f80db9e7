//! Owning tokens for memory. The asynchronous verbs of the driver contract take tokens instead of
//! pointers. A queued operation holds tokens of the memory that it uses. So this memory stays
//! allocated until the operation is complete.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{Mode, Place};
use crate::base::units::Bytes;
use crate::device::region::{HostBytes, RangeGuard};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The space in which memory is allocated. Unlike a [`Place`] in a ledger, a space states which
/// device has the memory, because the engine of a copy depends on both devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// Memory of a device.
    Device(DeviceId),
    /// Page-locked host memory, which copy engines read and write directly.
    Pinned,
    /// Ordinary host memory, which the driver copies through its own buffers.
    Pageable,
}

impl Space {
    /// Whether the space is memory of the host.
    #[must_use]
    pub(crate) fn is_host(self) -> bool {
        match self {
            Self::Device(_) => false,
            Self::Pinned | Self::Pageable => true,
        }
    }
}

/// One allocation. Clones share the allocation. The driver frees the allocation only on request.
/// Each launch clones several tokens, so a token of memory that the host cannot reach has no
/// reference count.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    space: Space,
    address: u64,
    bytes: u64,
    host: Option<Arc<HostBytes>>,
}

impl Memory {
    /// Makes a token of memory that a driver allocated.
    pub(in crate::device) fn new(
        space: Space,
        address: u64,
        bytes: u64,
        host: Option<HostBytes>,
    ) -> Self {
        Self { space, address, bytes, host: host.map(Arc::new) }
    }

    /// Ordinary memory of this process. An operation may use the memory after its call has returned
    /// (law A17). So the owner waits for all users before it frees the memory, as for page-locked
    /// memory.
    ///
    /// # Errors
    /// `OutOfMemory` when the system has too little memory.
    pub(crate) fn pageable(bytes: Bytes) -> Result<Self> {
        let host = HostBytes::zeroed(bytes.0).ok_or_else(|| {
            let cause = format!("the system cannot allocate {bytes}");
            Error::new(ErrorKind::OutOfMemory, "pageable", cause)
        })?;
        Ok(Self::new(Space::Pageable, host.address(), bytes.0, Some(host)))
    }

    /// The space of the memory.
    #[must_use]
    #[inline]
    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// The address, which is the same for the host and for kernels.
    #[must_use]
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// The size in bytes.
    #[must_use]
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The bytes, if the host can reach them.
    pub(crate) fn host(&self) -> Option<&HostBytes> {
        self.host.as_deref()
    }

    /// Locks the bytes of `range`. `None` if an overlapping lock excludes the new lock, or the host
    /// cannot reach the bytes.
    pub(in crate::device) fn lock(&self, range: Range<u64>, mode: Mode) -> Option<RangeGuard<'_>> {
        RangeGuard::try_new(self.host()?, range, mode)
    }

    /// A part of the memory.
    ///
    /// # Panics
    /// When the range does not lie within the memory. The layers above check lengths first.
    #[must_use]
    #[inline]
    pub(crate) fn span(&self, range: Range<u64>) -> Span {
        assert!(
            range.start <= range.end && range.end <= self.bytes,
            "the span {range:?} is outside of {} bytes",
            self.bytes
        );
        Span { memory: self.clone(), range }
    }
}

/// A byte range of an allocation, with a token of the allocation.
#[derive(Debug, Clone)]
pub(crate) struct Span {
    memory: Memory,
    range: Range<u64>,
}

impl Span {
    /// The allocation.
    #[must_use]
    #[inline]
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The byte range of the allocation that this span covers.
    #[must_use]
    #[inline]
    pub(crate) fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// Sets the length of the span. The first byte stays the same.
    ///
    /// # Panics
    /// When the resized span does not lie within the memory.
    #[inline]
    pub(crate) fn resize(&mut self, bytes: u64) {
        let end = self.range.start + bytes;
        assert!(
            end <= self.memory.bytes,
            "the span would end at byte {end}, but the memory has {} bytes",
            self.memory.bytes
        );
        self.range.end = end;
    }

    /// Locks the bytes of the span. `None` if an overlapping lock excludes the new lock, or the
    /// host cannot reach the bytes.
    pub(crate) fn lock(&self, mode: Mode) -> Option<RangeGuard<'_>> {
        self.memory.lock(self.range(), mode)
    }

    /// The address of the first byte of the span.
    #[must_use]
    #[inline]
    pub(crate) fn address(&self) -> u64 {
        self.memory.address() + self.range.start
    }

    /// The length of the span in bytes.
    #[must_use]
    #[inline]
    pub(crate) fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether a kernel or fill of `device` can use the bytes: they are in memory of the device
    /// itself, or in page-locked memory. Only copies use memory of another device.
    #[must_use]
    #[inline]
    pub(crate) fn is_reached_by(&self, device: DeviceId) -> bool {
        match self.memory.space() {
            Space::Device(home) => home == device,
            Space::Pinned => true,
            Space::Pageable => false,
        }
    }

    /// Whether the two spans share a byte. The addresses are compared, because a pool may allocate
    /// the same bytes several times.
    #[must_use]
    #[inline]
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.address().max(other.address())
            < (self.address() + self.bytes()).min(other.address() + other.bytes())
    }
}

impl Space {
    /// The kind of the memory in the ledger. This kind does not contain the number of the device.
    pub(crate) fn place(self) -> Place {
        match self {
            Self::Device(_) => Place::Device,
            Self::Pinned => Place::Pinned,
            Self::Pageable => Place::Pageable,
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(home) => write!(f, "memory of {home}"),
            Self::Pinned => write!(f, "page-locked memory"),
            Self::Pageable => write!(f, "pageable memory"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory.space().fmt(f)
    }
}

/// The reason why `src` cannot be copied to `dst`: they differ in length, or overlap.
#[cold]
pub(in crate::device) fn mismatch(dst: &Span, src: &Span) -> String {
    if dst.bytes() == src.bytes() {
        return format!("source and target of {} bytes overlap", src.bytes());
    }
    format!("the source has {} bytes and the target {}", src.bytes(), dst.bytes())
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
