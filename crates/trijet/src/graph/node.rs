//! A node of a graph: an operation on ranges of arguments.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::Mode;
use crate::device::LaunchConfig;
use crate::device::args::{ArgValues, KeptArgs};
use crate::device::driver::{
    Action, Conditional, FunctionHandle, HostFn, Launch, NodeAction, OwnedNode, Repeats,
};
use crate::device::memory::Span;
use crate::stream::foreign::Captured;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A range of an argument, and the mode in which a node accesses it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ArgumentRange {
    pub(super) argument: usize,
    /// The range in bytes, counted from the start of the argument.
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
}

/// The work of a node on the ranges that it touches.
#[derive(Clone)]
enum NodeWork {
    /// A copy from the first range to the second.
    Copy,
    Fill(u8),
    Kernel {
        function: FunctionHandle,
        name: Cow<'static, str>,
        config: LaunchConfig,
        args: Box<KeptArgs>,
    },
    HostFn(HostFn),
    /// The body of a conditional node. The condition is the `u32` in the range `condition`.
    Conditional {
        repeats: Repeats,
        condition: ArgumentRange,
        body: Vec<Node>,
    },
    /// Work of another library, and its name.
    Captured(Arc<Captured>, &'static str),
}

impl std::fmt::Debug for NodeWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.values().label())
    }
}

/// The values of a node, for the comparison of two operations. Some values can be changed in a
/// graph. If any other value differs, the operations need different nodes.
#[derive(Debug)]
enum NodeValues<'a> {
    Copy,
    Fill(u8),
    Kernel {
        function: FunctionHandle,
        name: &'a Cow<'static, str>,
        config: LaunchConfig,
        args: ArgValues<'a>,
    },
    HostFn,
    Conditional,
    Captured(&'static str),
}

impl<'a> NodeValues<'a> {
    fn of(node: &NodeAction<'a>) -> Self {
        match node {
            NodeAction::Copy { .. } => Self::Copy,
            NodeAction::Fill { value, .. } => Self::Fill(*value),
            NodeAction::HostFn(_) => Self::HostFn,
            NodeAction::Conditional(_) => Self::Conditional,
            NodeAction::Captured(_) => Self::Captured(node.label()),
            NodeAction::Launch(Launch { function, name, config, args }) => {
                Self::Kernel { function: *function, name, config: *config, args: args.values() }
            }
        }
    }

    fn label(&self) -> &str {
        match self {
            Self::Copy => "copy",
            Self::Fill(_) => "fill",
            Self::Kernel { name, .. } => name,
            Self::HostFn => "host function",
            Self::Conditional => "conditional",
            Self::Captured(name) => name,
        }
    }
}

impl NodeWork {
    fn values(&self) -> NodeValues<'_> {
        match self {
            Self::Copy => NodeValues::Copy,
            Self::Fill(value) => NodeValues::Fill(*value),
            Self::HostFn(_) => NodeValues::HostFn,
            Self::Conditional { .. } => NodeValues::Conditional,
            Self::Captured(_, name) => NodeValues::Captured(name),
            Self::Kernel { function, name, config, args } => {
                let args = args.values();
                NodeValues::Kernel { function: *function, name, config: *config, args }
            }
        }
    }
}

/// The stream and the device of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeHome {
    /// The number of the stream in the recording.
    pub(super) stream: usize,
    pub(super) device: DeviceId,
}

/// The condition on which the operations of a graph are performed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Condition {
    pub(super) repeats: Repeats,
    /// The index of the argument that contains the word of the condition.
    pub(super) argument: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    work: NodeWork,
    pub(super) home: NodeHome,
    /// The numbers of the streams to which graphs with this node were added. The stream for the
    /// innermost graph comes first.
    pub(super) within: Vec<usize>,
    /// Whether the node is launched as a dependent launch. Its edges decide whether that is
    /// possible.
    is_dependent: bool,
    /// The ranges that the node touches, in the order of [`Action::each_access`].
    pub(super) touches: Vec<ArgumentRange>,
    /// The indices of the earlier nodes that must be complete before this node starts; see
    /// [`super::edges::connect`].
    pub(super) after: Vec<usize>,
}

