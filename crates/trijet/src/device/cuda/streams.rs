//! Streams, and the host functions that run in them.

use super::api::need;
use super::context::{CudaDriver, cu, pack, raw};
use super::error::{INVALID_HANDLE, check, refused};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::panic::caught;
use crate::device::driver::{EventHandle, HostFn, Readiness, StreamHandle, StreamKind};
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;

/// `CU_STREAM_CAPTURE_STATUS_NONE`; an invalidated capture has not ended.
const NOT_CAPTURING: c_int = 0;
const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`: numbers in place of pointers, which mean a
/// stream of the current context.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Runs the closure behind `data`, which `host_fn` boxed.
///
/// # Safety
/// `data` comes from `Box::into_raw` of a `Box<HostFn>` and is passed here once.
unsafe extern "C" fn trampoline(data: *mut c_void) {
    // SAFETY: by this function's contract; the driver calls once per enqueue, and a capture, in
    // which it would call once per replay, is refused before it gets here.
    let run = unsafe { Box::from_raw(data.cast::<HostFn>()) };
    // The layers above hand in closures that report their own panics; this is the last guard
    // before a foreign stack frame.
    drop(caught(&**run));
    drop(caught(|| drop(run)));
}

impl CudaDriver {
    pub(super) fn stream_create(
        &self,
        device: DeviceId,
        kind: StreamKind,
        priority: i32,
    ) -> Result<StreamHandle> {
        self.enter("stream create", device)?;
        let flags = match kind {
            StreamKind::Blocking => 0,
            StreamKind::NonBlocking => STREAM_NON_BLOCKING,
        };
        let mut stream = null_mut();
        cu!(
            self,
            "cuStreamCreateWithPriority",
            stream_create(&raw mut stream, flags, priority),
            "one pointer to write; a priority out of range is clamped by the driver"
        )?;
        Ok(StreamHandle(pack(device, stream)))
    }

    pub(super) fn stream_legacy(&self, device: DeviceId) -> Result<StreamHandle> {
        self.context("legacy stream", device)?;
        Ok(StreamHandle(pack(device, without_provenance_mut(LEGACY))))
    }

    pub(super) fn stream_per_thread(&self, device: DeviceId) -> Result<StreamHandle> {
        self.context("per-thread stream", device)?;
        Ok(StreamHandle(pack(device, without_provenance_mut(PER_THREAD))))
    }

    pub(super) fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
        self.enter_of("stream destroy", stream.0)?;
        if raw(stream.0) as usize <= PER_THREAD {
            let cause = "a default stream lives as long as its device";
            return Err(refused("cuStreamDestroy", INVALID_HANDLE, cause));
        }
        cu!(self, "cuStreamDestroy", stream_destroy(raw(stream.0)), "a stream its owner gives up")
    }

    pub(super) fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        self.enter_of("stream synchronize", stream.0)?;
        cu!(self, "cuStreamSynchronize", stream_synchronize(raw(stream.0)), "a live stream")
    }

    pub(super) fn stream_query(&self, stream: StreamHandle) -> Result<Readiness> {
        self.enter_of("stream query", stream.0)?;
        let function = need(self.api.stream_query, "cuStreamQuery")?;
        // SAFETY: a live stream of this driver: its owner destroys it when nobody can ask.
        let code = unsafe { function(raw(stream.0)) };
        self.readiness("cuStreamQuery", code)
    }

    pub(super) fn stream_is_capturing(&self, stream: StreamHandle) -> Result<bool> {
        self.enter_of("stream is capturing", stream.0)?;
        let mut status: c_int = 0;
        cu!(
            self,
            "cuStreamIsCapturing",
            stream_is_capturing(raw(stream.0), &raw mut status),
            "a live stream and one number to write"
        )?;
        Ok(status != NOT_CAPTURING)
    }

    pub(super) fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        self.enter_of("stream wait", stream.0)?;
        cu!(
            self,
            "cuStreamWaitEvent",
            stream_wait(raw(stream.0), raw(event.0), 0),
            "a live stream and event; they may be of different devices (law A6)"
        )
    }

    pub(super) fn host_fn(&self, stream: StreamHandle, run: &HostFn) -> Result<()> {
        self.enter_of("host function", stream.0)?;
        let launch = need(self.api.host_fn, "cuLaunchHostFunc")?;
        let data = Box::into_raw(Box::new(Arc::clone(run))).cast::<c_void>();
        // SAFETY: `data` is uniquely owned, its only reader is `trampoline`, and the driver calls
        // that once, or never after a context error: then the box leaks, which is the price of
        // not freeing what the driver may still hold.
        let code = unsafe { launch(raw(stream.0), trampoline, data) };
        if code != 0 {
            // SAFETY: a refused enqueue keeps no pointer, so `data` is still ours alone.
            drop(unsafe { Box::from_raw(data.cast::<HostFn>()) });
        }
        check(&self.api, "cuLaunchHostFunc", code)
    }
}
