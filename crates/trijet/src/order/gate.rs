//! The gate: every call of the library that orders work passes here.
//!
//! Operations, records, waits, queries and synchronisations reach the driver by [`Gate`] alone. No
//! other file above `device` calls these functions of the driver. The outcome of a call depends on
//! the state of its stream and of its device:
//!
//! - live: the call reaches the driver;
//! - capturing (law A33): the call is refused, except for operations that can be a part of the
//!   graph, see `captured`. Only a stream that the program made itself can be in this state;
//! - lost (law A40): the call is refused with the error of the loss. A device is also lost if a
//!   process that its work waits for has ended. Pending work is then ended early, and a wait for
//!   this work returns the error.
//!
//! The gate is passed under the lock of a lane, so nothing here runs code of the user. A caller
//! reports a loss after it has released its locks, see `Domain::failed`.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::table::NumberTable;
use crate::device::driver::{
    Action, CaptureState, Driver, EventHandle, PollProgress, Readiness, StreamHandle, Timing,
};
use crate::log::entry::Log;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`: the answer of CUDA to a call that a capture does not
/// allow.
pub(super) const CAPTURE_UNSUPPORTED: i32 = 900;

/// The stream of a call that passes the gate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateStream {
    pub(crate) device: DeviceId,
    pub(crate) handle: StreamHandle,
    pub(crate) maker: Maker,
}

/// The maker of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    /// The library: no other code can reach the stream.
    Library,
    /// The program, which may capture the stream at any time.
    Program,
}

/// The state in which a call finds its stream.
enum Passage<'a> {
    Live,
    Capturing,
    Lost(&'a Error),
}

/// The gate of a domain.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) log: Log,
    /// The number of events that the library recorded for the order of operations.
    pub(super) records: AtomicU64,
    /// For each lost device, the error with which it was lost.
    lost: NumberTable<Error>,
    /// Whether any device is lost: every call looks here first.
    any_lost: AtomicBool,
    /// Whether the driver controls time and host threads. The driver is asked once, because its
    /// answer never changes.
    pub(crate) is_simulated: bool,
}

impl Gate {
    pub(super) fn new(log: Log) -> Self {
        Self {
            is_simulated: log.driver.simulation().is_some(),
            log,
            records: AtomicU64::new(0),
            lost: NumberTable::default(),
            any_lost: AtomicBool::new(false),
        }
    }

    /// Enqueues an operation.
    #[inline(always)]
    pub(crate) fn submit(&self, on: GateStream, action: &Action<'_>) -> Result<()> {
        // Most calls find a live stream of the library, and need no more than this.
        if on.maker == Maker::Library && !self.any_lost.load(Ordering::Relaxed) {
            return match self.log.driver.submit(on.handle, action) {
                Ok(()) => Ok(()),
                Err(error) => Err(self.refused(on.device, error)),
            };
        }
        self.pass(self.stream_state(on)?, on.device, |driver| driver.submit(on.handle, action))
    }

    /// Checks a call on a stream that makes no call of the driver. Refuses the call if the stream
    /// is captured or its device is lost.
    #[inline]
    pub(super) fn admit(&self, on: GateStream) -> Result<()> {
        if on.maker == Maker::Library && !self.any_lost.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.pass(self.stream_state(on)?, on.device, |_| Ok(()))
    }

    /// Whether other code captures a stream now. The next call may return another answer.
    pub(super) fn is_captured(&self, on: GateStream) -> Result<bool> {
        Ok(matches!(self.stream_state(on)?, Passage::Capturing))
    }

    /// Adds an operation to the graph into which a stream is captured.
    pub(super) fn submit_captured(&self, on: GateStream, action: &Action<'_>) -> Result<()> {
        self.pass(self.device_state(on.device), on.device, |driver| {
            driver.submit(on.handle, action)
        })
    }

    /// Makes `to` wait for the work of `from`. One of the two streams is captured. Afterwards both
    /// streams are captured.
    pub(crate) fn order_captured(&self, from: GateStream, to: GateStream) -> Result<()> {
        self.pass(self.device_state(from.device), from.device, |driver| {
            let event = driver.event_create(from.device, Timing::Off)?;
            let recorded = driver.event_record(event, from.handle);
            let ordered = recorded.and_then(|()| driver.stream_wait(to.handle, event));
            driver.event_destroy(event)?;
            ordered
        })
    }

    /// Records an event.
    #[inline]
    pub(crate) fn record(&self, on: GateStream, event: EventHandle) -> Result<()> {
        self.pass(self.stream_state(on)?, on.device, |driver| driver.event_record(event, on.handle))
    }

    /// Makes future work of a stream wait for an event.
    #[inline]
    pub(crate) fn wait(&self, on: GateStream, event: EventHandle) -> Result<()> {
        self.pass(self.stream_state(on)?, on.device, |driver| driver.stream_wait(on.handle, event))
    }

    /// Waits for the work of a stream.
    pub(crate) fn synchronize_stream(&self, on: GateStream) -> Result<()> {
        self.pass(self.stream_state(on)?, on.device, |driver| {
            driver.stream_synchronize(on.handle)
        })?;
        self.demand_live(on.device)
    }

    /// Asks whether the work of a stream is complete.
    pub(crate) fn query_stream(&self, on: GateStream) -> Result<Readiness> {
        let answer =
            self.pass(self.stream_state(on)?, on.device, |driver| driver.stream_query(on.handle))?;
        self.demand_live(on.device).map(|()| answer)
    }

    /// Waits for the work that an event stands for.
    pub(crate) fn synchronize_event(&self, device: DeviceId, event: EventHandle) -> Result<()> {
        self.pass(self.device_state(device), device, |driver| driver.event_synchronize(event))?;
        self.demand_live(device)
    }

    /// Asks whether the work that an event stands for is complete.
    pub(crate) fn query_event(&self, device: DeviceId, event: EventHandle) -> Result<Readiness> {
        let answer =
            self.pass(self.device_state(device), device, |driver| driver.event_query(event))?;
        self.demand_live(device).map(|()| answer)
    }

    /// [`Gate::query_event`] for polling loops. On a simulated clock, each call advances time.
    pub(crate) fn poll_event(&self, device: DeviceId, event: EventHandle) -> Result<PollProgress> {
        let answer =
            self.pass(self.device_state(device), device, |driver| driver.event_poll(event))?;
        self.demand_live(device).map(|()| answer)
    }

    /// Waits for all work of a device.
    pub(crate) fn synchronize_device(&self, device: DeviceId) -> Result<()> {
        self.pass(self.device_state(device), device, |driver| driver.synchronize(device))?;
        self.demand_live(device)
    }

    /// Calls the driver, unless the stream is captured or the device is lost.
    #[inline(always)]
    fn pass<R>(
        &self,
        state: Passage<'_>,
        device: DeviceId,
        call: impl FnOnce(&dyn Driver) -> Result<R>,
    ) -> Result<R> {
        match state {
            Passage::Live => call(&*self.log.driver).map_err(|error| self.refused(device, error)),
            Passage::Capturing => Err(capturing(device)),
            Passage::Lost(error) => Err(error.again()),
        }
    }

    #[inline(always)]
    fn device_state(&self, device: DeviceId) -> Passage<'_> {
        if !self.any_lost.load(Ordering::Relaxed) {
            return Passage::Live;
        }
        match self.lost.get(device.0 as usize) {
            None => Passage::Live,
            Some(error) => Passage::Lost(error),
        }
    }

    #[inline(always)]
    fn stream_state(&self, on: GateStream) -> Result<Passage<'_>> {
        let state = self.device_state(on.device);
        if on.maker == Maker::Program
            && matches!(state, Passage::Live)
            && self.log.driver.capture_state(on.handle)? != CaptureState::None
        {
            return Ok(Passage::Capturing);
        }
        Ok(state)
    }

    /// Whether no device was lost.
    pub(super) fn is_live(&self) -> bool {
        !self.any_lost.load(Ordering::Acquire)
    }

    /// Returns the error of the loss if the device is lost. This is checked after a wait, because a
    /// device may be lost during the wait.
    #[inline]
    pub(super) fn demand_live(&self, device: DeviceId) -> Result<()> {
        match self.device_state(device) {
            Passage::Lost(error) => Err(error.again()),
            Passage::Live | Passage::Capturing => Ok(()),
        }
    }

    /// Marks a device as lost. Every later call, and every wait in progress, returns the error. If
    /// the device was lost before, the first error stays.
    pub(super) fn lose(&self, device: DeviceId, error: &Error) {
        self.lost.set(device.0 as usize, error.again());
        self.any_lost.store(true, Ordering::Release);
    }

    /// Notes a loss, if the error of the driver is the loss of a device. The lost device may be
    /// another device whose work the call needed. Returns the error.
    #[cold]
    fn refused(&self, device: DeviceId, error: Error) -> Error {
        if error.is_loss() {
            self.lose(error.device().unwrap_or(device), &error);
        }
        error
    }
}

#[cold]
fn capturing(device: DeviceId) -> Error {
    let cause = "the stream is being captured into a graph; end the capture first";
    Error::new(ErrorKind::Capturing, "stream", cause).with_code(CAPTURE_UNSUPPORTED).on(device)
}
