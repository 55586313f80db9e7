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
pub(in crate::device::host) enum Kind {
    Legacy,
    Blocking,
    NonBlocking,
}

/// One stream. When a stream is destroyed and its operations are complete, a later stream gets the
/// slot and continues the numbers of the operations.
#[derive(Debug)]
pub(in crate::device::host) struct Slot {
    pub(super) handle: StreamHandle,
    pub(in crate::device::host) device: DeviceId,
    pub(in crate::device::host) kind: Kind,
    pub(in crate::device::host) priority: i32,
    /// The index of the stream's hardware queue, if streams share queues (law A47).
    pub(super) queue: Option<usize>,
    pub(in crate::device::host) submitted: u64,
    pub(in crate::device::host) done: u64,
    /// The number of operations that the host has seen complete, by a synchronisation of any
    /// thread.
    pub(in crate::device::host) seen: u64,
    /// The operation that was enqueued last. It may be complete.
    pub(super) last: Option<NodeId>,
    /// The time at which the last completed operation ended. The next operation does not start
    /// earlier.
    pub(super) clock: Nanos,
    /// The operations of other streams that come before every later operation of this stream,
    /// because of events and of the legacy stream.
    pub(in crate::device::host) knows: VectorClock,
    /// The version of the legacy stream's barrier that `knows` includes.
    pub(super) barrier_seen: u64,
    pub(in crate::device::host) destroyed: bool,
}

/// The barrier of the legacy stream: a point that later operations of blocking streams follow (law
/// A13).
#[derive(Debug, Default, Clone)]
pub(in crate::device::host) struct Barrier {
    /// The operation that the later operations wait for.
    pub(in crate::device::host) last: Option<NodeId>,
    pub(in crate::device::host) clock: Arc<VectorClock>,
    pub(in crate::device::host) version: u64,
}

/// The default streams and the blocking streams of a device.
#[derive(Debug, Default)]
pub(in crate::device::host) struct DeviceStreams {
    pub(in crate::device::host) legacy: Option<SlotId>,
    pub(in crate::device::host) per_thread: BTreeMap<u64, SlotId>,
    pub(in crate::device::host) blocking: Vec<SlotId>,
    /// An internal stream, in which the driver reads the sources of batches out of stream order
    /// (law A19).
    pub(in crate::device::host) staging: Option<SlotId>,
    pub(in crate::device::host) barrier: Barrier,
}