impl Node {
    /// A node with the work of `action`. The node touches no range and follows no node yet.
    pub(super) fn of(action: &Action<'_>, home: NodeHome) -> Result<Self> {
        let work = match action.as_node().map_err(unsupported)? {
            NodeAction::Copy { .. } => NodeWork::Copy,
            NodeAction::Fill { value, .. } => NodeWork::Fill(value),
            NodeAction::HostFn(run) => NodeWork::HostFn(Arc::clone(run)),
            NodeAction::Conditional(_) => return Err(unsupported("a conditional node")),
            NodeAction::Captured(_) => return Err(unsupported("captured work")),
            NodeAction::Launch(launch) => {
                let Launch { function, name, config, args } = launch;
                NodeWork::Kernel {
                    function,
                    name: name.clone(),
                    config,
                    args: Box::new(args.kept()),
                }
            }
        };
        let (within, touches, after) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { work, home, within, is_dependent: false, touches, after })
    }

    /// A conditional node with the nodes of `body`. `touches` has the uses of all these nodes
    /// together. Ranges that the body overwrites count as overwritten, although the body may not
    /// run. This does not change the order of operations, and the ranges need no content before the
    /// launch.
    pub(super) fn conditional(
        repeats: Repeats,
        condition: ArgumentRange,
        body: Vec<Self>,
        mut touches: Vec<ArgumentRange>,
        home: NodeHome,
    ) -> Self {
        let reads = |touch: &ArgumentRange| {
            let (whole, part) = (&touch.range, &condition.range);
            touch.argument == condition.argument
                && whole.start <= part.start
                && part.end <= whole.end
        };
        if !touches.iter().any(reads) {
            touches.push(condition.clone());
        }
        let work = NodeWork::Conditional { repeats, condition, body };
        let (within, after) = (Vec::new(), Vec::new());
        Self { work, home, within, is_dependent: false, touches, after }
    }

    /// A node with captured work of another library.
    pub(super) fn captured(
        captured: Captured,
        name: &'static str,
        touches: Vec<ArgumentRange>,
        home: NodeHome,
    ) -> Self {
        let work = NodeWork::Captured(Arc::new(captured), name);
        let (within, after) = (Vec::new(), Vec::new());
        Self { work, home, within, is_dependent: false, touches, after }
    }

    /// Whether the node is work of another library, which always uses the memory of the recording.
    pub(super) fn is_captured(&self) -> bool {
        matches!(self.work, NodeWork::Captured(..))
    }

    /// A copy of the node for the body of a conditional node. The copy keeps its edges.
    pub(super) fn copied_as_body(&self) -> Self {
        Self { after: self.after.clone(), ..self.copied_into(0, 0) }
    }

    pub(super) fn is_host_fn(&self) -> bool {
        matches!(self.work, NodeWork::HostFn(_))
    }

    pub(super) fn is_conditional(&self) -> bool {
        matches!(self.work, NodeWork::Conditional { .. })
    }

    /// Calls `each` for every range that the node touches, including the ranges of its body.
    pub(super) fn each_touch(&mut self, each: &mut impl FnMut(&mut ArgumentRange)) {
        self.touches.iter_mut().for_each(&mut *each);
        if let NodeWork::Conditional { condition, body, .. } = &mut self.work {
            each(condition);
            body.iter_mut().for_each(|node| node.each_touch(each));
        }
    }

    /// Sets the priority of the node, if the node is a launch that has no priority yet.
    pub(super) fn set_priority(&mut self, priority: Option<i32>) {
        if let NodeWork::Kernel { config, .. } = &mut self.work {
            config.priority = config.priority.or(priority);
        }
    }

    /// A copy of the node for another graph, in which the node's graph becomes a part of `stream`.
    /// In the other graph, stream `n` of the node's graph has the number `first + n`.
    pub(super) fn copied_into(&self, stream: usize, first: usize) -> Self {
        let within = self.within.iter().map(|within| first + within);
        Self {
            work: self.work.clone(),
            home: NodeHome { stream: first + self.home.stream, ..self.home },
            within: within.chain([stream]).collect(),
            is_dependent: false,
            touches: self.touches.clone(),
            after: Vec::new(),
        }
    }

    /// Sets the nodes that this node follows. `is_behind_launch` is true if there is exactly one
    /// such node, and this one is a launch in the same stream. A dependent launch requires this.
    pub(super) fn follow(&mut self, after: Vec<usize>, is_behind_launch: bool) {
        let wants = matches!(&self.work, NodeWork::Kernel { config, .. } if config.dependent);
        self.is_dependent = wants && is_behind_launch;
        self.after = after;
    }

    /// Copies the edges of `other`, a node that uses the same bytes in the same stream.
    pub(super) fn follow_as(&mut self, other: &Self) {
        self.after.clone_from(&other.after);
        self.is_dependent = other.is_dependent;
    }

    pub(super) fn is_kernel(&self) -> bool {
        matches!(self.work, NodeWork::Kernel { .. })
    }

    /// Whether the node is a launch that uses this argument, or has such a launch in its body.
    pub(super) fn is_kernel_with(&self, argument: usize) -> bool {
        match &self.work {
            NodeWork::Kernel { .. } => self.touches.iter().any(|touch| touch.argument == argument),
            NodeWork::Conditional { body, .. } => {
                body.iter().any(|node| node.is_kernel_with(argument))
            }
            NodeWork::Copy | NodeWork::Fill(_) | NodeWork::HostFn(_) | NodeWork::Captured(..) => {
                false
            }
        }
    }

    /// The name of the kernel that the node launches. For another operation, the name of the
    /// operation.
    pub(super) fn label(&self) -> String {
        self.work.values().label().to_owned()
    }

    /// Returns whether `other` has new values for this node. The caller may then replace this node
    /// by `other`.
    ///
    /// # Errors
    /// The reason why `other` is another operation, so that the graph cannot be patched.
    pub(super) fn differs(&self, other: &Self) -> std::result::Result<bool, String> {
        let differs = match (&self.work, &other.work) {
            (
                NodeWork::Conditional { repeats, condition, body },
                NodeWork::Conditional { repeats: other, condition: at, body: others },
            ) => {
                let is_same = repeats == other && condition == at && body.len() == others.len();
                if !is_same {
                    return Err("its condition or its body differs".to_owned());
                }
                let mut differs = false;
                for (node, other) in body.iter().zip(others) {
                    differs |= node.differs(other).map_err(|why| format!("in its body, {why}"))?;
                }
                differs
            }
            _ => self.works_otherwise(&other.work.values())?,
        };
        self.is_beside(other.home, &other.within, &other.touches)?;
        Ok(differs)
    }

    /// Like [`differs`](Self::differs), but compares the node with an operation of a stream, which
    /// is not a node yet.
    pub(super) fn differs_from(
        &self,
        action: &Action<'_>,
        priority: Option<i32>,
        home: NodeHome,
        touches: &[ArgumentRange],
    ) -> std::result::Result<bool, String> {
        let node = action.as_node().map_err(|name| format!("it is `{name}` now"))?;
        let mut values = NodeValues::of(&node);
        if let NodeValues::Kernel { config, .. } = &mut values {
            config.priority = config.priority.or(priority);
        }
        let differs = self.works_otherwise(&values)?;
        self.is_beside(home, &[], touches)?;
        Ok(differs)
    }

    /// Returns an error if the other node is in another stream or uses other bytes.
    fn is_beside(
        &self,
        home: NodeHome,
        within: &[usize],
        touches: &[ArgumentRange],
    ) -> std::result::Result<(), String> {
        // This code compares iterators and not slices. On processors with AVX-512, `memcmp` of two
        // empty slices takes 50 ns, because a masked load of an unmapped address needs an assist.
        if self.home != home || !self.within.iter().eq(within) {
            return Err("it is in another stream".to_owned());
        }
        if self.touches != touches {
            return Err("it uses other bytes or arguments than before".to_owned());
        }
        Ok(())
    }

    fn works_otherwise(&self, other: &NodeValues<'_>) -> std::result::Result<bool, String> {
        match (&self.work, other) {
            // Closures cannot be compared, so the graph keeps the first closure.
            (NodeWork::Copy, NodeValues::Copy) | (NodeWork::HostFn(_), NodeValues::HostFn) => {
                Ok(false)
            }
            (NodeWork::Fill(was), NodeValues::Fill(value)) => Ok(was != value),
            (
                NodeWork::Kernel { function: was, config: old, args: known, .. },
                NodeValues::Kernel { function, config, args, .. },
            ) if was == function => {
                let attributes =
                    |c: &LaunchConfig| (c.cluster, c.cooperative, c.priority, c.dependent);
                // The values that `attributes` returns become attributes of the driver's node and
                // of its edge. An update cannot change these attributes.
                if attributes(old) != attributes(config) {
                    return Err(
                        "its cluster, cooperative, priority or dependent attribute differs"
                            .to_owned(),
                    );
                }
                Ok(old != config || known.differ(args))
            }
            (
                was @ (NodeWork::Copy
                | NodeWork::Fill(_)
                | NodeWork::Kernel { .. }
                | NodeWork::HostFn(_)
                | NodeWork::Conditional { .. }
                | NodeWork::Captured(..)),
                _,
            ) => Err(format!("it is `{}`, and was `{}`", other.label(), was.values().label())),
        }
    }

    /// The operation of the node. `span` returns the memory of a range.
    fn owned(&self, span: &dyn Fn(&ArgumentRange) -> Span) -> OwnedNode {
        self.with_action(span, OwnedNode::of)
    }

    /// Calls `with` with the operation of the node. `span` returns the memory of a range.
    pub(super) fn with_action<R>(
        &self,
        span: impl Fn(&ArgumentRange) -> Span,
        with: impl FnOnce(NodeAction<'_>) -> R,
    ) -> R {
        match &self.work {
            NodeWork::Copy => {
                let (src, dst) = (span(&self.touches[0]), span(&self.touches[1]));
                with(NodeAction::Copy { dst: &dst, src: &src })
            }
            NodeWork::Fill(value) => {
                with(NodeAction::Fill { dst: &span(&self.touches[0]), value: *value })
            }
            NodeWork::HostFn(run) => with(NodeAction::HostFn(run)),
            NodeWork::Captured(captured, _) => with(NodeAction::Captured(captured.graph())),
            NodeWork::Conditional { repeats, condition, body } => {
                let own = |node: &Self| (node.owned(&span), node.after.clone());
                let touched = |touch: &ArgumentRange| (span(touch), touch.mode);
                with(NodeAction::Conditional(&Conditional {
                    repeats: *repeats,
                    condition: span(condition),
                    body: body.iter().map(own).collect(),
                    touches: self.touches.iter().map(touched).collect(),
                }))
            }
            NodeWork::Kernel { function, name, config, args } => {
                let args = args.with_memory(self.touches.iter().map(span));
                let (function, mut config) = (*function, *config);
                config.dependent = self.is_dependent;
                with(NodeAction::Launch(Launch { function, name, config, args: &args }))
            }
        }
    }
}

pub(super) fn unsupported(what: &str) -> Error {
    let cause = format!(
        "{what} cannot be recorded; a graph has copies, fills, launches and `Recording::host_fn`"
    );
    Error::new(ErrorKind::Unsupported, "record", cause)
}
