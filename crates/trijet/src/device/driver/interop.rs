//! The part of the contract about streams, events and memory of other libraries.
#![forbid(unsafe_code)]

use super::core::StreamKind;
use super::handle::{EventHandle, StreamHandle};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::memory::{Memory, Space};
use std::ffi::c_void;
use std::fmt::Debug;

/// Handles and addresses in the form of other libraries: `CUstream`, `CUevent` and `CUdeviceptr` on
/// CUDA. On the host device a handle is a number in place of a pointer, and an address is an
/// address of this process. The caller passes streams, events and memory of another library, and
/// guarantees that they are alive for as long as the driver uses them.
pub(crate) trait Interop: Debug {
    /// The raw handle of a stream.
    fn stream_to_raw(&self, stream: StreamHandle) -> *mut c_void;

    /// A stream of `device` that another library made, and its kind.
    ///
    /// # Errors
    /// `InvalidValue` for a default stream; an error of the driver.
    fn stream_from_raw(
        &self,
        device: DeviceId,
        raw: *mut c_void,
    ) -> Result<(StreamHandle, StreamKind)>;

    /// The raw handle of an event.
    fn event_to_raw(&self, event: EventHandle) -> *mut c_void;

    /// An event of `device` that another library made.
    fn event_from_raw(&self, device: DeviceId, raw: *mut c_void) -> EventHandle;

    /// Makes later work in `stream` follow all work that was enqueued on its device before this
    /// call, in streams of any library, even in streams that were destroyed since.
    ///
    /// # Errors
    /// `Unsupported` for a driver without the call; `Capturing` during a capture of any stream of
    /// the device, which the driver ends with this call.
    fn follow_device(&self, stream: StreamHandle) -> Result<()>;

    /// Memory that another library allocated.
    ///
    /// # Errors
    /// `InvalidValue` for a null address; `NoDevice` for memory of a device that does not exist.
    fn memory_from_raw(&self, space: Space, address: u64, bytes: Bytes) -> Result<Memory>;
}
