//! The operation of a node of a graph.
#![forbid(unsafe_code)]

use super::action::{Action, Form, HostFn, Launch};
use crate::device::memory::{Space, Span};

/// What a node of a graph does: the operations that a graph can have, as data.
#[derive(Clone, Copy)]
pub(crate) enum NodeAction<'a> {
    /// Copies `src` to `dst`, equally long, between page-locked and device memory.
    Copy {
        /// The target.
        dst: &'a Span,
        /// The source.
        src: &'a Span,
    },
    /// Sets every byte of `dst`.
    Fill {
        /// The target.
        dst: &'a Span,
        /// The value.
        value: u8,
    },
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Calls a function on a thread of the driver, in each launch.
    HostFn(&'a HostFn),
}

impl Action<'_> {
    /// The same operation as a node of a graph.
    ///
    /// # Errors
    /// The name of an operation that a graph cannot have.
    pub(crate) fn as_node(&self) -> Result<NodeAction<'_>, &'static str> {
        let is_pageable = |span: &Span| span.memory().space() == Space::Pageable;
        match self {
            Self::Copy { dst, src, form: Form::Async } if is_pageable(dst) || is_pageable(src) => {
                Err("a copy of pageable memory")
            }
            Self::Copy { dst, src, form: Form::Async } => Ok(NodeAction::Copy { dst, src }),
            Self::Fill { dst, value, form: Form::Async } => {
                Ok(NodeAction::Fill { dst, value: *value })
            }
            Self::Launch(launch) => Ok(NodeAction::Launch(*launch)),
            Self::HostFn { run, touches: [] } => Ok(NodeAction::HostFn(run)),
            Self::Copy { form: Form::Sync, .. }
            | Self::Fill { form: Form::Sync, .. }
            | Self::Batch { .. }
            | Self::HostFn { .. }
            | Self::Foreign { .. }
            | Self::Graph { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => Err(self.label()),
        }
    }
}

impl<'a> NodeAction<'a> {
    /// The same operation for a stream.
    pub(crate) fn action(self) -> Action<'a> {
        match self {
            Self::Copy { dst, src } => Action::Copy { dst, src, form: Form::Async },
            Self::Fill { dst, value } => Action::Fill { dst, value, form: Form::Async },
            Self::Launch(launch) => Action::Launch(launch),
            Self::HostFn(run) => Action::HostFn { run, touches: &[] },
        }
    }
}
