//! Events: points in a stream that other streams and the host can wait for.
//!
//! Ordering of buffers needs none of these; they are for what the library cannot see, and for
//! time. An event without timing and one with are two types, so that asking an untimed one for
//! the time does not compile.
#![forbid(unsafe_code)]

use super::callback;
use super::device::{Device, Shared};
use super::lane::{LaneRef, Mark};
use super::noted::Noted;
use super::queue::Stream;
use super::ready::{Point, Ready};
use crate::base::clock::VectorClock;
use crate::base::error::Result;
use crate::base::id::Position;
use crate::base::ledger::{Named, StreamClass, Waited};
use crate::base::mutant;
use crate::base::units::Nanos;
use crate::device::driver::{Driver, EventHandle, Readiness, Timing};
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

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
    timing: Timing,
    name: Option<String>,
    /// The last record. The lock is held across the driver's call that records or waits in a
    /// stream, so that the driver and the clock always agree.
    last: Mutex<Arc<Record>>,
}

/// An event of the driver with its one record. Who waits for the record keeps a share: then the
/// next record takes a new event, and the two are never confused.
#[derive(Debug)]
pub(crate) struct Record {
    device: Arc<Shared>,
    pub(crate) event: EventHandle,
    stands_for: Option<(Position, VectorClock)>,
}

impl Record {
    fn new(device: &Arc<Shared>, timing: Timing) -> Result<Self> {
        let event = device.universe.driver.event_create(device.id, timing)?;
        Ok(Self { device: Arc::clone(device), event, stands_for: None })
    }

    /// What is complete when the event is.
    pub(crate) fn snapshot(&self) -> Option<&VectorClock> {
        self.stands_for.as_ref().map(|(_, clock)| clock)
    }

    /// The calling thread waits or asks for the event, and so for its last record.
    fn note(&self, site: &'static Location<'static>) -> Noted<'_> {
        self.note_as(Waited::Event(self.event.0), site)
    }

    /// The calling thread asks for this record, whichever is the last one by now.
    pub(crate) fn note_recorded(&self, site: &'static Location<'static>) -> Noted<'_> {
        self.note_as(Waited::Recorded(self.event.0), site)
    }

    fn note_as(&self, what: Waited, site: &'static Location<'static>) -> Noted<'_> {
        let position = self.stands_for.as_ref().map(|(position, _)| *position);
        let on = (self.device.id, StreamClass::NonBlocking, position);
        self.device.universe.note_sync(what, on, site)
    }

    /// The calling thread has observed it to be complete.
    fn learn(&self) {
        if let Some(clock) = self.snapshot() {
            self.device.universe.learn(clock);
        }
    }
}

impl Recorded {
    fn new(device: &Device, timing: Timing) -> Result<Self> {
        callback::refuse("event create")?;
        let device = Arc::clone(device.shared());
        let first = Record::new(&device, timing).map_err(|error| device.failed(error))?;
        let last = Mutex::new(Arc::new(first));
        Ok(Self { device, timing, name: None, last })
    }

    #[track_caller]
    fn record(&self, stream: &Stream) -> Result<()> {
        callback::refuse("event record")?;
        stream.lane().universe.own("event record", self.device.universe.id)?;
        self.record_on(stream.lane(), Location::caller())
            .map_err(|error| self.device.universe.failed(self.device.id, error))
    }

    fn record_on(&self, lane: &LaneRef, site: &'static Location<'static>) -> Result<()> {
        let mut last = self.lock();
        let record = |driver: &dyn Driver, stream, event| driver.event_record(event, stream);
        let Some(own) = Arc::get_mut(&mut last) else {
            // Somebody holds the last record. It stands if this one is refused.
            let mut next = Record::new(&self.device, self.timing)?;
            let event = next.event;
            let on = |driver: &dyn Driver, stream| record(driver, stream, event);
            next.stands_for = Some(lane.record_event(event, site, on)?);
            *last = Arc::new(next);
            self.tell_name(event);
            return Ok(());
        };
        let event = own.event;
        let on = |driver: &dyn Driver, stream| record(driver, stream, event);
        let stands_for = lane.record_event(event, site, on)?;
        if own.stands_for.is_none() || !mutant::on(28, "an event keeps its first record") {
            own.stands_for = Some(stands_for);
        }
        Ok(())
    }

    fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self.tell_name(self.last().event);
        self
    }

    fn tell_name(&self, event: EventHandle) {
        if let Some(name) = &self.name {
            let recorders = &self.device.universe.recorders;
            recorders.name_object(Named::Event(event.0), self.device.id, name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Record>> {
        self.last.lock().expect("no panic under this lock")
    }

    fn last(&self) -> Arc<Record> {
        Arc::clone(&self.lock())
    }

    #[track_caller]
    fn synchronize(&self) -> Result<()> {
        callback::refuse("event synchronize")?;
        let last = self.last();
        let noted = last.note(Location::caller());
        let synchronized = self.device.universe.driver.event_synchronize(last.event);
        synchronized.map_err(|error| noted.failed(error))?;
        noted.succeeded();
        last.learn();
        Ok(())
    }

    #[track_caller]
    fn ready(&self) -> Ready {
        let site = Location::caller();
        let record = callback::refuse("ready").map(|()| {
            let last = self.last();
            // Which record is the last one is asked here, and nothing of its work.
            drop(last.note(site));
            Some(Point::Record(last))
        });
        Ready::new(&self.device, record)
    }

    #[track_caller]
    fn query(&self) -> Result<Readiness> {
        callback::refuse("event query")?;
        let last = self.last();
        let noted = last.note(Location::caller());
        let answer = self.device.universe.driver.event_query(last.event);
        let readiness = answer.map_err(|error| noted.failed(error))?;
        if readiness == Readiness::Ready {
            noted.succeeded();
            last.learn();
        }
        Ok(readiness)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let (universe, event, device) = (&self.device.universe, self.event, self.device.id);
        if callback::inside() {
            let universe = Arc::clone(universe);
            let destroy = move || drop(universe.destroy(event, device));
            self.device.defer(Box::new(destroy));
        } else if let Err(error) = universe.destroy(event, device) {
            self.device.keep_error(error);
        }
    }
}

macro_rules! event_verbs {
    ($type:ident) => {
        impl $type {
            /// Gives the event a name, which findings use.
            #[must_use]
            pub fn named(self, name: &str) -> Self {
                Self(self.0.named(name))
            }

            /// Makes the event stand for everything enqueued in `stream` so far. A second record
            /// overwrites the first; waits already enqueued keep what they had.
            ///
            /// # Errors
            /// `InvalidValue` when the stream is of another device or driver.
            #[track_caller]
            pub fn record(&self, stream: &Stream) -> Result<()> {
                self.0.record(stream)
            }

            /// Waits until what it stands for is complete.
            ///
            /// # Errors
            /// The error of work that failed, or `Stalled`.
            #[track_caller]
            pub fn synchronize(&self) -> Result<()> {
                self.0.synchronize()
            }

            /// Whether what it stands for is complete. Never blocks.
            ///
            /// # Errors
            /// The error of work that failed.
            #[track_caller]
            pub fn query(&self) -> Result<Readiness> {
                self.0.query()
            }

            /// A future of what it stands for at this call; a later record does not change that.
            ///
            /// # Errors
            /// The future ends with the error of work that failed, or with `Stalled`.
            #[track_caller]
            pub fn ready(&self) -> Ready {
                self.0.ready()
            }
        }
    };
}

event_verbs!(Event);
event_verbs!(TimedEvent);

impl Event {
    pub(crate) fn make_wait(&self, lane: &LaneRef, site: &'static Location<'static>) -> Result<()> {
        lane.universe.own("stream wait", self.0.device.universe.id)?;
        let last = self.0.lock();
        match &last.stands_for {
            Some((on, clock)) => lane.wait_event(last.event, (*on, clock), site),
            // Law A5: nothing was recorded, so there is nothing to wait for.
            None => {
                lane.note_wait_for_nothing(last.event, site);
                Ok(())
            }
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
        let (from, to) = (earlier.0.last(), self.0.last());
        self.0.device.universe.driver.event_elapsed(from.event, to.event)
    }
}

impl TimedEvent {
    /// The driver's handle of the last record.
    pub(crate) fn handle(&self) -> EventHandle {
        self.0.last().event
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
    device: Arc<Shared>,
    mark: Option<Arc<Mark>>,
}

impl Ticket {
    pub(crate) fn new(device: &Arc<Shared>, mark: Option<Arc<Mark>>) -> Self {
        Self { device: Arc::clone(device), mark }
    }

    /// Waits for the work.
    ///
    /// # Errors
    /// The error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn wait(&self) -> Result<()> {
        callback::refuse("ticket wait")?;
        match &self.mark {
            Some(mark) => self.device.universe.host_wait(mark, Location::caller()),
            None => Ok(()),
        }
    }

    /// Whether the work is complete. Never blocks.
    ///
    /// # Errors
    /// The error of work that failed.
    #[track_caller]
    pub fn query(&self) -> Result<Readiness> {
        callback::refuse("ticket query")?;
        let Some(mark) = &self.mark else { return Ok(Readiness::Ready) };
        let noted = self.device.universe.note_mark(mark, Location::caller());
        let answer = self.device.universe.driver.event_query(mark.event);
        let readiness = answer.map_err(|error| noted.failed(error))?;
        if readiness == Readiness::Ready {
            noted.succeeded();
            self.device.universe.learn(&mark.snapshot);
        }
        Ok(readiness)
    }

    /// A future of the work, to be awaited on any thread.
    ///
    /// # Errors
    /// The future ends with the error of work that failed, or with `Stalled`.
    #[track_caller]
    pub fn ready(&self) -> Ready {
        Ready::new(&self.device, Ok(self.mark.clone().map(Point::Mark)))
    }
}
