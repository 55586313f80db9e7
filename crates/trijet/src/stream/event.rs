//! Events: points in a stream that other streams and the host can wait for.
//!
//! Ordering of buffers needs none of these; they are for what the library cannot see, and for
//! time. An event without timing and one with are two types, so that asking an untimed one for
//! the time does not compile.
#![forbid(unsafe_code)]

use super::callback;
use super::device::{Device, Shared};
use super::lane::{LaneRef, Mark};
use super::queue::Stream;
use super::universe::Universe;
use crate::base::clock::VectorClock;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::mutant;
use crate::base::units::Nanos;
use crate::device::driver::{EventHandle, Readiness, Timing};
use std::sync::{Arc, Mutex};

/// A point in a stream (laws A4 to A8). Before its first record it stands for no work: a wait
/// returns at once.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let (a, b) = (device.stream()?, device.stream()?);
/// let event = device.event()?;
/// event.record(&a)?;
/// b.wait(&event)?;
/// event.synchronize()?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct Event(Recorded);

/// An event that keeps the time at which it completes.
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let stream = device.stream()?;
/// let (begin, end) = (device.timed_event()?, device.timed_event()?);
/// begin.record(&stream)?;
/// end.record(&stream)?;
/// end.synchronize()?;
/// assert!(end.elapsed_since(&begin)?.seconds() < 60.0);
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct TimedEvent(Recorded);

#[derive(Debug)]
struct Recorded {
    device: Arc<Shared>,
    event: EventHandle,
    /// What the event stands for since its last record. The lock is held across the driver's
    /// call that records or waits in a stream, so that the two always agree.
    last: Mutex<Last>,
}

/// The last record of an event.
#[derive(Debug, Default)]
struct Last {
    /// Counts records. A wait of the host runs without the lock, and teaches something only if
    /// nobody recorded the event meanwhile: else it may have waited for either record.
    number: u64,
    stands_for: Option<(Position, VectorClock)>,
}

impl Recorded {
    fn new(device: &Device, timing: Timing) -> Result<Self> {
        callback::refuse("event create")?;
        let shared = Arc::clone(device.shared());
        let event = shared.universe.driver.event_create(shared.id, timing)?;
        Ok(Self { device: shared, event, last: Mutex::default() })
    }

    fn record(&self, stream: &Stream) -> Result<()> {
        callback::refuse("event record")?;
        stream.lane().universe.own("event record", self.device.universe.id)?;
        let mut last = self.last.lock().expect("no panic under this lock");
        let record = |driver: &dyn crate::device::driver::Driver, stream| {
            driver.event_record(self.event, stream)
        };
        last.number += 1;
        let stands_for = stream.lane().record_event(self.event, record)?;
        if last.stands_for.is_none() || !mutant::on(28, "an event keeps its first record") {
            last.stands_for = Some(stands_for);
        }
        Ok(())
    }

    fn number(&self) -> u64 {
        self.last.lock().expect("no panic under this lock").number
    }

    /// The record with this number, if it still is the last one, is complete.
    fn learn(&self, number: u64) {
        let last = self.last.lock().expect("no panic under this lock");
        let stale = mutant::on(27, "a wait for an event teaches a record made meanwhile");
        if (last.number == number || stale)
            && let Some((_, clock)) = &last.stands_for
        {
            self.device.universe.learn(clock);
        }
    }

    fn synchronize(&self) -> Result<()> {
        callback::refuse("event synchronize")?;
        let number = self.number();
        self.device.universe.driver.event_synchronize(self.event)?;
        self.learn(number);
        Ok(())
    }

    fn query(&self) -> Result<Readiness> {
        callback::refuse("event query")?;
        let number = self.number();
        let readiness = self.device.universe.driver.event_query(self.event)?;
        if readiness == Readiness::Ready {
            self.learn(number);
        }
        Ok(readiness)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if callback::inside() {
            let (universe, event) = (Arc::clone(&self.device.universe), self.event);
            let destroy = move || drop(universe.driver.event_destroy(event));
            self.device.defer(Box::new(destroy));
        } else if let Err(error) = self.device.universe.driver.event_destroy(self.event) {
            self.device.keep_error(error);
        }
    }
}

macro_rules! event_verbs {
    ($type:ident) => {
        impl $type {
            /// Makes the event stand for everything enqueued in `stream` so far. A second record
            /// overwrites the first; waits already enqueued keep what they had.
            ///
            /// # Errors
            /// `InvalidValue` when the stream is of another device or driver.
            pub fn record(&self, stream: &Stream) -> Result<()> {
                self.0.record(stream)
            }

            /// Waits until what it stands for is complete.
            ///
            /// # Errors
            /// The error of work that failed, or `Stalled`.
            pub fn synchronize(&self) -> Result<()> {
                self.0.synchronize()
            }

            /// Whether what it stands for is complete. Never blocks.
            ///
            /// # Errors
            /// The error of work that failed.
            pub fn query(&self) -> Result<Readiness> {
                self.0.query()
            }
        }
    };
}

event_verbs!(Event);
event_verbs!(TimedEvent);

impl Event {
    pub(crate) fn make_wait(&self, lane: &LaneRef) -> Result<()> {
        lane.universe.own("stream wait", self.0.device.universe.id)?;
        let last = self.0.last.lock().expect("no panic under this lock");
        match &last.stands_for {
            Some((on, clock)) => lane.wait_event(self.0.event, *on, clock),
            // Law A5: nothing was recorded, so there is nothing to wait for.
            None => Ok(()),
        }
    }
}

impl TimedEvent {
    /// The time from `earlier` to this event. Both are complete.
    ///
    /// # Errors
    /// `InvalidValue` when one of them was never recorded, or they are of two drivers.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Nanos> {
        callback::refuse("event elapsed")?;
        self.0.device.universe.own("event elapsed", earlier.0.device.universe.id)?;
        self.0.device.universe.driver.event_elapsed(earlier.0.event, self.0.event)
    }
}

impl Device {
    /// A new event without timing.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn event(&self) -> Result<Event> {
        Recorded::new(self, Timing::Off).map(Event)
    }

    /// A new event that keeps its time.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn timed_event(&self) -> Result<TimedEvent> {
        Recorded::new(self, Timing::On).map(TimedEvent)
    }
}

/// Stands for the work of a stream up to a point, and can be waited for on any thread, which then
/// knows that the work is complete.
#[derive(Debug, Clone)]
pub struct Ticket {
    universe: Arc<Universe>,
    mark: Option<Arc<Mark>>,
}

impl Ticket {
    pub(crate) fn new(universe: &Arc<Universe>, mark: Option<Arc<Mark>>) -> Self {
        Self { universe: Arc::clone(universe), mark }
    }

    /// Waits for the work.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    pub fn wait(&self) -> Result<()> {
        callback::refuse("ticket wait")?;
        match &self.mark {
            Some(mark) => self.universe.host_wait(mark),
            None => Ok(()),
        }
    }

    /// Whether the work is complete. Never blocks.
    ///
    /// # Errors
    /// The error of work that failed.
    pub fn query(&self) -> Result<Readiness> {
        callback::refuse("ticket query")?;
        let Some(mark) = &self.mark else { return Ok(Readiness::Ready) };
        let readiness = self.universe.driver.event_query(mark.event)?;
        if readiness == Readiness::Ready {
            self.universe.learn(&mark.snapshot);
        }
        Ok(readiness)
    }
}
