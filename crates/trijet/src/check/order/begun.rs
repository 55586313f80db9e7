//! A call that has begun, and waits.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::Clock;
use crate::base::id::DeviceId;

/// A call that has begun, and waits.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) lane: usize,
    /// How many operations the stream had.
    pub(super) seq: u64,
    /// What its work comes after.
    pub(super) before: Clock,
    /// What the stream held.
    pub(super) held: Clock,
    /// What the blocking streams of the other devices held, for a copy between devices (law A38).
    pub(super) far: Vec<(DeviceId, Clock)>,
}
