//! An enqueued operation that is not complete.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use super::work::OpWork;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use smallvec::SmallVec;

/// The steps of an exploration that come directly before a step.
pub(super) type Causes = SmallVec<[u32; 4]>;

/// One enqueued operation that is not complete.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) slot: SlotId,
    pub(super) seq: u64,
    pub(super) device: DeviceId,
    pub(super) priority: i32,
    pub(super) engine: Engine,
    pub(super) enqueued: Nanos,
    /// The end of the last operation that it waits for.
    pub(super) ready: Nanos,
    /// The number of operations before it that are not complete.
    pub(super) missing: u32,
    /// Whether it is a host function, or waited for one when it was enqueued.
    pub(super) follows_host: bool,
    /// The operations that wait for it.
    pub(super) after: SmallVec<[NodeId; 2]>,
    /// The steps of an exploration after which it is ready.
    pub(super) causes: Causes,
    /// Its position in the layers above, if they set one.
    pub(super) culprit: Option<Position>,
    pub(super) work: OpWork,
}
