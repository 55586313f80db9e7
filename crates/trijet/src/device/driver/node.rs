//! The operation of a node of a graph.
#![forbid(unsafe_code)]

use super::action::{Action, Form, HostFn, Launch};
use super::handle::{FunctionHandle, GraphHandle};
use crate::base::ledger::Mode;
use crate::device::args::ArgBlock;
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::{Space, Span};
use std::borrow::Cow;
use std::sync::Arc;

/// The operation of a node, as data. A [`NodeAction`] borrows its parts. A graph can have only
/// these operations.
#[derive(Clone, Copy)]
pub(crate) enum NodeAction<'a> {
    /// Copies `src` to `dst`, which has the same length, between page-locked and device memory.
    Copy {
        /// The destination.
        dst: &'a Span,
        /// The source.
        src: &'a Span,
    },
    /// Sets every byte of `dst`.
    Fill {
        /// The destination.
        dst: &'a Span,
        /// The value.
        value: u8,
    },
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Calls a function on a thread of the driver, in each launch.
    HostFn(&'a HostFn),
    /// A conditional node: executes other operations once or repeatedly, if a word of device memory
    /// is not zero.
    Conditional(&'a Conditional),
    /// The work of another library, as a captured graph. The memory that this work uses cannot be
    /// replaced.
    Captured(GraphHandle),
}

/// How often the operations of a [`Conditional`] are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Once, if the word is not zero.
    Once,
    /// Repeatedly. The word is read before each repeat. The repeats end when the word is zero.
    WhileSet,
}

/// The parts of a conditional node: the condition, and the operations that are executed.
#[derive(Debug, Clone)]
pub(crate) struct Conditional {
    pub(crate) repeats: Repeats,
    /// The condition: one `u32` of device memory. Any value but zero is true.
    pub(crate) condition: Span,
    /// The operations, each with the indices of the operations that it follows. No operation is a
    /// host function.
    pub(crate) body: Vec<(OwnedNode, Vec<usize>)>,
    /// The memory that the operations use.
    pub(crate) touches: Vec<(Span, Mode)>,
}

/// The operation of a node, which owns its parts.
#[derive(Clone)]
pub(crate) enum OwnedNode {
    /// See [`NodeAction::Copy`].
    Copy {
        /// The destination.
        dst: Span,
        /// The source.
        src: Span,
    },
    /// See [`NodeAction::Fill`].
    Fill {
        /// The destination.
        dst: Span,
        /// The value.
        value: u8,
    },
    /// See [`NodeAction::Launch`].
    Kernel {
        /// The kernel.
        function: FunctionHandle,
        /// The name of the kernel.
        name: Cow<'static, str>,
        /// The configuration of the launch.
        config: LaunchConfig,
        /// The arguments of the launch.
        args: Box<ArgBlock>,
    },
    /// See [`NodeAction::HostFn`].
    HostFn(HostFn),
    /// See [`NodeAction::Conditional`].
    Conditional(Box<Conditional>),
    /// See [`NodeAction::Captured`].
    Captured(GraphHandle),
}

impl std::fmt::Debug for OwnedNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.node().label())
    }
}

impl OwnedNode {
    pub(crate) fn of(node: NodeAction<'_>) -> Self {
        match node {
            NodeAction::Copy { dst, src } => Self::Copy { dst: dst.clone(), src: src.clone() },
            NodeAction::Fill { dst, value } => Self::Fill { dst: dst.clone(), value },
            NodeAction::HostFn(run) => Self::HostFn(Arc::clone(run)),
            NodeAction::Launch(Launch { function, name, config, args }) => {
                Self::Kernel { function, name: name.clone(), config, args: Box::new(args.clone()) }
            }
            NodeAction::Conditional(conditional) => {
                Self::Conditional(Box::new(conditional.clone()))
            }
            NodeAction::Captured(graph) => Self::Captured(graph),
        }
    }

    pub(crate) fn node(&self) -> NodeAction<'_> {
        match self {
            Self::Copy { dst, src } => NodeAction::Copy { dst, src },
            Self::Fill { dst, value } => NodeAction::Fill { dst, value: *value },
            Self::HostFn(run) => NodeAction::HostFn(run),
            Self::Kernel { function, name, config, args } => {
                NodeAction::Launch(Launch { function: *function, name, config: *config, args })
            }
            Self::Conditional(conditional) => NodeAction::Conditional(conditional),
            Self::Captured(graph) => NodeAction::Captured(*graph),
        }
    }

    /// Whether `other` can replace this operation in a graph.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Kernel { function, .. }, Self::Kernel { function: other, .. }) => {
                function == other
            }
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl Action<'_> {
    /// The same operation as a node of a graph.
    ///
    /// # Errors
    /// The name of the operation, if a graph cannot have this operation.
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
    ///
    /// # Errors
    /// The node itself, if no stream can have it: a conditional node, or a captured graph.
    pub(crate) fn action(self) -> Result<Action<'a>, Self> {
        Ok(match self {
            Self::Copy { dst, src } => Action::Copy { dst, src, form: Form::Async },
            Self::Fill { dst, value } => Action::Fill { dst, value, form: Form::Async },
            Self::Launch(launch) => Action::Launch(launch),
            Self::HostFn(run) => Action::HostFn { run, touches: &[] },
            Self::Conditional(_) | Self::Captured(_) => return Err(self),
        })
    }

    /// The name of the operation.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Copy { .. } => "copy",
            Self::Fill { .. } => "fill",
            Self::Launch(_) => "launch",
            Self::HostFn(_) => "host function",
            Self::Conditional(_) => "conditional",
            Self::Captured(_) => "captured work",
        }
    }
}
