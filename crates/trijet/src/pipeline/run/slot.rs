//! Slots: the memory of the device for chunks in flight.
#![forbid(unsafe_code)]

use crate::memory::Buffer;

/// The memory of the device for one chunk in flight.
pub(in crate::pipeline) struct Slot {
    /// The input, and then the output of each stage.
    pub(super) buffers: Vec<Buffer<u8>>,
    /// Whether the stages use the memory of source and sink in place. Then the first and the last
    /// buffer are empty.
    pub(in crate::pipeline) in_place: bool,
}
