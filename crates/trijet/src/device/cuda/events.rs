//! Events: recorded points in a stream, for which streams and the host can wait.

use super::api::need;
use super::context::{CudaDriver, cu, pack, raw};
use super::error::check;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::units::Nanos;
use crate::device::driver::{EventHandle, Readiness, StreamHandle, Timing};
use std::ffi::c_uint;
use std::ptr::null_mut;

const EVENT_DISABLE_TIMING: c_uint = 2;

impl CudaDriver {
    pub(super) fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle> {
        let _entered = self.enter("event create", device)?;
        let flags = if timing == Timing::On { 0 } else { EVENT_DISABLE_TIMING };
        let mut event = null_mut();
        cu!(
            self,
            "cuEventCreate",
            event_create(&raw mut event, flags),
            "the call writes the local variable `event`, in the context of `device`"
        )?;
        Ok(EventHandle(pack(device, event)))
    }

    pub(super) fn event_destroy(&self, event: EventHandle) -> Result<()> {
        let _entered = self.enter_of("event destroy", event.0)?;
        cu!(
            self,
            "cuEventDestroy",
            event_destroy(raw(event.0)),
            "the owner destroys the event once, and no other thread uses it any more"
        )
    }

    pub(super) fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let _entered = self.enter_of("event record", stream.0)?;
        cu!(
            self,
            "cuEventRecord",
            event_record(raw(event.0), raw(stream.0)),
            "event and stream are live; the driver refuses an event and a stream of different devices. In a capture the \
             event would stand for a node: the layers above refuse a capturing stream"
        )
    }

    pub(super) fn event_query(&self, event: EventHandle) -> Result<Readiness> {
        let _entered = self.enter_of("event query", event.0)?;
        let _relaxed = self.relaxed();
        let function = need(self.api.event_query, "cuEventQuery")?;
        // SAFETY: the event is live, because its owner destroys the event only after the last
        // query. This does not hold if another thread destroys the event during this call. The
        // context of another device may be current during the call.
        let code = unsafe { function(raw(event.0)) };
        self.readiness("cuEventQuery", code)
    }

    pub(super) fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        let _entered = self.enter_of("event synchronize", event.0)?;
        let _relaxed = self.relaxed();
        cu!(
            self,
            "cuEventSynchronize",
            event_synchronize(raw(event.0)),
            "the event stays live until the call returns: its owner is borrowed meanwhile"
        )
    }

    pub(super) fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos> {
        let _entered = self.enter_of("event elapsed", from.0)?;
        let mut milliseconds = 0f32;
        cu!(
            self,
            "cuEventElapsedTime",
            event_elapsed(&raw mut milliseconds, raw(from.0), raw(to.0)),
            "the call writes the local variable `milliseconds`; both events are live, and the \
             driver refuses those without a time and those of two devices"
        )?;
        Ok(Nanos::from_seconds(f64::from(milliseconds) * 1e-3))
    }
}
