//! The part of the contract about captures of streams into graphs (law A33).
//!
//! The library makes its graphs node by node and captures nothing. A program may capture a stream that it shares
//! with the library.
#![forbid(unsafe_code)]

use super::handle::{GraphHandle, StreamHandle};
use crate::base::error::Result;
use std::fmt::Debug;

/// Whose potentially unsafe calls a capture bars, as `CUstreamCaptureMode` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureMode {
    /// Those of all threads.
    Global,
    /// Those of the thread that began the capture.
    ThreadLocal,
    /// None. Any thread may end the capture.
    Relaxed,
}

/// The state of a stream, as `CUstreamCaptureStatus` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CaptureState {
    /// The stream is not captured.
    None,
    /// Calls become a part of a graph.
    Active,
    /// A call was refused, and the capture only waits for its end.
    Invalidated,
}

/// Captures. Every other verb follows law A33 on streams and events of a capture.
///
/// Queries, synchronisations, allocations and frees are made in the relaxed mode of the calling thread, so they
/// disturb no capture of other streams. Waiting for a device and the use of the legacy stream beside a
/// blocking stream that is captured do, in every mode.
pub(crate) trait Captures: Debug {
    /// Begins a capture.
    ///
    /// # Errors
    /// For the legacy stream, and a stream that is captured.
    fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()>;

    /// Ends a capture. The graph is ready to be launched.
    ///
    /// # Errors
    /// For a stream that did not begin it; for another thread than the one that did, unless the mode is
    /// relaxed; and what the capture has become invalid by. The stream is not captured any more then, except after
    /// an error of the first kind.
    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle>;

    /// Whether the stream is captured.
    ///
    /// # Errors
    /// An error of the driver: for the legacy stream beside a blocking stream that is captured.
    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState>;
}
