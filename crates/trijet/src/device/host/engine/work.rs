//! The work of an operation: its effect, the engine that does it, and the bytes that it touches.
#![forbid(unsafe_code)]

use crate::base::ledger::{Engine, Mode};
use crate::base::panic::caught;
use crate::device::args::ArgBlock;
use crate::device::driver::{CopySpans, EventHandle, HostFn, Repeats};
use crate::device::launch_config::LaunchConfig;
use crate::device::memory::{Memory, Span};
use crate::device::twin::{Cost, Twin};
use std::sync::Arc;

/// The number of segments of each copy of a batch. Segments run in any order.
pub(super) const SEGMENTS: u64 = 4;

/// A kernel with its arguments, ready to run tile by tile.
#[derive(Debug)]
pub(in crate::device::host) struct KernelWork {
    pub(in crate::device::host) name: Arc<str>,
    pub(in crate::device::host) twin: Twin,
    pub(in crate::device::host) args: ArgBlock,
    pub(in crate::device::host) config: LaunchConfig,
    /// The number of elements of a tile, which the twin computed for these arguments at the launch.
    pub(in crate::device::host) tile_elements: u64,
    /// The cost that the twin computed for these arguments at the launch.
    pub(in crate::device::host) cost: Cost,
    /// The number of bytes of host memory that the kernel reads, or the number of bytes that it
    /// writes, whichever is larger.
    pub(in crate::device::host) linked: u64,
}

impl KernelWork {
    /// The number of tiles; at least 1.
    fn tile_count(&self) -> u64 {
        let tile = self.tile_elements.max(1);
        let written = self.args.spans().iter().filter(|arg| arg.mode.writes());
        let longest = written.map(|arg| arg.span.bytes() / arg.element_bytes).max();
        longest.unwrap_or(0).div_ceil(tile).max(1)
    }
}

/// A host function, and the bytes that it is declared to use.
pub(in crate::device::host) struct HostFnCall {
    pub(in crate::device::host) run: HostFn,
    pub(in crate::device::host) touches: Box<[(Span, Mode)]>,
}

impl HostFnCall {
    /// Calls the function, and catches a panic. The closures of the layers above report their own
    /// panics.
    pub(in crate::device::host) fn call(self) {
        drop(caught(&*self.run));
        drop(caught(|| drop(self)));
    }
}

/// The operations of a conditional node, which are executed one after another.
#[derive(Debug)]
pub(in crate::device::host) struct ConditionalBody {
    pub(in crate::device::host) repeats: Repeats,
    pub(in crate::device::host) condition: Span,
    /// The operations, in an order that their edges allow.
    pub(in crate::device::host) works: Vec<OpWork>,
    pub(in crate::device::host) touches: Vec<(Span, Mode)>,
}

/// The work of an operation.
pub(in crate::device::host) enum OpWork {
    /// No work: the operation only has a position in the order. The operation is a wait, a barrier,
    /// or the record of an event without timing.
    Mark,
    /// Stores the time in a timed event. `generation` is the number of the record that the time
    /// belongs to.
    Time {
        event: EventHandle,
        generation: u64,
    },
    /// Returns the memory to its pool.
    Free(Memory),
    Copy(CopySpans),
    /// Copies without order among them (law A19).
    Batch(Arc<[CopySpans]>),
    Fill {
        dst: Span,
        value: u8,
    },
    Kernel(Box<KernelWork>),
    HostFn(HostFnCall),
    /// A conditional node of a graph.
    Conditional(Box<ConditionalBody>),
    /// A thread has taken the work and runs it without the lock.
    Lent {
        /// Whether the work that was taken uses bytes.
        touches: bool,
    },
}

