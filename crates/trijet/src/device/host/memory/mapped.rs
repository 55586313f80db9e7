//! Ranges of addresses of host devices. The table of ranges has the pieces of each range that have
//! memory (laws M-F1 to M-F3).
//!
//! The bytes of a range belong to one region of the host. A call that maps memory only counts the
//! bytes as used. The system provides each page when it is first written.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::RangeSizes;
use crate::device::host::engine::refuse;
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Pieces of memory start and end at multiples of this size: a page of the host.
const GRANULE: u64 = 4096;
/// The size by which heaps grow.
const STEP: u64 = 64 << 10;
/// The size of a range for a heap. The allocator of the process keeps freed memory of this size for
/// the next allocation. So an exploration, which opens a device for each run, makes no system call
/// for the ranges of later runs.
const RANGE: u64 = 16 << 20;

/// The ranges of all devices, by address.
#[derive(Debug, Default)]
pub(in crate::device::host) struct Ranges(BTreeMap<u64, OfDevice>);

#[derive(Debug)]
struct OfDevice {
    device: DeviceId,
    bytes: u64,
    /// The pieces of the range that have memory. The key is the offset of the start of a piece, and
    /// the value is the offset of its end, in bytes.
    pieces: BTreeMap<u64, u64>,
}

/// The sizes of ranges on every host device.
pub(in crate::device::host) fn sizes() -> RangeSizes {
    RangeSizes { granule: Bytes(GRANULE), step: Bytes(STEP), range: Bytes(RANGE) }
}

impl Ranges {
    pub(in crate::device::host) fn reserve(
        &mut self,
        device: DeviceId,
        bytes: Bytes,
    ) -> Result<Memory> {
        let op = "range reserve";
        if bytes.0 == 0 || !bytes.0.is_multiple_of(GRANULE) {
            let cause = format!("{bytes} is not a multiple of {GRANULE} bytes");
            return Err(refuse::value(op, cause));
        }
        let host = HostBytes::to_part(bytes.0)
            .ok_or_else(|| refuse::memory(op, format!("the system cannot reserve {bytes}")))?;
        let range = OfDevice { device, bytes: bytes.0, pieces: BTreeMap::new() };
        self.0.insert(host.address(), range);
        Ok(Memory::new(Space::Device(device), host.address(), bytes.0, Some(host)))
    }

    /// Maps memory. `free` is the number of free bytes of the device.
    pub(in crate::device::host) fn map(
        &mut self,
        range: &Memory,
        at: &Range<u64>,
        free: u64,
    ) -> Result<()> {
        let op = "range map";
        let found = self.get(op, range)?;
        let whole = at.start.is_multiple_of(GRANULE) && at.end.is_multiple_of(GRANULE);
        if !whole || at.is_empty() || at.end > found.bytes {
            let cause = format!(
                "the bytes {at:?} are not inside of the range, or do not start and end at \
                 multiples of {GRANULE} bytes"
            );
            return Err(refuse::value(op, cause));
        }
        let before = found.pieces.range(..at.end).next_back();
        if before.is_some_and(|(_, end)| *end > at.start) {
            return Err(refuse::value(
                op,
                format!("the bytes {at:?} of the range have memory already"),
            ));
        }
        let wanted = at.end - at.start;
        if wanted > free {
            let cause = format!("{} requested, but only {} are free", Bytes(wanted), Bytes(free));
            return Err(refuse::memory(op, cause).on(found.device));
        }
        found.pieces.insert(at.start, at.end);
        Ok(())
    }

    pub(in crate::device::host) fn unmap(&mut self, range: &Memory, at: &Range<u64>) -> Result<()> {
        let op = "range unmap";
        let found = self.get(op, range)?;
        if found.pieces.get(&at.start) != Some(&at.end) {
            let cause = format!(
                "the bytes {at:?} were not mapped by one call; unmap exactly the bytes of one call"
            );
            return Err(refuse::value(op, cause));
        }
        found.pieces.remove(&at.start);
        Ok(())
    }

    pub(in crate::device::host) fn free(&mut self, range: &Memory) -> Result<()> {
        let op = "range free";
        if !self.get(op, range)?.pieces.is_empty() {
            return Err(refuse::value(op, "the range has memory; unmap it first"));
        }
        self.0.remove(&range.address());
        Ok(())
    }

    fn get(&mut self, op: &'static str, range: &Memory) -> Result<&mut OfDevice> {
        let address = range.address();
        self.0
            .get_mut(&address)
            .ok_or_else(|| refuse::value(op, format!("{address:#x} is not the address of a range")))
    }

    /// Whether the memory belongs to a range.
    pub(in crate::device::host) fn has(&self, memory: &Memory) -> bool {
        self.0.contains_key(&memory.address())
    }

    /// The bytes of a device that are mapped.
    pub(in crate::device::host) fn mapped(&self, device: DeviceId) -> u64 {
        let of_device = self.0.values().filter(|range| range.device == device);
        of_device.flat_map(|range| &range.pieces).map(|(begin, end)| end - begin).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::ErrorKind;

    /// Laws M-F2 and M-F3: the memory that one call mapped is unmapped as a whole, and bytes that
    /// have memory are not mapped again.
    #[test]
    fn a_piece_is_mapped_once_and_unmapped_as_a_whole() {
        let mut ranges = Ranges::default();
        let device = DeviceId(0);
        let range = ranges.reserve(device, Bytes(16 * GRANULE)).expect("there are addresses");
        let at = |begin, end| begin * GRANULE..end * GRANULE;
        let free = 12 * GRANULE;
        ranges.map(&range, &at(0, 4), free).expect("there is memory");
        ranges.map(&range, &at(4, 8), free).expect("there is memory");
        assert_eq!(ranges.mapped(device), 8 * GRANULE);
        let invalid = [at(0, 4), at(3, 9), at(7, 8), at(15, 17), 8..GRANULE, at(9, 9)];
        for bytes in invalid {
            let error = ranges.map(&range, &bytes, free).expect_err("it cannot be mapped");
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{bytes:?}: {error}");
        }
        let error = ranges.map(&range, &at(8, 16), 7 * GRANULE).expect_err("it is too much");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        for bytes in [at(0, 8), at(0, 3), at(1, 4), at(8, 9)] {
            let error = ranges.unmap(&range, &bytes).expect_err("these bytes are not one piece");
            assert_eq!(error.kind(), ErrorKind::InvalidValue, "{bytes:?}: {error}");
        }
        let error = ranges.free(&range).expect_err("it has memory");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        ranges.unmap(&range, &at(0, 4)).expect("it is one piece");
        ranges.unmap(&range, &at(4, 8)).expect("it is one piece");
        ranges.free(&range).expect("it has no memory");
        let error = ranges.map(&range, &at(0, 1), free).expect_err("it is gone");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert_eq!(ranges.mapped(device), 0);
    }
}
