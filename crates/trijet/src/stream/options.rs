//! Options for creating a stream.
#![forbid(unsafe_code)]

use crate::device::driver::StreamKind;

/// Options for creating a stream, see [`Device::stream_with`](crate::Device::stream_with).
///
/// ```
/// use trijet::{Device, Select, StreamOptions};
/// let device = Device::open(Select::Host(0))?;
/// let (_, urgent) = device.info().priorities;
/// let stream = device.stream_with(StreamOptions::new().priority(urgent))?;
/// stream.synchronize()?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "no stream is created yet"]
pub struct StreamOptions {
    pub(super) kind: StreamKind,
    pub(super) priority: i32,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { kind: StreamKind::NonBlocking, priority: 0 }
    }
}

impl StreamOptions {
    /// A stream of the default priority that never waits for the legacy stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes the stream wait for the work of the legacy stream, and the legacy stream wait for the
    /// work of this stream (law [A13](crate::laws#a13)). This is for programs with code that uses
    /// the legacy stream.
    ///
    /// ```
    /// use trijet::{Device, Select, StreamOptions};
    /// let device = Device::open(Select::Host(0))?;
    /// let blocking = device.stream_with(StreamOptions::new().blocking())?;
    /// let legacy = device.legacy_stream()?;
    /// let mut x = blocking.alloc::<u8>(16)?;
    /// blocking.fill_bytes(&mut x, 1)?;
    /// legacy.fill_bytes(&mut x, 2)?;
    /// assert_eq!(device.ordering().waits, 0, "the driver orders the two by itself");
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn blocking(mut self) -> Self {
        self.kind = StreamKind::Blocking;
        self
    }

    /// Sets the priority: smaller numbers are more urgent, see
    /// [`DeviceInfo::priorities`](crate::DeviceInfo::priorities). A number out of range is clamped.
    /// Priorities order kernels, not copies (law [A43](crate::laws#a43)).
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }
}
