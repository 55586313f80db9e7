//! Knowledge of what is complete, in two parts.
//!
//! What is *sure* holds in every run of the program's calls: documented edges, whatever the timing of
//! the host. What was *seen* holds in this run only: a record and a wait of one event that threads
//! made without an order between them (law A45). Both go along every edge.
//!
//! Imports: `base`.
#![forbid(unsafe_code)]

use crate::base::edges::{Edge, Past};
use crate::base::id::{LaneId, Position};
use crate::base::vector_clock::VectorClock;

/// A number in a component: the lane of such a position is the component's number here, and not
/// that of a lane in the record.
pub(in crate::check) type Stamp = Position;

/// No stamp: number 0 is known to every clock.
pub(super) const NONE: Stamp = Stamp { lane: LaneId(0), seq: 0 };

/// The components of the clocks that were given out: streams, host threads, host functions.
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

/// What is complete before something.
#[derive(Debug, Clone, Default)]
pub(in crate::check) struct Clock {
    /// In every run.
    pub(in crate::check) sure: VectorClock,
    /// In this run, beside that.
    pub(in crate::check) seen: VectorClock,
}

impl Clock {
    pub(super) const fn new() -> Self {
        Self { sure: VectorClock::new(), seen: VectorClock::new() }
    }

    /// Takes over what `other` knows, each part as what it is.
    #[inline]
    pub(super) fn join(&mut self, other: &Self) {
        self.sure.join(&other.sure);
        self.seen.join(&other.seen);
    }

    /// Takes over what `other` knows, as true of this run only.
    pub(super) fn join_as_seen(&mut self, other: &Self) {
        self.seen.join(&other.sure);
        self.seen.join(&other.seen);
    }

    #[inline]
    pub(super) fn raise(&mut self, stamp: Stamp) {
        self.sure.raise(stamp);
    }
}

impl Past for Clock {
    #[inline]
    fn follow(&mut self, other: &Self, _: Edge) {
        self.join(other);
    }

    fn copy_from(&mut self, other: &Self) {
        self.sure.copy_from(&other.sure);
        self.seen.copy_from(&other.seen);
    }
}
