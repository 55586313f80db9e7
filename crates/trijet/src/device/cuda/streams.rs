//! Streams, and the host functions that run in them.

use super::api::need;
use super::context::{CudaDriver, cu, pack, raw};
use super::error::{INVALID_HANDLE, check, refused};
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::panic::caught;
use crate::device::driver::{EventHandle, HostFn, Readiness, StreamHandle, StreamKind};
use std::ffi::{c_uint, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Arc;

const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`. These numbers take the place of a pointer, and
/// mean streams of the current context.
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

/// Runs the closure that `host_fn` put into the box at `data`.
///
/// # Safety
/// `data` comes from `Box::into_raw` of a `Box<HostFn>` and is passed to this function once.
unsafe extern "C" fn trampoline(data: *mut c_void) {
    // SAFETY: the contract of this function. The driver calls it once for each enqueue, and not
    // after a context error. In a capture, the driver would call it once for each replay, and the
    // box would be freed twice. So the layers above refuse a stream in a capture.
    let run = unsafe { Box::from_raw(data.cast::<HostFn>()) };
    // The closures of the layers above report their own panics. A panic that leaves a closure must
    // not unwind into the frames of the driver.
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
        let _entered = self.enter("stream create", device)?;
        let flags = match kind {
            StreamKind::Blocking => 0,
            StreamKind::NonBlocking => STREAM_NON_BLOCKING,
        };
        let mut stream = null_mut();
        cu!(
            self,
            "cuStreamCreateWithPriority",
            stream_create(&raw mut stream, flags, priority),
            "the call writes the local variable `stream`, in the context of `device`; the driver \
             clamps a priority out of range"
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
        let _entered = self.enter_of("stream destroy", stream.0)?;
        if raw(stream.0) as usize <= PER_THREAD {
            let cause = "a default stream cannot be destroyed: it lives as long as its device";
            return Err(refused("cuStreamDestroy", INVALID_HANDLE, cause));
        }
        cu!(
            self,
            "cuStreamDestroy",
            stream_destroy(raw(stream.0)),
            "the owner destroys the stream once, and no other thread uses it any more; pending \
             work still runs (law A12)"
        )
    }

    pub(super) fn stream_synchronize(&self, stream: StreamHandle) -> Result<()> {
        let _entered = self.enter_of("stream synchronize", stream.0)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuStreamSynchronize",
            stream_synchronize(raw(stream.0)),
            "the stream stays live until the call returns: its owner is borrowed meanwhile"
        )
    }

    pub(super) fn stream_query(&self, stream: StreamHandle) -> Result<Readiness> {
        let _entered = self.enter_of("stream query", stream.0)?;
        let _relaxed = self.relaxed();
        let function = need(self.api.stream_query, "cuStreamQuery")?;
        // SAFETY: the stream is live, because the caller borrows the stream object or holds the
        // lock of the stream's lane. The owner of a stream destroys the stream only after it has
        // had this lock. This does not hold for a caller with neither. `_entered` keeps the context
        // of the stream's device current. A default stream needs this, because its handle means a
        // stream of the current context.
        let code = unsafe { function(raw(stream.0)) };
        self.readiness("cuStreamQuery", code)
    }

    pub(super) fn stream_wait(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let _entered = self.enter_of("stream wait", stream.0)?;
        cu!(
            self,
            "cuStreamWaitEvent",
            stream_wait(raw(stream.0), raw(event.0), 0),
            "stream and event are live, and may be of two devices (law A6). The wait holds for the \
             record that the event has at the call, so the event may be destroyed afterwards (law \
             A12)"
        )
    }

    pub(super) fn host_fn(&self, stream: StreamHandle, run: &HostFn) -> Result<()> {
        let _entered = self.enter_of("host function", stream.0)?;
        let launch = need(self.api.host_fn, "cuLaunchHostFunc")?;
        let data = Box::into_raw(Box::new(Arc::clone(run))).cast::<c_void>();
        // SAFETY: the stream is live. `data` passes from this call to `trampoline`, which the
        // driver calls once on its own thread. `HostFn` is `Send` and `'static`. In a capture the
        // driver would call `trampoline` once for each replay, so the layers above refuse a stream
        // in a capture. After a context error the driver never calls `trampoline` and may still
        // hold the box, so the box leaks.
        let code = unsafe { launch(raw(stream.0), trampoline, data) };
        if code != 0 {
            // SAFETY: a refused call keeps no pointer and never calls `trampoline`, so the box is
            // still owned here. This does not hold for a code other than 0 after which the function
            // runs.
            drop(unsafe { Box::from_raw(data.cast::<HostFn>()) });
        }
        check(&self.api, "cuLaunchHostFunc", code)
    }
}
