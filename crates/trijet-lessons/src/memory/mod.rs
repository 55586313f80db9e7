//! Lessons about allocation.
#![forbid(unsafe_code)]

pub(crate) mod allocate_each;
pub(crate) mod growing;
pub(crate) mod pool_keeps_nothing;
pub(crate) mod scratch;
pub(crate) mod threshold;
