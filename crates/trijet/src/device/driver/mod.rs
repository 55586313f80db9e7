//! The driver contract: what a device must do, at the level of the CUDA driver API.
//!
//! The contract has parts, and a driver implements the parts that it has. Every driver has a
//! [`Core`], [`Pools`], [`Ranges`], [`Peers`], [`Graphs`], [`Captures`] and [`Interop`]. Some
//! drivers also have a [`Profiler`], which measures when engines work, or a [`Simulation`], which
//! controls time and the order of host threads.
//!
//! Handles are plain numbers that only the driver that made them understands. Every verb may be
//! called from any thread. A verb returns an error and changes nothing, or does what its laws
//! demand. No verb has a default body: each driver implements all of them.
#![forbid(unsafe_code)]
#![deny(clippy::wildcard_enum_match_arm)]

mod action;
mod captures;
mod core;
mod foreign;
mod graphs;
mod handle;
mod interop;
mod node;
mod peers;
mod pools;
mod profiler;
mod ranges;
mod simulation;

pub use self::core::{Clock, DeviceInfo, Readiness};
pub(crate) use self::core::{Core, Image, StreamKind, Timing};
pub(crate) use action::{Action, AtReturn, CopySpans, Form, HostFn, Launch};
pub use captures::CaptureMode;
pub(crate) use captures::{CaptureState, Captures};
pub use foreign::{Collective, ForeignWork};
pub(crate) use graphs::Graphs;
pub(crate) use handle::{
    EventHandle, FunctionHandle, GraphHandle, ModuleHandle, PoolHandle, StreamHandle,
};
pub(crate) use interop::Interop;
pub(crate) use node::{Conditional, NodeAction, OwnedNode, Repeats};
pub(crate) use peers::Peers;
pub use pools::PoolAccess;
pub(crate) use pools::{PoolAttribute, Pools};
pub(crate) use profiler::{Activities, EngineActivity, Profiler};
pub(crate) use ranges::{RangeSizes, Ranges};
pub use simulation::Script;
pub(crate) use simulation::{PollProgress, Simulation};

use crate::base::error::Result;
pub(crate) use crate::base::ledger::{Mode, SourceOrder};

/// A driver: one per process for CUDA, any number of host drivers.
pub(crate) trait Driver:
    Core + Pools + Ranges + Peers + Graphs + Captures + Interop
{
    /// The profiler of the driver; `None` without one.
    fn profiler(&self) -> Option<&dyn Profiler>;

    /// The control of time; `None` if the driver neither simulates nor measures time itself.
    fn simulation(&self) -> Option<&dyn Simulation>;
}

impl dyn Driver + '_ {
    /// Asks whether the work of an event is complete. The caller repeats this until the work is
    /// complete. On a simulated clock, each call advances time.
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    pub(crate) fn event_poll(&self, event: EventHandle) -> Result<PollProgress> {
        if let Some(simulation) = self.simulation() {
            return simulation.event_poll(event);
        }
        Ok(match self.event_query(event)? {
            Readiness::Ready => PollProgress::Ready,
            Readiness::NotReady => PollProgress::Later,
        })
    }

    /// Runs host threads to their ends: see [`Simulation::script`].
    pub(crate) fn script(&self, threads: Vec<Script<'_>>) {
        if let Some(simulation) = self.simulation() {
            return simulation.script(threads);
        }
        std::thread::scope(|scope| {
            for thread in threads {
                scope.spawn(thread);
            }
        });
    }
}
