//! An operation of the engine that is not complete.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use super::work::Work;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use smallvec::SmallVec;

/// The steps of an exploration that something follows from.
pub(super) type Causes = SmallVec<[u32; 4]>;

/// One enqueued operation that is not complete.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) slot: SlotId,
    pub(super) seq: u64,
    pub(super) device: DeviceId,
    pub(super) priority: i32,
    pub(super) role: Engine,
    pub(super) enqueued: Nanos,
    /// When the last operation that it waits for was done.
    pub(super) ready: Nanos,
    /// Operations before it that are not complete.
    pub(super) missing: u32,
    pub(super) after: SmallVec<[NodeId; 2]>,
    /// The steps of an exploration that made it ready.
    pub(super) causes: Causes,
    /// What the floors above call it, if they said so.
    pub(super) culprit: Option<Position>,
    pub(super) work: Work,
}
