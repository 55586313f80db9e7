//! Waits, as explanations remember them.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use super::clock::Stamp;
use crate::base::id::LaneId;
use std::collections::BTreeSet;

/// Waits that a stream or a thread remembers for explanations, one per stream that was recorded.
const WAITS_MAX: usize = 16;

/// A wait, for explanations.
#[derive(Debug, Clone)]
pub(in crate::check) struct RememberedWait {
    /// The record of the wait.
    pub(in crate::check) op: u64,
    pub(in crate::check) event: u64,
    /// The record of the event that it stood for, and how far its stream had come then.
    pub(in crate::check) recorded: Option<(u64, Stamp)>,
    /// The one before, which the last one replaced.
    pub(in crate::check) replaced: Option<(u64, Stamp)>,
}

impl RememberedWait {
    /// Whether it names a number of one of these components.
    pub(super) fn names(&self, components: &BTreeSet<LaneId>) -> bool {
        let mut stamps = self.recorded.iter().chain(&self.replaced).map(|(_, at)| at.lane);
        !components.is_empty() && stamps.any(|component| components.contains(&component))
    }

    /// Adds the records that it names.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        named.push(self.op);
        named.extend(self.recorded.iter().chain(&self.replaced).map(|(op, _)| *op));
    }
}

/// Adds a wait to those that are remembered.
pub(super) fn remember(waits: &mut Vec<RememberedWait>, wait: RememberedWait) {
    let stream = |wait: &RememberedWait| wait.recorded.map(|(_, at)| at.lane);
    waits.retain(|other| stream(other) != stream(&wait));
    if waits.len() == WAITS_MAX {
        waits.remove(0);
    }
    waits.push(wait);
}
