//! The memory of host devices: pools, ranges and their heap.
#![forbid(unsafe_code)]

mod heap;
pub(super) mod mapped;
pub(super) mod pools;
