//! An operation of a stream, as data.
//!
//! An [`Action`] borrows its parts, so enqueuing an action clones nothing. The rest of the library
//! needs some facts about an operation: its engine, its name, its bytes, its accesses, and the
//! guarantee when the call returns. These facts are functions of the action. No other file repeats
//! them.
#![forbid(unsafe_code)]

use super::foreign::ForeignWork;
use super::handle::{FunctionHandle, GraphHandle, PoolHandle};
use crate::base::error::Result;
use crate::base::ledger::{Engine, Mode, OpKind, Route, SourceOrder, StreamWork};
use crate::base::units::Bytes;
use crate::device::args::ArgBlock;
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::{Memory, Space, Span};
use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A function that a stream runs on a thread of the driver.
pub(crate) type HostFn = Arc<dyn Fn() + Send + Sync>;

/// One copy of a batch.
#[derive(Debug, Clone)]
pub(crate) struct CopySpans {
    /// The destination.
    pub dst: Span,
    /// The source, with the same length.
    pub src: Span,
}

/// One launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch<'a> {
    /// The kernel.
    pub function: FunctionHandle,
    /// The name of the kernel, for errors and traces.
    pub name: &'a Cow<'static, str>,
    /// The grid, the blocks and their shared memory.
    pub config: LaunchConfig,
    /// The arguments with their accesses.
    pub args: &'a ArgBlock,
}

/// The two forms of copies and fills in CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// `cuMemcpyAsync`, `cuMemsetD8Async`: enqueued in any stream.
    Async,
    /// `cuMemcpy`, `cuMemsetD8`: enqueued in the legacy stream. Law A18 states when the host waits.
    Sync,
}

/// One operation of a stream.
#[derive(Clone)]
pub(crate) enum Action<'a> {
    /// Copies `src` to `dst`, which has the same length. The call of an asynchronous copy returns
    /// at once for page-locked and device memory (law A16). For pageable memory, the call may wait
    /// until the copy or a part of it is complete. For a copy within the host, the call always
    /// waits (law A17).
    Copy {
        /// The destination.
        dst: &'a Span,
        /// The source.
        src: &'a Span,
        /// The form of the call.
        form: Form,
    },
    /// Copies all of `copies` as one operation, without any order among the copies (law A19). The
    /// driver refuses an empty batch, a batch with a copy of no bytes, and a batch in the legacy
    /// stream.
    Batch {
        /// The copies.
        copies: &'a [CopySpans],
        /// How early the driver may read the sources.
        order: SourceOrder,
    },
    /// Sets every byte of `dst`.
    Fill {
        /// The destination.
        dst: &'a Span,
        /// The value.
        value: u8,
        /// The form of the call. The synchronous form waits only if `dst` is page-locked memory
        /// (law A18).
        form: Form,
    },
    /// Launches a kernel.
    Launch(Launch<'a>),
    /// Calls `run` on a thread of the driver. Later operations of the stream wait for the end of
    /// this call (law A27). After a context error the driver does not call `run` (law A29).
    HostFn {
        /// The function.
        run: &'a HostFn,
        /// The bytes that the function reads and writes. While the function runs, the host device
        /// runs no conflicting operation. An exploration tries both orders of the function and a
        /// conflicting operation. CUDA ignores these bytes.
        touches: &'a [(Span, Mode)],
    },
    /// Calls `run`, which enqueues work of another library in the stream. The call of `run` ends
    /// before [`super::Core::submit`] returns. During the call, no lock of this library is held.
    /// The host device refuses this operation.
    Foreign {
        /// The kind of the work, with a name for messages and traces.
        work: ForeignWork,
        /// Enqueues the work. The argument is the raw handle of the stream.
        run: &'a dyn Fn(*mut c_void) -> Result<()>,
        /// The bytes that the work reads and writes.
        touches: &'a [(Span, Mode)],
    },
    /// Launches a graph. The nodes run in the order of the edges of the graph, after the previous
    /// launch of the same graph (law A31).
    Graph {
        /// The graph.
        graph: GraphHandle,
        /// The bytes that the nodes read and write.
        touches: &'a [(Span, Mode)],
        /// The name of the graph in traces, for example `graph 1: fill, copy`.
        name: &'a str,
    },
    /// Allocates in stream order. Later operations of the stream can use the memory. Operations of
    /// other streams can use the memory only after an edge (law A21). An allocation of no bytes is
    /// still an allocation.
    Alloc {
        /// The pool; `None` for the current pool of the stream's device.
        pool: Option<PoolHandle>,
        /// The size.
        bytes: Bytes,
        /// Receives the memory. The memory is not the result of [`super::Core::submit`], because
        /// then every operation would pay for a result of that size.
        memory: &'a Cell<Option<Memory>>,
    },
    /// Frees in stream order: every access to the memory must come before this operation (law A22).
    /// Memory of [`super::Core::device_alloc`] can also be freed in this way.
    Free(&'a Memory),
}

/// The guarantee when the call that enqueues an operation returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtReturn {
    /// The operation is enqueued.
    Enqueued,
    /// The sources of the operation have been read (law A19).
    SourcesRead,
    /// The sources of the operation have been read, and all earlier operations of its stream are
    /// complete (law A18).
    Staged,
    /// The operation is complete (laws A17 and A18).
    Done,
}

