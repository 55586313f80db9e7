//! The state of one stream, and of the default streams of a device.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use crate::base::id::DeviceId;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::StreamHandle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The relation of a stream to the legacy stream (laws A13 and A15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// One stream. When a stream is destroyed and its operations are complete, a later stream takes the
/// slot and continues its numbers.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) handle: StreamHandle,
    pub(super) device: DeviceId,
    pub(super) kind: Kind,
    pub(super) priority: i32,
    /// Its hardware queue, if streams share them (law A47).
    pub(super) queue: Option<usize>,
    pub(super) submitted: u64,
    pub(super) done: u64,
    /// The number of operations that the host has seen complete, by a synchronisation of any
    /// thread.
    pub(super) seen: u64,
    /// The last operation. It may be complete.
    pub(super) last: Option<NodeId>,
    /// The end of the last completed operation. The next one does not start earlier.
    pub(super) clock: Nanos,
    /// The operations of other streams that come before every later operation of this one, because
    /// of events and of the legacy stream.
    pub(super) knows: VectorClock,
    /// The version of the legacy stream's barrier that `knows` includes.
    pub(super) barrier_seen: u64,
    pub(super) destroyed: bool,
}

/// The point of the legacy stream that later operations of blocking streams follow (law A13).
#[derive(Debug, Default, Clone)]
pub(super) struct Barrier {
    /// The last operation before the barrier.
    pub(super) last: Option<NodeId>,
    pub(super) clock: Arc<VectorClock>,
    pub(super) version: u64,
}

/// The default streams and the blocking streams of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceStreams {
    pub(super) legacy: Option<SlotId>,
    pub(super) per_thread: BTreeMap<u64, SlotId>,
    pub(super) blocking: Vec<SlotId>,
    /// A stream of the driver, in which it reads sources of batches out of stream order (law A19).
    pub(super) staging: Option<SlotId>,
    pub(super) barrier: Barrier,
}
