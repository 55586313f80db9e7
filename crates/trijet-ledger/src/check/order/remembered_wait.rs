//! Waits of a stream or a thread, as they are kept for explanations.
#![forbid(unsafe_code)]

use super::clock::Stamp;
use crate::base::id::LaneId;
use std::collections::BTreeSet;

/// Maximum number of waits that are kept per stream or thread. For each stream whose record was
/// waited for, only the last wait is kept.
const WAITS_MAX: usize = 16;

/// A wait for an event, as it is kept for explanations.
#[derive(Debug, Clone)]
pub(in crate::check) struct RememberedWait {
    /// The entry of the wait.
    pub(in crate::check) op: u64,
    pub(in crate::check) event: u64,
    /// The record that the event stood for: its entry, and the stamp that its stream had reached.
    pub(in crate::check) recorded: Option<(u64, Stamp)>,
    /// The earlier record of the event that `recorded` replaced.
    pub(in crate::check) replaced: Option<(u64, Stamp)>,
}

impl RememberedWait {
    /// Whether the wait has a stamp in one of these components.
    pub(super) fn names(&self, components: &BTreeSet<LaneId>) -> bool {
        let mut stamps = self.recorded.iter().chain(&self.replaced).map(|(_, at)| at.lane);
        !components.is_empty() && stamps.any(|component| components.contains(&component))
    }

    /// Adds the entries that the wait names.
    pub(super) fn named(&self, named: &mut Vec<u64>) {
        named.push(self.op);
        named.extend(self.recorded.iter().chain(&self.replaced).map(|(op, _)| *op));
    }
}

/// Adds a wait, and removes an earlier wait for the same stream. If there are too many waits,
/// removes the oldest one.
pub(super) fn remember(waits: &mut Vec<RememberedWait>, wait: RememberedWait) {
    let stream = |wait: &RememberedWait| wait.recorded.map(|(_, at)| at.lane);
    waits.retain(|other| stream(other) != stream(&wait));
    if waits.len() == WAITS_MAX {
        waits.remove(0);
    }
    waits.push(wait);
}
