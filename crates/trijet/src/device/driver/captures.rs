//! The part of the contract about captures of streams into graphs (law A33).
//!
//! The library makes its graphs node by node and captures nothing. A program may capture a stream
//! that it shares with the library.
#![forbid(unsafe_code)]

use super::handle::{GraphHandle, StreamHandle};
use crate::base::error::Result;
use std::fmt::Debug;

/// The threads whose potentially unsafe calls a capture refuses, as in `CUstreamCaptureMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CaptureMode {
    /// All threads.
    Global,
    /// The thread that began the capture.
    ThreadLocal,
    /// No thread. Any thread may end the capture.
    Relaxed,
}

/// The state of a stream, as in `CUstreamCaptureStatus`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CaptureState {
    /// The stream is not captured.
    None,
    /// The stream is captured: its calls become nodes of a graph.
    Active,
    /// A call was refused. The capture is invalid, and can only be ended.
    Invalidated,
}

/// Captures. Law A33 states what the verbs of the other parts of the contract do on a stream or
/// event of a capture.
///
/// Queries, synchronisations, allocations and frees are made in the relaxed mode of the calling
/// thread, so they disturb no capture of other streams. Two things disturb a capture in every mode:
/// waiting for a device, and using the legacy stream while a blocking stream is captured.
pub(crate) trait Captures: Debug {
    /// Begins a capture.
    ///
    /// # Errors
    /// An error for the legacy stream, and for a stream that is already captured.
    fn capture_begin(&self, stream: StreamHandle, mode: CaptureMode) -> Result<()>;

    /// Ends a capture. The graph is ready to be launched.
    ///
    /// # Errors
    /// An error if `stream` did not begin the capture. This error ends no capture. After each of
    /// the following errors, the stream is no longer captured:
    /// - The calling thread did not begin the capture, and the mode is not relaxed.
    /// - An earlier call made the capture invalid.
    /// - Another stream of the capture has operations that `stream` does not wait for.
    fn capture_end(&self, stream: StreamHandle) -> Result<GraphHandle>;

    /// Whether the stream is captured.
    ///
    /// # Errors
    /// An error of the driver if `stream` is the legacy stream and a blocking stream is captured.
    fn capture_state(&self, stream: StreamHandle) -> Result<CaptureState>;
}
