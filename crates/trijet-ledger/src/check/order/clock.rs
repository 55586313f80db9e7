//! Clocks with two parts: what is complete in every run, and what is complete in this run only.
//!
//! The *sure* part follows from documented edges, whatever the timing of the host. The *seen* part
//! follows from the timing of this run: one thread records an event, another thread waits for the
//! event, and nothing orders the two calls (law A45). Every edge passes on both parts.
#![forbid(unsafe_code)]

use crate::base::edges::{Edge, Past};
use crate::base::id::{LaneId, Position};
use crate::base::vector_clock::VectorClock;

/// A position in a component of the clocks. Its `lane` is the number of the component, and not a
/// lane of the trace.
pub(in crate::check) type Stamp = Position;

/// The stamp that every clock covers, because its number is 0.
pub(super) const NONE: Stamp = Stamp { lane: LaneId(0), seq: 0 };

/// The number of components that were given to streams, host threads and host functions.
#[derive(Debug, Clone, Default)]
pub(super) struct Components(u32);

impl Components {
    pub(super) fn next(&mut self) -> LaneId {
        self.0 += 1;
        LaneId(self.0)
    }

    pub(super) fn count(&self) -> usize {
        self.0 as usize
    }
}

/// A set of stamps that are complete at some point.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct StampClock {
    /// The stamps that are complete in every run.
    pub(in crate::check) sure: VectorClock,
    /// Further stamps that are complete in this run.
    pub(in crate::check) seen: VectorClock,
}

impl StampClock {
    pub(super) const fn new() -> Self {
        Self { sure: VectorClock::new(), seen: VectorClock::new() }
    }

    /// Merges the sure part of `other` into the sure part, and its seen part into the seen part.
    #[inline]
    pub(super) fn join(&mut self, other: &Self) {
        self.sure.join(&other.sure);
        self.seen.join(&other.seen);
    }

    /// Merges both parts of `other` into the seen part.
    pub(super) fn join_as_seen(&mut self, other: &Self) {
        self.seen.join(&other.sure);
        self.seen.join(&other.seen);
    }

    /// Whether `known` covers both parts.
    pub(super) fn is_within(&self, known: &VectorClock) -> bool {
        self.sure.positions().chain(self.seen.positions()).all(|position| known.covers(position))
    }

    #[inline]
    pub(super) fn raise(&mut self, stamp: Stamp) {
        self.sure.raise(stamp);
    }
}

impl Past for StampClock {
    #[inline]
    fn follow(&mut self, other: &Self, _: Edge) {
        self.join(other);
    }

    fn copy_from(&mut self, other: &Self) {
        self.sure.copy_from(&other.sure);
        self.seen.copy_from(&other.seen);
    }
}
