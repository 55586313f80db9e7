//! A record of an event of the program: an event of the driver, and the work that it stands for.
#![forbid(unsafe_code)]

use super::completion::Awaited;
use super::shared::OpenDevice;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::base::ledger::{StreamClass, Waited};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, Timing};
use crate::log::calling;
use crate::log::entry::HostWait;
use crate::order::mark::{EventWork, Mark};
use std::panic::Location;
use std::sync::Arc;

/// An event of the driver, and the last record of this event. Each wait for this record holds an
/// `Arc` of this value. While a wait holds an `Arc`, the next record of the program's event uses
/// another event of the driver. So a wait never waits for a later record by mistake.
#[derive(Debug)]
pub(crate) struct Record {
    device: Arc<OpenDevice>,
    pub(super) handle: EventHandle,
    /// The work for which the event stands; `None` until the event is recorded.
    pub(super) stands_for: Option<EventWork>,
}

impl Record {
    pub(super) fn new(device: &Arc<OpenDevice>, timing: Timing) -> Result<Self> {
        let handle = device.domain.driver().event_create(device.id, timing)?;
        Ok(Self { device: Arc::clone(device), handle, stands_for: None })
    }

    /// The work that is complete when the event is complete; `None` until the event is recorded.
    pub(crate) fn snapshot(&self) -> Option<&VectorClock> {
        self.stands_for.as_ref().map(|work| &work.clock)
    }

    /// Appends a ledger entry: the calling thread waits for the event or queries the event. The
    /// entry means the last record of the event.
    pub(super) fn note(&self, site: &'static Location<'static>) -> HostWait<'_> {
        self.note_as(Waited::Event(self.handle.0), site)
    }

    /// Appends a ledger entry: the calling thread queries this record. The event may have a later
    /// record.
    pub(crate) fn note_recorded(&self, site: &'static Location<'static>) -> HostWait<'_> {
        self.note_as(Waited::Recorded(self.handle.0), site)
    }

    fn note_as(&self, what: Waited, site: &'static Location<'static>) -> HostWait<'_> {
        let position = self.stands_for.as_ref().map(|work| work.position);
        let log = self.device.domain.log();
        log.note_sync(what, self.device.id, StreamClass::NonBlocking, position, site)
    }

    /// Tells the calling thread that the work of the record is complete.
    pub(super) fn learn(&self) {
        if let Some(clock) = self.snapshot() {
            self.device.domain.learn(clock);
        }
    }

    /// The device and the driver's event.
    pub(super) fn event(&self) -> (DeviceId, EventHandle) {
        (self.device.id, self.handle)
    }
}

impl Awaited for Record {
    fn event(&self) -> (DeviceId, EventHandle) {
        Self::event(self)
    }
}

impl Awaited for Mark {
    fn event(&self) -> (DeviceId, EventHandle) {
        (self.device, self.event)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let (domain, event, device) = (&self.device.domain, self.handle, self.device.id);
        if calling::inside() {
            let domain = Arc::clone(domain);
            let destroy = move || drop(domain.destroy_event(event, device));
            self.device.defer(Box::new(destroy));
        } else if let Err(error) = domain.destroy_event(event, device) {
            self.device.keep_error(error);
        }
    }
}
