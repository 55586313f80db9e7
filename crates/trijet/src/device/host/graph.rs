//! A graph of a host device: its nodes in streams of its own.
#![forbid(unsafe_code)]

use crate::base::id::DeviceId;
use crate::device::args::ArgBlock;
use crate::device::driver::{
    EventHandle, FunctionHandle, HostFn, Launch, NodeAction, StreamHandle,
};
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::Span;
use std::borrow::Cow;
use std::sync::Arc;

/// The operation of a node, with its parts.
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
    HostFn(HostFn),
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.node().action().fmt(f)
    }
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
    pub(super) fn of(node: NodeAction<'_>) -> Self {
        match node {
            NodeAction::Copy { dst, src } => Self::Copy { dst: dst.clone(), src: src.clone() },
            NodeAction::Fill { dst, value } => Self::Fill { dst: dst.clone(), value },
            NodeAction::HostFn(run) => Self::HostFn(Arc::clone(run)),
            NodeAction::Launch(Launch { function, name, config, args }) => {
                Self::Kernel { function, name: name.clone(), config, args: Box::new(args.clone()) }
            }
        }
    }

    pub(super) fn node(&self) -> NodeAction<'_> {
        match self {
            Self::Copy { dst, src } => NodeAction::Copy { dst, src },
            Self::Fill { dst, value } => NodeAction::Fill { dst, value: *value },
            Self::HostFn(run) => NodeAction::HostFn(run),
            Self::Kernel { function, name, config, args } => {
                NodeAction::Launch(Launch { function: *function, name, config: *config, args })
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
