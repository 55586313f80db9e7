//! Lessons about copies between host and device.
#![forbid(unsafe_code)]

pub(crate) mod batched;
pub(crate) mod both_directions;
pub(crate) mod packed;
pub(crate) mod pageable;
