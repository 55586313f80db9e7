//! Events: points in a stream that streams and the host wait for.

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
        self.enter("event create", device)?;
        let flags = if timing == Timing::On { 0 } else { EVENT_DISABLE_TIMING };
        let mut event = null_mut();
        cu!(self, "cuEventCreate", event_create(&raw mut event, flags), "one pointer to write")?;
        Ok(EventHandle(pack(device, event)))
    }

    pub(super) fn event_destroy(&self, event: EventHandle) -> Result<()> {
        self.enter_of("event destroy", event.0)?;
        cu!(self, "cuEventDestroy", event_destroy(raw(event.0)), "an event its owner gives up")
    }

    pub(super) fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        self.enter_of("event record", stream.0)?;
        cu!(
            self,
            "cuEventRecord",
            event_record(raw(event.0), raw(stream.0)),
            "a live event and stream; different devices are refused by the driver"
        )
    }

    pub(super) fn event_query(&self, event: EventHandle) -> Result<Readiness> {
        self.enter_of("event query", event.0)?;
        let function = need(self.api.event_query, "cuEventQuery")?;
        // SAFETY: a live event of this driver: its owner destroys it when nobody can ask.
        let code = unsafe { function(raw(event.0)) };
        self.readiness("cuEventQuery", code)
    }

    pub(super) fn event_synchronize(&self, event: EventHandle) -> Result<()> {
        self.enter_of("event synchronize", event.0)?;
        cu!(self, "cuEventSynchronize", event_synchronize(raw(event.0)), "a live event")
    }

    pub(super) fn event_elapsed(&self, from: EventHandle, to: EventHandle) -> Result<Nanos> {
        self.enter_of("event elapsed", from.0)?;
        let mut milliseconds = 0f32;
        cu!(
            self,
            "cuEventElapsedTime",
            event_elapsed(&raw mut milliseconds, raw(from.0), raw(to.0)),
            "two live events and one number to write; untimed ones are refused by the driver"
        )?;
        Ok(Nanos::from_seconds(f64::from(milliseconds) * 1e-3))
    }
}
