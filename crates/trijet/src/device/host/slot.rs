//! The state of one stream, and of the default streams of a device.
#![forbid(unsafe_code)]

use super::ids::{NodeId, SlotId};
use crate::base::id::DeviceId;
use crate::base::units::Nanos;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::StreamHandle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a stream relates to the legacy stream (laws A13 and A15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// One stream. A slot is used again when its stream is destroyed and drained; numbers go on.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) handle: StreamHandle,
    pub(super) device: DeviceId,
    pub(super) kind: Kind,
    pub(super) priority: i32,
    pub(super) submitted: u64,
    pub(super) done: u64,
    /// How far the host has seen it complete, by a synchronisation of any thread.
    pub(super) seen: u64,
    /// The last operation; it may be complete.
    pub(super) last: Option<NodeId>,
    /// When the last completed operation was done: the next one can begin no earlier.
    pub(super) clock: Nanos,
    /// What everything enqueued from now on comes after, by events and the legacy stream's rules.
    pub(super) knows: VectorClock,
    /// The barrier of the legacy stream that `knows` includes.
    pub(super) barrier_seen: u64,
    pub(super) destroyed: bool,
}

/// What the legacy stream of a device holds back.
#[derive(Debug, Default, Clone)]
pub(super) struct Barrier {
    /// The last operation of the legacy stream that later work of blocking streams waits for.
    pub(super) last: Option<NodeId>,
    pub(super) clock: Arc<VectorClock>,
    pub(super) version: u64,
}

/// The default streams of a device.
#[derive(Debug, Default)]
pub(super) struct DeviceQueues {
    pub(super) legacy: Option<SlotId>,
    pub(super) per_thread: BTreeMap<u64, SlotId>,
    pub(super) blocking: Vec<SlotId>,
    /// A stream of the driver's own, for what it does out of stream order.
    pub(super) aside: Option<SlotId>,
    pub(super) barrier: Barrier,
}
