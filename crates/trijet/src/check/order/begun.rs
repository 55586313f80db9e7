//! A call that has begun, and waits.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::Clock;
use crate::base::edges;

/// A call that has begun, and waits.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) call: edges::Begun<Clock>,
    /// How many operations the stream had.
    pub(super) seq: u64,
}