impl AtReturn {
    /// Whether every earlier operation of the stream is complete when the call returns.
    #[must_use]
    pub(crate) const fn completes_earlier(self) -> bool {
        matches!(self, Self::Staged | Self::Done)
    }
}

/// The engine that moves bytes from one memory space to another.
#[inline]
fn engine_between(src: Space, dst: Space) -> Engine {
    match (src, dst) {
        (Space::Device(a), Space::Device(b)) if a != b => Engine::Peer,
        (Space::Device(_), Space::Device(_)) => Engine::Compute,
        (Space::Device(_), Space::Pinned | Space::Pageable) => Engine::Download,
        (Space::Pinned | Space::Pageable, Space::Device(_)) => Engine::Upload,
        (Space::Pinned | Space::Pageable, Space::Pinned | Space::Pageable) => Engine::Host,
    }
}

/// The two devices of a copy between devices; `None` for any other copy.
fn route_between(src: Space, dst: Space) -> Option<Route> {
    match (src, dst) {
        (Space::Device(from), Space::Device(to)) if from != to => Some(Route { from, to }),
        _ => None,
    }
}

impl CopySpans {
    /// The engine that executes the copy.
    #[must_use]
    pub(crate) fn engine(&self) -> Engine {
        engine_between(self.src.memory().space(), self.dst.memory().space())
    }
}

