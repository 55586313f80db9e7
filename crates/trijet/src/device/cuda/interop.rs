//! Streams, events and memory of other libraries.

use super::api::need;
use super::context::{CudaDriver, cu, device_of, pack, raw};
use super::error::{INVALID_VALUE, check, refused};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Bytes;
use crate::device::driver::{CaptureState, EventHandle, StreamHandle, StreamKind, Timing};
use crate::device::memory::{Memory, Space};
use crate::device::region::HostBytes;
use std::ffi::{c_uint, c_void};

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_PER_THREAD`, the largest of the numbers that stand for a default stream.
const PER_THREAD: usize = 2;

impl CudaDriver {
    pub(super) fn stream_to_raw(&self, stream: StreamHandle) -> *mut c_void {
        raw(stream.0)
    }

    pub(super) fn stream_from_raw(
        &self,
        device: DeviceId,
        raw: *mut c_void,
    ) -> Result<(StreamHandle, StreamKind)> {
        if raw.addr() <= PER_THREAD {
            let cause = "the handle is a default stream: open it with `Device::legacy_stream` or \
                         `Device::per_thread_stream`";
            return Err(refused("cuStreamGetFlags", INVALID_VALUE, cause));
        }
        let _entered = self.enter("stream from raw", device)?;
        let handle = StreamHandle(pack(device, raw));
        // Measured on an H200: the driver does not return the flags of a stream in a capture. So
        // such a stream counts as non-blocking here. Then waits order the stream with the legacy
        // stream, which is right for both kinds of streams.
        if self.capture_state(handle)? != CaptureState::None {
            return Ok((handle, StreamKind::NonBlocking));
        }
        let mut flags = 0;
        cu!(
            self,
            "cuStreamGetFlags",
            stream_flags(raw, &raw mut flags),
            "the caller of the unsafe function above guarantees that the stream is live until its \
             owner drops: false for a stream that was destroyed before. The call writes the local \
             variable `flags`"
        )?;
        let kind = match flags & NON_BLOCKING {
            0 => StreamKind::Blocking,
            _ => StreamKind::NonBlocking,
        };
        Ok((handle, kind))
    }

    pub(super) fn event_to_raw(&self, event: EventHandle) -> *mut c_void {
        raw(event.0)
    }

    pub(super) fn event_from_raw(&self, device: DeviceId, raw: *mut c_void) -> EventHandle {
        EventHandle(pack(device, raw))
    }

    pub(super) fn follow_device(&self, stream: StreamHandle) -> Result<()> {
        need(self.api.ctx_record, "cuCtxRecordEvent")?;
        let device = device_of(stream.0);
        let context = self.context("follow device", device)?.raw;
        let event = self.event_create(device, Timing::Off)?;
        let recorded = cu!(
            self,
            "cuCtxRecordEvent",
            ctx_record(context, raw(event.0)),
            "the context is retained until `self` drops, and the event is of this context. In a \
             capture of any stream of the context the driver ends the capture and returns an error"
        );
        let followed = recorded.and_then(|()| self.stream_wait(stream, event));
        // The wait keeps what it needs of the event.
        followed.and(self.event_destroy(event))
    }

    pub(super) fn memory_from_raw(
        &self,
        space: Space,
        address: u64,
        bytes: Bytes,
    ) -> Result<Memory> {
        let null = || refused("memory from raw", INVALID_VALUE, "the address is null");
        if let Space::Device(device) = space {
            self.context("memory from raw", device)?;
            let memory = Memory::new(space, address, bytes.0, None);
            return if address == 0 { Err(null()) } else { Ok(memory) };
        }
        let host = HostBytes::of_others(address, bytes.0).ok_or_else(null)?;
        Ok(Memory::new(space, address, bytes.0, Some(host)))
    }

    /// Calls `run` with the raw stream. During the call, the context of the stream is current in
    /// this thread.
    pub(super) fn foreign(
        &self,
        stream: StreamHandle,
        run: &dyn Fn(*mut c_void) -> Result<()>,
    ) -> Result<()> {
        let _entered = self.enter_of("foreign work", stream.0)?;
        run(raw(stream.0))
    }
}
