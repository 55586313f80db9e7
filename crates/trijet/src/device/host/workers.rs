//! The operations that the worker threads have to run and are running.
#![forbid(unsafe_code)]

use super::ids::NodeId;
use crate::base::ledger::{Engine, Mode};
use crate::device::memory::Span;
use std::collections::BTreeMap;

/// What the worker threads have to do and are doing.
#[derive(Default)]
pub(super) struct Workers {
    /// Operations that may start, by urgency and age.
    pub(super) ready: BTreeMap<(i32, NodeId), Engine>,
    /// What the operations on worker threads touch at the moment.
    pub(super) running: Vec<(NodeId, Vec<(Span, Mode)>)>,
}
