//! The fixes of habits: the edges of a run's graph that each of them removes or shortens.
#![forbid(unsafe_code)]

use super::edges::{CALL_NS, CallOf, EdgeKind, RunEdge, WaitOf, index};
use super::run::{Placed, RunModel, length};
use crate::base::lint::Rule;
use crate::trace::activity::CopyDirection;

/// Maximum time in nanoseconds of the program's code between two calls that is no delay of its own.
pub(in crate::profile) const PROGRAM_MAX_NS: u64 = 50_000;

/// A fix of a habit, as a change of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::profile) enum RunFix {
    /// Copies from and to pageable memory are page-locked and asynchronous.
    PageLock,
    /// The host waits for no stream, event or device.
    NoWaits,
    /// Copies that the host waits for are asynchronous and page-locked.
    NoCopyWaits,
    /// No memory is allocated or freed outside of stream order.
    NoAllocations,
    /// All kernels are loaded before the run.
    Loaded,
    /// The program's code between calls takes no longer than between launches.
    EarlyHost,
    /// A graph enqueues operations: their calls and the code between them take no time.
    Graph,
    /// Copies between host and device do not wait for kernels of their stream, nor kernels for
    /// downloads.
    CopyStream,
    /// The legacy stream delays no other stream.
    NoLegacy,
    /// No rank is late.
    NoLateRank,
}

impl RunFix {
    pub(super) const ALL: [Self; 10] = [
        Self::PageLock,
        Self::NoWaits,
        Self::NoCopyWaits,
        Self::NoAllocations,
        Self::Loaded,
        Self::EarlyHost,
        Self::Graph,
        Self::CopyStream,
        Self::NoLegacy,
        Self::NoLateRank,
    ];

    /// The fix as a page lists it.
    pub(in crate::profile) fn words(self) -> &'static str {
        match self {
            Self::PageLock => "page-lock the memory of asynchronous copies",
            Self::NoWaits => "delete the waits for streams, events and the device",
            Self::NoCopyWaits => "copy asynchronously, from and to page-locked memory",
            Self::NoAllocations => "allocate and free before the run",
            Self::Loaded => "load all kernels before the run",
            Self::EarlyHost => "move the code between calls to another thread",
            Self::Graph => "launch a graph in place of its operations",
            Self::CopyStream => "copy in a stream of its own",
            Self::NoLegacy => "use no legacy default stream",
            Self::NoLateRank => "wait for no late rank",
        }
    }

    /// The fix of a rule, if the model has it.
    pub(super) fn of(rule: Rule) -> Option<Self> {
        match rule {
            Rule::Pageable => Some(Self::PageLock),
            Rule::OverSync => Some(Self::NoWaits),
            Rule::SyncCopy => Some(Self::NoCopyWaits),
            Rule::SyncAlloc => Some(Self::NoAllocations),
            Rule::FirstUseLoad => Some(Self::Loaded),
            Rule::ExposedCopy => Some(Self::CopyStream),
            Rule::LegacyBarrier => Some(Self::NoLegacy),
            Rule::LateRank => Some(Self::NoLateRank),
            _ => None,
        }
    }
}

/// A set of fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RunFixes(u16);

impl RunFixes {
    pub(super) fn with(self, fix: RunFix) -> Self {
        Self(self.0 | 1 << fix as u16)
    }

    fn has(self, fix: RunFix) -> bool {
        self.with(fix) == self
    }

    /// The delay of an edge to `moment` in the run with the fixes.
    /// `None` if a fix removes the edge.
    pub(super) fn delay(self, model: &RunModel, moment: u32, edge: &RunEdge) -> Option<u64> {
        if self == Self::default() {
            return Some(edge.delay);
        }
        let cut = |fix: RunFix| match model.cut(moment, edge) {
            Some(cut) if self.has(fix) => cut,
            _ => edge.delay,
        };
        Some(match edge.kind {
            EdgeKind::Awaited(of) => return self.of_wait(of).then_some(edge.delay),
            EdgeKind::Call(of) => self.of_call(cut(RunFix::Loaded), of),
            EdgeKind::Launch => cut(RunFix::Loaded),
            EdgeKind::Program if self.has(RunFix::Graph) && edge.delay <= PROGRAM_MAX_NS => 0,
            EdgeKind::Program if self.has(RunFix::EarlyHost) => edge.delay.min(PROGRAM_MAX_NS),
            // From a kernel to a copy.
            EdgeKind::Stream { is_copy: [false, true] } if self.has(RunFix::CopyStream) => {
                return None;
            }
            EdgeKind::Legacy if self.has(RunFix::NoLegacy) => return None,
            EdgeKind::Run => cut(RunFix::NoLateRank),
            EdgeKind::StagedCopy { is_waited_for: true, .. } => cut(RunFix::NoCopyWaits),
            EdgeKind::StagedCopy { is_waited_for: false, .. } => cut(RunFix::PageLock),
            _ => edge.delay,
        })
    }

    /// Whether a wait remains. Page-locking a download does not remove the need to wait for it.
    fn of_wait(self, of: WaitOf) -> bool {
        match of {
            WaitOf::Sync => !self.has(RunFix::NoWaits),
            WaitOf::Copy => !self.has(RunFix::NoCopyWaits),
            WaitOf::Staged(CopyDirection::Upload) => !self.has(RunFix::PageLock),
            WaitOf::Staged(_) => true,
            WaitOf::Allocation => !self.has(RunFix::NoAllocations),
        }
    }

    /// The time of a call.
    fn of_call(self, delay: u64, of: CallOf) -> u64 {
        let cut = match of {
            CallOf::Sync => self.has(RunFix::NoWaits),
            CallOf::Copy => self.has(RunFix::NoCopyWaits),
            CallOf::Staged => self.has(RunFix::PageLock),
            CallOf::Allocation => self.has(RunFix::NoAllocations),
            CallOf::Enqueue | CallOf::Other => false,
        };
        match of {
            CallOf::Enqueue if self.has(RunFix::Graph) => 0,
            _ if cut => delay.min(CALL_NS),
            _ => delay,
        }
    }
}

impl RunModel {
    /// The time in nanoseconds from the first start to the last end of these operations in the run
    /// with these fixes.
    pub(super) fn replay(&self, operations: &[&Placed], fixes: RunFixes) -> u64 {
        let times = self.moments.times(|moment, edge| fixes.delay(self, moment, edge));
        length(operations.iter().map(|one| [times[index(one.begin)], times[index(one.begin + 1)]]))
    }
}
