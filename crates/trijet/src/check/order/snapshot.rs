//! What a thread knew at a call, in common for all that keep it.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::{Clock, Stamp};
use std::sync::Arc;

/// What a thread knew at a call.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) thread: usize,
    /// Whoever knows this has taken over the rest.
    pub(super) at: Stamp,
    pub(super) clock: Clock,
}

/// A use of a block by a thread.
#[derive(Debug, Clone)]
pub(super) struct Use(pub(super) Arc<Snapshot>);

impl PartialEq for Use {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
