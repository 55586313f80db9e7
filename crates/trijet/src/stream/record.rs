//! A record of a user's event.
#![forbid(unsafe_code)]

use super::completion::Awaited;
use super::shared::Shared;
use crate::base::error::Result;
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::{StreamClass, Waited};
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, Timing};
use crate::log::calling;
use crate::log::entry::HostWait;
use crate::order::mark::Mark;
use std::panic::Location;
use std::sync::Arc;

/// An event of the driver with its one record. Who waits for the record keeps a share: then the
/// next record takes a new event, and the two are never confused.
#[derive(Debug)]
pub(crate) struct Record {
    device: Arc<Shared>,
    pub(super) handle: EventHandle,
    pub(super) stands_for: Option<(Position, VectorClock)>,
}

impl Record {
    pub(super) fn new(device: &Arc<Shared>, timing: Timing) -> Result<Self> {
        let handle = device.domain.driver().event_create(device.id, timing)?;
        Ok(Self { device: Arc::clone(device), handle, stands_for: None })
    }

    /// What is complete when the event is.
    pub(crate) fn snapshot(&self) -> Option<&VectorClock> {
        self.stands_for.as_ref().map(|(_, clock)| clock)
    }

    /// The calling thread waits or asks for the event, and so for its last record.
    pub(super) fn note(&self, site: &'static Location<'static>) -> HostWait<'_> {
        self.note_as(Waited::Event(self.handle.0), site)
    }

    /// The calling thread asks for this record, whichever is the last one by now.
    pub(crate) fn note_recorded(&self, site: &'static Location<'static>) -> HostWait<'_> {
        self.note_as(Waited::Recorded(self.handle.0), site)
    }

    fn note_as(&self, what: Waited, site: &'static Location<'static>) -> HostWait<'_> {
        let position = self.stands_for.as_ref().map(|(position, _)| *position);
        let on = (self.device.id, StreamClass::NonBlocking, position);
        self.device.domain.log().note_sync(what, on, site)
    }

    /// The calling thread has observed it to be complete.
    pub(super) fn learn(&self) {
        if let Some(clock) = self.snapshot() {
            self.device.domain.learn(clock);
        }
    }

    /// The driver's event, with its device.
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
