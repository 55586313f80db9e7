//! A graph of a host device: its nodes in streams of its own.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::args::ArgBlock;
use crate::device::driver::{Action, EventHandle, Form, FunctionHandle, Launch, StreamHandle};
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::Span;
use std::borrow::Cow;

/// The operation of a node, with its parts.
#[derive(Debug)]
pub(super) enum Work {
    Copy {
        dst: Span,
        src: Span,
    },
    Fill {
        dst: Span,
        value: u8,
    },
    Kernel {
        function: FunctionHandle,
        name: Cow<'static, str>,
        config: LaunchConfig,
        args: Box<ArgBlock>,
    },
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) work: Work,
    /// The stream of the graph that it runs in.
    pub(super) lane: usize,
    /// The nodes of other streams that it waits for.
    pub(super) waits: Vec<usize>,
    /// Recorded after it, if nodes of other streams wait for it.
    pub(super) done: Option<EventHandle>,
}

#[derive(Debug)]
pub(super) struct Graph {
    pub(super) device: DeviceId,
    pub(super) nodes: Vec<Node>,
    pub(super) lanes: Vec<Lane>,
    /// Recorded where a launch begins.
    pub(super) begin: EventHandle,
}

/// A stream of a graph.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) stream: StreamHandle,
    /// The node that was added to it last.
    pub(super) last: usize,
    /// The end of the last launch in it.
    pub(super) end: EventHandle,
}

impl Work {
    pub(super) fn of(action: &Action<'_>) -> Result<Self> {
        match action {
            Action::Copy { dst, src, form: Form::Async } => {
                Ok(Self::Copy { dst: (*dst).clone(), src: (*src).clone() })
            }
            Action::Fill { dst, value, form: Form::Async } => {
                Ok(Self::Fill { dst: (*dst).clone(), value: *value })
            }
            Action::Launch(launch) => {
                let Launch { function, name, config, args } = *launch;
                Ok(Self::Kernel {
                    function,
                    name: name.clone(),
                    config,
                    args: Box::new(args.clone()),
                })
            }
            Action::Copy { form: Form::Sync, .. }
            | Action::Fill { form: Form::Sync, .. }
            | Action::Batch { .. }
            | Action::HostFn { .. }
            | Action::Foreign { .. }
            | Action::Graph { .. }
            | Action::Alloc { .. }
            | Action::Free(_) => {
                let cause = format!("`{}` cannot be a node of a graph", action.label());
                Err(Error::new(ErrorKind::Unsupported, "graph", cause))
            }
        }
    }

    pub(super) fn action(&self) -> Action<'_> {
        match self {
            Self::Copy { dst, src } => Action::Copy { dst, src, form: Form::Async },
            Self::Fill { dst, value } => Action::Fill { dst, value: *value, form: Form::Async },
            Self::Kernel { function, name, config, args } => {
                Action::Launch(Launch { function: *function, name, config: *config, args })
            }
        }
    }

    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel { function, .. }, Self::Kernel { function: other, .. }) => {
                function == other
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}
