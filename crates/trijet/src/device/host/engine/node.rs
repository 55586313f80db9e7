//! An enqueued operation that is not complete.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use super::work::OpWork;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::Engine;
use crate::base::units::Nanos;
use smallvec::SmallVec;

/// The steps of an exploration that come directly before a step.
pub(in crate::device::host) type Causes = SmallVec<[u32; 4]>;

/// One enqueued operation that is not complete.
pub(in crate::device::host) struct Node {
    pub(in crate::device::host) id: NodeId,
    pub(in crate::device::host) slot: SlotId,
    pub(super) seq: u64,
    pub(in crate::device::host) device: DeviceId,
    pub(in crate::device::host) priority: i32,
    pub(in crate::device::host) engine: Engine,
    pub(in crate::device::host) enqueued: Nanos,
    /// The latest time at which an operation that this operation waited for was complete.
    pub(in crate::device::host) ready: Nanos,
    /// The number of operations that this operation waits for and that are not complete.
    pub(super) missing: u32,
    /// Whether the operation is a host function, or waited for a pending host function, directly or
    /// indirectly, when it was enqueued.
    pub(super) follows_host: bool,
    /// The operations that wait for this operation.
    pub(in crate::device::host) after: SmallVec<[NodeId; 2]>,
    /// The steps of an exploration that this operation comes directly after.
    pub(in crate::device::host) causes: Causes,
    /// The position of the operation, which errors name. `None` if the layers above have set no
    /// position (module `device::culprit`).
    pub(in crate::device::host) culprit: Option<Position>,
    pub(in crate::device::host) work: OpWork,
}
