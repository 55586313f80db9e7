//! Slots: the memory of the device for chunks in flight.
#![forbid(unsafe_code)]

use crate::memory::Buffer;

/// The memory of the device for one chunk in flight.
pub(super) struct Slot {
    /// The input, then each stage's output.
    pub(super) buffers: Vec<Buffer<u8>>,
    /// The stages use the memory of source and sink in place. The first and the last buffer are
    /// empty then.
    pub(super) in_place: bool,
}
