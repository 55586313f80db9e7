//! Events: points in a stream that other streams and the host can wait for.
//!
//! Uses of buffers are ordered without events of the program. Events are for work that the library
//! does not see, and for measuring time. Events with and without timing are two types, so a program
//! that asks an untimed event for its time does not compile.
#![forbid(unsafe_code)]

use super::device::Device;
use super::ready::{Point, Ready};
use super::record::Record;
use super::shared::OpenDevice;
use super::stream::Stream;
use crate::base::error::Result;
use crate::base::ledger::Named;
use crate::base::units::Nanos;
use crate::device::driver::{EventHandle, Readiness, Timing};
use crate::log::calling;
use crate::order::lane_ref::LaneRef;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

/// A point in a stream (laws [A4](crate::laws#a4) to [A8](crate::laws#a8)). Before its first
/// record, an event stands for no work, and a wait for the event has no effect (law
/// [A5](crate::laws#a5)).
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
pub struct Event(RecordedEvent);

/// An event that also stores the time at which it completed.
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
pub struct TimedEvent(RecordedEvent);

#[derive(Debug)]
struct RecordedEvent {
    device: Arc<OpenDevice>,
    timing: Timing,
    name: Option<String>,
    /// The last record. The lock is held while the driver records the event or makes a stream wait
    /// for the event. So the driver's event and the positions in the record always belong together.
    last: Mutex<Arc<Record>>,
}

impl RecordedEvent {
    fn new(device: &Device, timing: Timing) -> Result<Self> {
        calling::refuse("event create")?;
        let device = Arc::clone(device.shared());
        let first = Record::new(&device, timing).map_err(|error| device.failed(error))?;
        let last = Mutex::new(Arc::new(first));
        Ok(Self { device, timing, name: None, last })
    }

    #[track_caller]
    fn record(&self, stream: &Stream) -> Result<()> {
        calling::refuse("event record")?;
        stream.lane().domain.own("event record", self.device.domain.id())?;
        self.record_on(stream.lane(), Location::caller())
            .map_err(|error| self.device.domain.failed(self.device.id, error))
    }

    fn record_on(&self, lane: &LaneRef, site: &'static Location<'static>) -> Result<()> {
        let mut last = self.lock();
        let Some(own) = Arc::get_mut(&mut last) else {
            // A wait still needs the last record, so the event of the last record is not recorded
            // again. The new record has an event of its own. If the driver refuses the new record,
            // the last record stays.
            let mut next = Record::new(&self.device, self.timing)?;
            next.stands_for = Some(lane.record_event(next.handle, site)?);
            self.note_name(next.handle);
            *last = Arc::new(next);
            return Ok(());
        };
        own.stands_for = Some(lane.record_event(own.handle, site)?);
        Ok(())
    }

    fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self.note_name(self.last().handle);
        self
    }

    fn note_name(&self, event: EventHandle) {
        if let Some(name) = &self.name {
            let tracers = &self.device.domain.log().tracers;
            tracers.name_object(Named::Event(event.0), self.device.id, name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Record>> {
        self.last.lock().expect("no thread panicked while it held this lock")
    }

    fn last(&self) -> Arc<Record> {
        Arc::clone(&self.lock())
    }

    #[track_caller]
    fn synchronize(&self) -> Result<()> {
        calling::refuse("event synchronize")?;
        let last = self.last();
        let noted = last.note(Location::caller());
        let (device, event) = last.event();
        let synchronized = self.device.domain.gate.synchronize_event(device, event);
        synchronized.map_err(|error| self.device.failed(error))?;
        noted.succeeded();
        last.learn();
        Ok(())
    }

    #[track_caller]
    fn ready(&self) -> Ready {
        let site = Location::caller();
        let record = calling::refuse("ready").map(|()| {
            let last = self.last();
            // This entry shows which record is the last one. The entry does not show that the work
            // is complete.
            drop(last.note(site));
            Some(Point::Record(last))
        });
        Ready::new(&self.device, record)
    }

    #[track_caller]
    fn query(&self) -> Result<Readiness> {
        calling::refuse("event query")?;
        let last = self.last();
        let noted = last.note(Location::caller());
        let (device, event) = last.event();
        let answer = self.device.domain.gate.query_event(device, event);
        let readiness = answer.map_err(|error| self.device.failed(error))?;
        if readiness == Readiness::Ready {
            noted.succeeded();
            last.learn();
        }
        Ok(readiness)
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

            /// Makes the event stand for the work that is in `stream` at this call (law
            /// [A4](crate::laws#a4)). A second record replaces the first one. Waits that were
            /// enqueued before the second record still wait for the first one.
            ///
            /// # Errors
            /// `InvalidValue` if the stream belongs to another device or driver (law
            /// [A6](crate::laws#a6)); an error of the driver.
            #[track_caller]
            pub fn record(&self, stream: &Stream) -> Result<()> {
                self.0.record(stream)
            }

            /// Waits until the work that the event stands for is complete (law
            /// [A8](crate::laws#a8)). Returns at once if the event was never recorded.
            ///
            /// # Errors
            /// The error of work that failed, or `Stalled`.
            #[track_caller]
            pub fn synchronize(&self) -> Result<()> {
                self.0.synchronize()
            }

            /// Whether the work that the event stands for is complete (law [A8](crate::laws#a8)).
            /// Never blocks.
            ///
            /// # Errors
            /// The error of work that failed.
            #[track_caller]
            pub fn query(&self) -> Result<Readiness> {
                self.0.query()
            }

            /// A future of the work for which the event stands at this call. A later record does
            /// not change the future.
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
    /// The device, and the driver's handle of the last record.
    pub(super) fn raw(&self) -> (&Arc<OpenDevice>, EventHandle) {
        (&self.0.device, self.0.last().handle)
    }

    pub(crate) fn enqueue_wait(
        &self,
        lane: &LaneRef,
        site: &'static Location<'static>,
    ) -> Result<()> {
        lane.domain.own("stream wait", self.0.device.domain.id())?;
        let last = self.0.lock();
        match &last.stands_for {
            Some(work) => lane.wait_event(last.handle, Some(work), site),
            // Law A5: the event was never recorded, so there is no work to wait for.
            None => {
                lane.note_wait_for_nothing(last.handle, site);
                Ok(())
            }
        }
    }
}

impl TimedEvent {
    /// The time from `earlier` to this event. Both events must be complete.
    ///
    /// # Errors
    /// `InvalidValue` if one of the events was never recorded (law [A5](crate::laws#a5)), or if the
    /// events belong to two drivers; an error of the driver.
    pub fn elapsed_since(&self, earlier: &Self) -> Result<Nanos> {
        calling::refuse("event elapsed")?;
        self.0.device.domain.own("event elapsed", earlier.0.device.domain.id())?;
        let (from, to) = (earlier.0.last(), self.0.last());
        self.0.device.domain.driver().event_elapsed(from.handle, to.handle)
    }
}

impl TimedEvent {
    /// The driver's handle of the last record.
    pub(crate) fn handle(&self) -> EventHandle {
        self.0.last().handle
    }
}

impl Device {
    /// A new event without timing.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn event(&self) -> Result<Event> {
        RecordedEvent::new(self, Timing::Off).map(Event)
    }

    /// A new event with timing.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn timed_event(&self) -> Result<TimedEvent> {
        RecordedEvent::new(self, Timing::On).map(TimedEvent)
    }
}

impl Stream {
    /// Makes later work of this stream wait for the work for which `event` stands at this call (law
    /// [A7](crate::laws#a7)). Rarely needed, because the uses of buffers are ordered without
    /// events.
    ///
    /// # Errors
    /// `InvalidValue` for an event of another driver; an error of the driver.
    #[track_caller]
    pub fn wait(&self, event: &Event) -> Result<()> {
        calling::refuse("stream wait")?;
        let waits = event.enqueue_wait(self.lane(), Location::caller());
        waits.map_err(|error| self.device().failed(error))
    }
}
