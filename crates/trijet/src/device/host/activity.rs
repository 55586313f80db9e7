//! When the engines of the host device worked on what was enqueued under a tag: what a profiler
//! says of a GPU. In the virtual executor that is exact; where operations are single steps they
//! have a moment and no length.
#![forbid(unsafe_code)]

use super::ids::NodeId;
use super::refuse;
use crate::base::error::Result;
use crate::base::units::Nanos;
use crate::device::driver::{Activities, Activity};
use std::cell::Cell;
use std::collections::HashMap;

thread_local! {
    /// The tag of what this thread enqueues, on whichever driver.
    static TAG: Cell<Option<u64>> = const { Cell::new(None) };
}

/// What the calling thread enqueues from now on is under `tag`.
pub(super) fn set_tag(tag: Option<u64>) {
    TAG.set(tag);
}

/// Operations under tags, while somebody asked for their times.
#[derive(Debug, Default)]
pub(super) enum Noting {
    #[default]
    Off,
    On {
        /// Those that are not done, with the moment at which their engine began.
        open: HashMap<NodeId, (u64, Option<Nanos>)>,
        done: Vec<Activity>,
    },
}

impl Noting {
    pub(super) fn begin(&mut self) -> Result<()> {
        if matches!(self, Self::On { .. }) {
            return Err(refuse::unsupported("activity records", "another recording has them"));
        }
        *self = Self::On { open: HashMap::new(), done: Vec::new() };
        Ok(())
    }

    pub(super) fn take(&mut self) -> Result<Activities> {
        match std::mem::take(self) {
            Self::Off => Err(refuse::unsupported("activity records", "nothing records them")),
            Self::On { mut done, .. } => {
                done.sort_unstable_by_key(|activity| activity.tag);
                Ok(Activities { work: done, lost: 0 })
            }
        }
    }

    pub(super) fn enqueued(&mut self, id: NodeId) {
        if let (Self::On { open, .. }, Some(tag)) = (self, TAG.get()) {
            open.insert(id, (tag, None));
        }
    }

    pub(super) fn began(&mut self, id: NodeId, now: Nanos) {
        if let Self::On { open, .. } = self
            && let Some((_, begin)) = open.get_mut(&id)
        {
            *begin = Some(now);
        }
    }

    pub(super) fn ended(&mut self, id: NodeId, now: Nanos) {
        if let Self::On { open, done } = self
            && let Some((tag, begin)) = open.remove(&id)
        {
            done.push(Activity { tag, begin: begin.unwrap_or(now), end: now });
        }
    }
}
