//! A call that has begun and may wait, with the number of its stream's last operation.
#![forbid(unsafe_code)]

use super::clock::StampClock;
use crate::base::edges;

/// A call that has begun and may wait.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    pub(super) call: edges::Begun<StampClock>,
    /// The number of the stream's last operation when the call began.
    pub(super) seq: u64,
}
