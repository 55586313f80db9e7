//! A device of a communicator, with its streams.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::graph::Recording;
use crate::stream::{Device, Stream, StreamOptions};

/// A device of a communicator, and the streams of the communicator on this device. Both streams
/// have the highest priority, because other devices wait for the work of these streams.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) device: Device,
    /// The stream for copies to the next device.
    pub(super) copies: Stream,
    /// The stream for kernels.
    pub(super) kernels: Stream,
}

impl Member {
    pub(super) fn new(device: &Device) -> Result<Self> {
        let (_, most_urgent) = device.info().priorities;
        let stream = || device.stream_with(StreamOptions::new().priority(most_urgent));
        Ok(Self { device: device.clone(), copies: stream()?, kernels: stream()? })
    }

    /// The same device, with streams of a recording.
    pub(super) fn recorded(&self, recording: &Recording) -> Result<Self> {
        let stream = || recording.stream_on(&self.device);
        Ok(Self { device: self.device.clone(), copies: stream()?, kernels: stream()? })
    }
}
