//! The operations that worker threads run, or are about to run.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, Mode};
use crate::device::host::engine::ids::NodeId;
use crate::device::memory::Span;
use std::collections::BTreeMap;

/// The operations of the worker threads.
#[derive(Default)]
pub(in crate::device::host) struct ThreadOps {
    /// The engine of each operation that can start, in order of priority and then age.
    pub(super) ready: BTreeMap<(i32, NodeId), Engine>,
    /// The operations that are running, and the bytes that they use.
    pub(in crate::device::host) running: Vec<(NodeId, Vec<(Span, Mode)>)>,
}

impl ThreadOps {
    /// Whether an operation that is running uses some of these bytes.
    pub(in crate::device::host) fn has_user(&self, bytes: &Span) -> bool {
        self.running.iter().flat_map(|(_, accesses)| accesses).any(|(span, _)| span.overlaps(bytes))
    }
}
