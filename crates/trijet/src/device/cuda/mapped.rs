//! The memory that is mapped into ranges of addresses, for the access of other devices.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;

/// The memory that is mapped into ranges, and the devices that may use it.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    /// The device, the address and the size in bytes of each piece.
    pub(super) pieces: Vec<(DeviceId, u64, u64)>,
    /// Pairs of devices: the first device can use the mapped memory of the second device.
    pub(super) peers: Vec<(DeviceId, DeviceId)>,
}
