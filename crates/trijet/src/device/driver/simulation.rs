//! The part of the contract that controls time and the order of host threads.
#![forbid(unsafe_code)]

use super::handle::EventHandle;
use crate::base::error::Result;
use crate::base::units::Nanos;
use std::fmt::Debug;

/// A host thread of a script: see `testing::script`.
pub type Script<'a> = Box<dyn FnOnce() + Send + 'a>;

/// The answer to a poll: [`Simulation::event_poll`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollProgress {
    /// The work is complete, and its effects are visible to the caller.
    Ready,
    /// The work is not complete. Time passes without a call, so the caller asks again later.
    Later,
    /// The work is not complete. Time passes only in a call, so the caller asks again at once.
    Again,
}

/// Control of time and of host threads, for drivers with such control.
pub(crate) trait Simulation: Debug {
    /// [`super::Core::event_query`] for polling loops. On a simulated clock, each call advances
    /// time.
    ///
    /// # Errors
    /// An error of work that failed, or `Stalled`.
    fn event_poll(&self, event: EventHandle) -> Result<PollProgress>;

    /// The time of the host, on the clock of timed events.
    fn host_time(&self) -> Nanos;

    /// Runs host threads to their ends. On a simulated clock, only one of the threads runs at any
    /// moment. There the order policy chooses the next thread at each [`Simulation::pause`] and
    /// each wait, so that a run can be repeated. On a simulated clock, the threads must wait for
    /// each other only by events. On any other clock, the threads run freely.
    fn script(&self, threads: Vec<Script<'_>>);

    /// Lets another thread of a script run. The layers above call this function at the start of
    /// each of their calls, without a lock.
    fn pause(&self);
}
