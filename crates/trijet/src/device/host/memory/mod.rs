//! The memory of host devices: pools, the heap of each pool, and ranges of addresses.
#![forbid(unsafe_code)]

mod heap;
pub(super) mod mapped;
pub(super) mod pools;
