//! Ranges of addresses, into which memory is mapped piece by piece (virtual memory management).
//!
//! The driver maps memory by a handle. This library releases the handle as soon as the memory is
//! mapped. So the memory returns to the device when the memory is unmapped.

use super::api::{AllocationProps, MemAccess, MemLocation, need};
use super::context::{CudaDriver, cu};
use super::error::check;
use super::pools::{ACCESS_NONE, ACCESS_READ_WRITE, ON_DEVICE};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::RangeSizes;
use crate::device::memory::{Memory, Space};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::null_mut;

/// `CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED`.
const SUPPORTED: c_int = 102;
/// The size by which a heap grows. To create and map memory takes about 40 us for any size.
const STEP: u64 = 32 << 20;

/// The device of a range.
fn home(range: &Memory) -> Result<DeviceId> {
    match range.space() {
        Space::Device(home) => Ok(home),
        Space::Pinned | Space::Pageable => {
            Err(Error::new(ErrorKind::InvalidValue, "range", "the range is not in device memory"))
        }
    }
}

fn size(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

impl CudaDriver {
    fn props(&self, device: DeviceId) -> Result<AllocationProps> {
        let ordinal = self.context("range", device)?.ordinal;
        // `CU_MEM_ALLOCATION_TYPE_PINNED`, and no handles for other processes.
        Ok(AllocationProps {
            kind: 1,
            handle_types: 0,
            location: MemLocation { kind: ON_DEVICE, id: ordinal },
            security: null_mut(),
            flags: [0; 8],
        })
    }

    pub(super) fn range_sizes(&self, device: DeviceId) -> Result<RangeSizes> {
        // If two devices have no link, the driver refuses a copy from a range of one device in a
        // stream of the other device. So ranges are used only if all devices are linked.
        for other in (0..).map(DeviceId).take(self.contexts.len()) {
            let is_linked = other == device
                || self.peer_possible(device, other)? && self.peer_possible(other, device)?;
            if !is_linked {
                let cause = format!(
                    "memory is mapped into ranges of addresses only if all GPUs can access each \
                     other, but this GPU and {other} cannot"
                );
                return Err(Error::new(ErrorKind::Unsupported, "range sizes", cause).on(device));
            }
        }
        let ordinal = self.context("range sizes", device)?.ordinal;
        if self.attribute(ordinal, SUPPORTED)? == 0 {
            let cause = "the device does not map memory into ranges of addresses";
            return Err(Error::new(ErrorKind::Unsupported, "range sizes", cause).on(device));
        }
        let _entered = self.enter("range sizes", device)?;
        let props = self.props(device)?;
        let mut granule = 0;
        cu!(
            self,
            "cuMemGetAllocationGranularity",
            range_granule(&raw mut granule, &raw const props, 0),
            "`props` has the documented layout, which a test compares, and is read during the \
             call, which writes the local variable `granule`; 0 asks for the least size"
        )?;
        let granule = (granule as u64).max(1);
        let (_, total) = self.memory_info(device)?;
        Ok(RangeSizes {
            granule: Bytes(granule),
            step: Bytes(STEP.next_multiple_of(granule)),
            range: Bytes(total.0.next_multiple_of(granule)),
        })
    }

    pub(super) fn range_reserve(&self, device: DeviceId, bytes: Bytes) -> Result<Memory> {
        let _entered = self.enter("range reserve", device)?;
        let _relaxed = self.relaxed();
        let mut address = 0;
        cu!(
            self,
            "cuMemAddressReserve",
            range_reserve(&raw mut address, size(bytes.0), 0, 0, 0),
            "the call writes the local variable `address`; no memory is there yet, and none is \
             used before `range_map`"
        )?;
        Ok(Memory::new(Space::Device(device), address, bytes.0, None))
    }

    pub(super) fn range_map(&self, range: &Memory, at: Range<u64>) -> Result<()> {
        let device = home(range)?;
        let _entered = self.enter("range map", device)?;
        let _relaxed = self.relaxed();
        let (address, bytes) = (range.address() + at.start, at.end - at.start);
        let props = self.props(device)?;
        let mut handle = 0;
        let created = cu!(
            self,
            "cuMemCreate",
            memory_create(&raw mut handle, size(bytes), &raw const props, 0),
            "`props` has the documented layout, which a test compares, and is read during the \
             call, which writes the local variable `handle`"
        );
        created.map_err(|error| self.explain(error, device, Bytes(bytes)))?;
        let mapped = cu!(
            self,
            "cuMemMap",
            memory_map(address, size(bytes), 0, handle, 0),
            "the range was reserved by `range_reserve`, and the driver refuses bytes that have \
             memory; no operation uses them before this call, because no block has them"
        );
        let released = cu!(
            self,
            "cuMemRelease",
            memory_release(handle),
            "the handle was created above and is released once; the mapping keeps the memory"
        );
        mapped?;
        let mut all = self.mapped.lock().expect("no thread panicked while it held this lock");
        let peers = all.peers.iter().filter(|(_, owner)| *owner == device).map(|(peer, _)| *peer);
        let devices: Vec<DeviceId> = std::iter::once(device).chain(peers).collect();
        let access = released.and_then(|()| {
            let set = |peer| self.set_range_access((address, bytes), peer, ACCESS_READ_WRITE);
            devices.into_iter().try_for_each(set)
        });
        if let Err(error) = access {
            drop(all);
            self.unmap(address, bytes)?;
            return Err(error);
        }
        all.pieces.push((device, address, bytes));
        Ok(())
    }

    pub(super) fn range_unmap(&self, range: &Memory, at: Range<u64>) -> Result<()> {
        let _entered = self.enter("range unmap", home(range)?)?;
        let _relaxed = self.relaxed();
        let (address, bytes) = (range.address() + at.start, at.end - at.start);
        self.unmap(address, bytes)?;
        let mut all = self.mapped.lock().expect("no thread panicked while it held this lock");
        all.pieces.retain(|(_, begin, _)| *begin != address);
        Ok(())
    }

    fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        cu!(
            self,
            "cuMemUnmap",
            memory_unmap(address, size(bytes)),
            "one call of `cuMemMap` mapped exactly these bytes, or the driver refuses the call; every \
             operation that used them is complete, on every device: false if the heap took a \
             block for free whose users were pending"
        )
    }

    pub(super) fn range_free(&self, range: &Memory) -> Result<()> {
        let _entered = self.enter("range free", home(range)?)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuMemAddressFree",
            range_free(range.address(), size(range.bytes())),
            "the range was reserved with this size and is given back once; the driver refuses it \
             while memory is mapped there"
        )
    }

    fn set_range_access(
        &self,
        (address, bytes): (u64, u64),
        device: DeviceId,
        flags: c_int,
    ) -> Result<()> {
        let ordinal = self.context("range access", device)?.ordinal;
        let access = MemAccess { location: MemLocation { kind: ON_DEVICE, id: ordinal }, flags };
        cu!(
            self,
            "cuMemSetAccess",
            memory_access(address, size(bytes), &raw const access, 1),
            "all of the bytes are mapped, and the call reads the one description that it is \
             told of"
        )
    }

    /// Gives `device` access to the memory that `peer` has mapped and will map, or removes the
    /// access.
    pub(super) fn range_peer(&self, device: DeviceId, peer: DeviceId, enable: bool) -> Result<()> {
        let _entered = self.enter("range access", peer)?;
        let _relaxed = self.relaxed();
        let mut all = self.mapped.lock().expect("no thread panicked while it held this lock");
        let flags = if enable { ACCESS_READ_WRITE } else { ACCESS_NONE };
        let pieces = all.pieces.iter().filter(|(owner, ..)| *owner == peer);
        for (_, address, bytes) in pieces {
            self.set_range_access((*address, *bytes), device, flags)?;
        }
        all.peers.retain(|pair| *pair != (device, peer));
        if enable {
            all.peers.push((device, peer));
        }
        Ok(())
    }
}
