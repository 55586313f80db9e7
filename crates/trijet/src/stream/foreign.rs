//! Streams and events that are shared with other libraries, in both directions.

use super::device::Device;
use super::event::Event;
use super::stream::{Owner, Stream};
use crate::base::error::Result;
use crate::log::calling;
use crate::order::gate::{GateStream, Maker};
use std::any::Any;
use std::ffi::c_void;
use std::panic::Location;

impl Device {
    /// A stream that another library created. Operations that are enqueued through it are ordered
    /// like those of any other stream, and follow the work that the stream already holds. `owner`
    /// keeps the stream alive. It is dropped after the last buffer that was allocated in the
    /// stream.
    ///
    /// While the stream is being captured into a graph, every call on it returns `Capturing`.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let theirs = device.stream()?;
    /// // SAFETY: the stream is alive, since it moves into its owner.
    /// let ours = unsafe { device.stream_from_raw(theirs.as_raw(), theirs)? };
    /// let mut x = ours.alloc::<u8>(64)?;
    /// ours.fill_bytes(&mut x, 1)?;
    /// ours.synchronize()?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `raw` is a created stream of this device, not a default stream, and stays valid until
    /// `owner` is dropped.
    ///
    /// # Errors
    /// `InvalidValue` for a default stream and beyond 1024 streams of a driver; what the driver
    /// reports.
    pub unsafe fn stream_from_raw(
        &self,
        raw: *mut c_void,
        owner: impl Any + Send + Sync,
    ) -> Result<Stream> {
        calling::refuse("stream from raw")?;
        let shared = self.shared();
        let imported = shared.domain.driver().stream_from_raw(shared.id, raw);
        let (handle, kind) = imported.map_err(|error| shared.failed(error))?;
        let stream = GateStream { device: shared.id, handle, maker: Maker::Program };
        Stream::open(shared, kind.class(), stream, (Some(Owner(Box::new(owner))), None))
    }
}

impl Stream {
    /// The stream as a `CUstream`, for other libraries; on the host device, a number. Work that
    /// they enqueue in the stream is ordered by this library only if they enqueue it in
    /// [`Stream::foreign`].
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.lane().driver().stream_to_raw(self.lane().stream.handle)
    }

    /// Makes later work of this stream wait for the work that a `CUevent` of another library stands
    /// for at this call (law A7).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (theirs, ours) = (device.stream()?, device.stream()?);
    /// let event = device.event()?;
    /// event.record(&theirs)?;
    /// // SAFETY: the event is alive.
    /// unsafe { ours.wait_raw(event.as_raw())? };
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `event` is a live event of the device of this stream.
    ///
    /// # Errors
    /// What the driver reports.
    #[track_caller]
    pub unsafe fn wait_raw(&self, event: *mut c_void) -> Result<()> {
        calling::refuse("stream wait")?;
        let lane = self.lane();
        let event = lane.driver().event_from_raw(lane.device, event);
        let waits = lane.wait_unknown(event, Location::caller());
        waits.map_err(|error| self.device().failed(error))
    }
}

impl Event {
    /// The event as a `CUevent`, for other libraries that wait for it; on the host device, a
    /// number. It stands for the last record. A later record may replace the handle, so call this
    /// after each record.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        let (device, event) = self.raw();
        device.domain.driver().event_to_raw(event)
    }
}