impl Action<'_> {
    /// The engine that executes the operation.
    #[must_use]
    #[inline]
    pub(crate) fn engine(&self) -> Engine {
        match self {
            Self::Copy { dst, src, .. } => {
                engine_between(src.memory().space(), dst.memory().space())
            }
            // All copies of a batch have one direction.
            Self::Batch { copies, .. } => copies.first().map_or(Engine::None, CopySpans::engine),
            Self::Foreign { work: ForeignWork::Collective(_), .. } => Engine::Communication,
            Self::Fill { .. } | Self::Launch(_) | Self::Foreign { .. } | Self::Graph { .. } => {
                Engine::Compute
            }
            Self::HostFn { .. } => Engine::Host,
            Self::Alloc { .. } | Self::Free(_) => Engine::None,
        }
    }

    /// The devices of a copy between devices. A batch reports the devices of its first copy.
    #[must_use]
    pub(crate) fn route(&self) -> Option<Route> {
        match self {
            Self::Copy { dst, src, .. } => {
                route_between(src.memory().space(), dst.memory().space())
            }
            Self::Batch { copies, .. } => copies.first().and_then(|CopySpans { src, dst }| {
                route_between(src.memory().space(), dst.memory().space())
            }),
            Self::Fill { .. }
            | Self::Launch(_)
            | Self::HostFn { .. }
            | Self::Foreign { .. }
            | Self::Graph { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => None,
        }
    }

    /// The number of the graph that the operation launches.
    #[must_use]
    pub(crate) fn graph(&self) -> Option<u64> {
        if let Self::Graph { graph, .. } = self { Some(graph.0) } else { None }
    }

    /// A name for messages and traces: the name of the kernel if it is static, `user kernel` for
    /// any other kernel, and otherwise the name of the operation.
    #[must_use]
    #[inline]
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Copy { .. } if self.engine() == Engine::Upload => "upload",
            Self::Copy { .. } if self.engine() == Engine::Download => "download",
            Self::Copy { .. } => "copy",
            Self::Batch { .. } => "batch",
            Self::Fill { .. } => "fill",
            Self::Launch(Launch { name: Cow::Borrowed(name), .. }) => name,
            Self::Launch(_) => "user kernel",
            Self::HostFn { .. } => "host function",
            Self::Foreign { work, .. } => work.name(),
            Self::Graph { .. } => "graph",
            Self::Alloc { .. } => "alloc",
            Self::Free(_) => "free",
        }
    }

    /// The name in the entry of the ledger. A graph has a name of its own. The copy of this name
    /// costs an allocation. For every other operation, the name is [`Action::label`].
    pub(crate) fn entry_label(&self) -> Cow<'static, str> {
        match self {
            Self::Graph { name, .. } => Cow::Owned((*name).to_owned()),
            Self::Copy { .. }
            | Self::Batch { .. }
            | Self::Fill { .. }
            | Self::Launch(_)
            | Self::HostFn { .. }
            | Self::Foreign { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => Cow::Borrowed(self.label()),
        }
    }

    /// The kind of the entry that the operation has in the ledger.
    #[must_use]
    pub(crate) fn kind(&self) -> OpKind {
        OpKind::Work(match self {
            Self::Copy { form: Form::Async, .. } => StreamWork::Copy,
            Self::Copy { form: Form::Sync, .. } => StreamWork::CopyNow,
            Self::Batch { order, .. } => StreamWork::Batch(*order),
            Self::Fill { form: Form::Async, .. } => StreamWork::Fill,
            Self::Fill { form: Form::Sync, .. } => StreamWork::FillNow,
            Self::Launch(_) | Self::Foreign { .. } | Self::Graph { .. } => StreamWork::Kernel,
            Self::HostFn { .. } => StreamWork::HostFn,
            Self::Alloc { .. } => StreamWork::Alloc,
            Self::Free(_) => StreamWork::Free,
        })
    }

    /// The number of bytes that the operation moves or sets.
    #[must_use]
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Copy { src, .. } => src.bytes(),
            Self::Batch { copies, .. } => copies.iter().map(|copy| copy.src.bytes()).sum(),
            Self::Fill { dst, .. } => dst.bytes(),
            Self::Launch(_)
            | Self::HostFn { .. }
            | Self::Foreign { .. }
            | Self::Graph { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => 0,
        }
    }

    /// Calls `each` with every access to memory that existed before the operation: the source of a
    /// copy before its target, the arguments of a launch in their order.
    pub(crate) fn each_access(&self, mut each: impl FnMut(&Memory, Range<u64>, Mode)) {
        let mut span = |span: &Span, mode| each(span.memory(), span.range(), mode);
        match self {
            Self::Copy { dst, src, .. } => {
                span(src, Mode::Read);
                span(dst, Mode::Write);
            }
            Self::Batch { copies, .. } => {
                for copy in *copies {
                    span(&copy.src, Mode::Read);
                    span(&copy.dst, Mode::Write);
                }
            }
            Self::Fill { dst, .. } => span(dst, Mode::Write),
            Self::Launch(launch) => {
                launch.args.spans().iter().for_each(|arg| span(&arg.span, arg.mode))
            }
            Self::HostFn { touches, .. }
            | Self::Foreign { touches, .. }
            | Self::Graph { touches, .. } => {
                touches.iter().for_each(|(bytes, mode)| span(bytes, *mode))
            }
            Self::Alloc { .. } => {}
            Self::Free(memory) => each(memory, 0..memory.bytes(), Mode::Write),
        }
    }

    /// The guarantee when the call returns.
    #[must_use]
    #[inline]
    pub(crate) fn at_return(&self) -> AtReturn {
        match self {
            Self::Copy { form: Form::Async, .. } if self.engine() == Engine::Host => AtReturn::Done,
            Self::Copy { dst, src, form: Form::Sync } => {
                match (src.memory().space(), dst.memory().space()) {
                    (Space::Device(_), Space::Device(_)) => AtReturn::Enqueued,
                    (Space::Pageable, Space::Device(_)) => AtReturn::Staged,
                    (Space::Pinned, Space::Device(_))
                    | (
                        Space::Device(_) | Space::Pinned | Space::Pageable,
                        Space::Pinned | Space::Pageable,
                    ) => AtReturn::Done,
                }
            }
            Self::Batch { order: SourceOrder::DuringCall, .. } => AtReturn::SourcesRead,
            Self::Fill { dst, form: Form::Sync, .. } if dst.memory().space() == Space::Pinned => {
                AtReturn::Done
            }
            Self::Copy { .. }
            | Self::Batch { .. }
            | Self::Fill { .. }
            | Self::Launch(_)
            | Self::HostFn { .. }
            | Self::Foreign { .. }
            | Self::Graph { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => AtReturn::Enqueued,
        }
    }

    /// Whether the call may wait for other work (laws A17 to A19), or runs code of the user. Such a
    /// call is made without a lock.
    #[must_use]
    #[inline]
    pub(crate) fn may_wait(&self) -> bool {
        let pageable = |span: &Span| span.memory().space() == Space::Pageable;
        match self {
            Self::Copy { dst, src, form: Form::Async } => {
                pageable(src) || pageable(dst) || self.engine() == Engine::Host
            }
            Self::Batch { copies, order } => {
                let any = |copy: &CopySpans| pageable(&copy.src) || pageable(&copy.dst);
                *order != SourceOrder::Stream || copies.iter().any(any)
            }
            Self::Copy { form: Form::Sync, .. } | Self::Fill { form: Form::Sync, .. } => {
                self.at_return() != AtReturn::Enqueued
            }
            Self::Foreign { .. } => true,
            Self::Fill { form: Form::Async, .. }
            | Self::Launch(_)
            | Self::HostFn { .. }
            | Self::Graph { .. }
            | Self::Alloc { .. }
            | Self::Free(_) => false,
        }
    }
}

impl fmt::Debug for Action<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Action").field("label", &self.label()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::foreign::Collective;
    use super::*;

    fn engine_of(work: ForeignWork) -> Engine {
        Action::Foreign { work, run: &|_| Ok(()), touches: &[] }.engine()
    }

    #[test]
    fn a_collective_communicates_and_a_name_decides_nothing() {
        assert_eq!(engine_of(Collective::AllReduce.into()), Engine::Communication);
        assert_eq!(engine_of(Collective::AllReduce.name().into()), Engine::Compute);
    }
}
