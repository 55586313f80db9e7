//! A shared snapshot of what a thread knew at a call.
#![forbid(unsafe_code)]

use super::clock::{Stamp, StampClock};
use std::sync::Arc;

/// The stamps that a thread knew to be complete at a call.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) thread: usize,
    /// The stamp of the call. A clock that covers this stamp includes `clock` already.
    pub(super) at: Stamp,
    pub(super) clock: StampClock,
}

/// A use of a block by a thread. Two uses are equal if they share one snapshot.
#[derive(Debug, Clone)]
pub(super) struct Use(pub(super) Arc<Snapshot>);

impl PartialEq for Use {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