impl std::fmt::Debug for OpWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl OpWork {
    /// The name of the work in errors.
    pub(in crate::device::host) fn name(&self) -> &'static str {
        match self {
            Self::Mark => "an event or a wait",
            Self::Time { .. } => "a timed event",
            Self::Free(_) => "free",
            Self::Copy(_) | Self::Batch(_) => "copy",
            Self::Fill { .. } => "fill",
            Self::Kernel(_) => "kernel",
            Self::HostFn(_) => "host function",
            Self::Conditional(_) => "conditional",
            Self::Lent { .. } => "a running operation",
        }
    }

    /// The engine that executes the work; `Engine::None` for work that takes no time, and for work
    /// that a thread has taken.
    pub(in crate::device::host) fn engine(&self) -> Engine {
        match self {
            Self::Copy(spans) => engine_of_copy(spans),
            // All copies of a batch have one direction.
            Self::Batch(copies) => copies.first().map_or(Engine::None, engine_of_copy),
            Self::Fill { .. } | Self::Kernel(_) | Self::Conditional(_) => Engine::Compute,
            Self::HostFn(_) => Engine::Host,
            Self::Mark | Self::Time { .. } | Self::Free(_) | Self::Lent { .. } => Engine::None,
        }
    }

    /// The number of units into which the work can be cut.
    pub(in crate::device::host) fn units(&self) -> u64 {
        match self {
            Self::Copy(spans) => spans.src.bytes().max(1),
            Self::Batch(copies) => copies.len() as u64 * SEGMENTS,
            Self::Fill { dst, .. } => dst.bytes().max(1),
            Self::Kernel(kernel) => kernel.tile_count(),
            Self::Mark
            | Self::Time { .. }
            | Self::Free(_)
            | Self::HostFn(_)
            | Self::Conditional(_)
            | Self::Lent { .. } => 1,
        }
    }

    /// The number of bytes that the work moves or sets.
    pub(in crate::device::host) fn bytes(&self) -> u64 {
        match self {
            Self::Copy(spans) => spans.src.bytes(),
            Self::Batch(copies) => copies.iter().map(|copy| copy.src.bytes()).sum(),
            Self::Fill { dst, .. } => dst.bytes(),
            Self::Mark
            | Self::Time { .. }
            | Self::Free(_)
            | Self::Kernel(_)
            | Self::HostFn(_)
            | Self::Conditional(_)
            | Self::Lent { .. } => 0,
        }
    }

    /// Calls `each` with every span of bytes that the work uses.
    pub(super) fn each_access<'a>(&'a self, mut each: impl FnMut(&'a Span, Mode)) {
        match self {
            Self::Copy(spans) => {
                each(&spans.src, Mode::Read);
                each(&spans.dst, Mode::Write);
            }
            Self::Fill { dst, .. } => each(dst, Mode::Write),
            Self::Kernel(kernel) => {
                kernel.args.spans().iter().for_each(|arg| each(&arg.span, arg.mode));
            }
            Self::Batch(copies) => {
                copies.iter().for_each(|copy| each(&copy.src, Mode::Read));
                copies.iter().for_each(|copy| each(&copy.dst, Mode::Write));
            }
            Self::HostFn(called) => {
                called.touches.iter().for_each(|(span, mode)| each(span, *mode));
            }
            Self::Conditional(body) => {
                body.touches.iter().for_each(|(span, mode)| each(span, *mode));
            }
            Self::Mark | Self::Time { .. } | Self::Free(_) | Self::Lent { .. } => {}
        }
    }

    /// The spans of bytes that the work uses.
    pub(in crate::device::host) fn accesses(&self) -> Vec<(Span, Mode)> {
        let mut found = Vec::new();
        self.each_access(|span, mode| found.push((span.clone(), mode)));
        found
    }
}

/// The engine that executes a copy. It is the engine of the contract, except for a copy within the
/// host. Such a copy runs on the upload engine and not on the engine of host functions, because a
/// host function may wait for the thread that made the copy.
fn engine_of_copy(copy: &CopySpans) -> Engine {
    let engine = copy.engine();
    if engine == Engine::Host { Engine::Upload } else { engine }
}
