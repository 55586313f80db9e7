//! The times of operations that were enqueued under a tag, as a profiler measures them on a GPU. In
//! a simulation, the times are exact. In an executor of single steps, an operation starts and ends
//! at the same time.
#![forbid(unsafe_code)]

use super::ids::NodeId;
use super::refuse;
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::device::driver::{Activities, EngineActivity};
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// The tag of the operations that this thread enqueues, on any driver.
    static TAG: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sets the tag of the operations that the calling thread enqueues from now on.
pub(in crate::device::host) fn set_tag(tag: Option<u64>) {
    TAG.set(tag);
}

/// The times of operations under tags, while a trace collects them.
#[derive(Debug, Default)]
pub(in crate::device::host) enum Collector {
    #[default]
    Off,
    On {
        /// For each operation under a tag that is not complete: the tag, and the time of its start
        /// if the operation has started.
        open: HashMap<NodeId, (u64, Option<Nanos>)>,
        /// The times of the operations under tags that are complete.
        done: Vec<EngineActivity>,
    },
}

impl Collector {
    pub(in crate::device::host) fn begin(&mut self) -> Result<()> {
        if matches!(self, Self::On { .. }) {
            return Err(refuse::unsupported(
                "activity records",
                "another trace collects activity records; end that trace before you begin the next",
            ));
        }
        *self = Self::On { open: HashMap::new(), done: Vec::new() };
        Ok(())
    }

    pub(in crate::device::host) fn take(&mut self) -> Result<Activities> {
        match std::mem::take(self) {
            Self::Off => Err(refuse::unsupported(
                "activity records",
                "no trace collects activity records; begin a trace first",
            )),
            Self::On { mut done, .. } => {
                done.sort_unstable_by_key(|activity| activity.tag);
                Ok(Activities { work: done, lost: 0 })
            }
        }
    }

    pub(in crate::device::host) fn enqueued(&mut self, id: NodeId) {
        if let (Self::On { open, .. }, Some(tag)) = (self, TAG.get()) {
            open.insert(id, (tag, None));
        }
    }

    pub(in crate::device::host) fn began(&mut self, id: NodeId, now: Nanos) {
        if let Self::On { open, .. } = self
            && let Some((_, begin)) = open.get_mut(&id)
        {
            *begin = Some(now);
        }
    }

    pub(in crate::device::host) fn ended(&mut self, id: NodeId, now: Nanos) {
        if let Self::On { open, done } = self
            && let Some((tag, begin)) = open.remove(&id)
        {
            done.push(EngineActivity { tag, begin: begin.unwrap_or(now), end: now });
        }
    }
}
