//! Timed events for traces.
#![forbid(unsafe_code)]

use super::calling;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{Driver, EventHandle, Timing};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A timed event. The event is destroyed when its last owner is dropped.
#[derive(Debug)]
pub(crate) struct Instant {
    driver: Arc<dyn Driver>,
    device: DeviceId,
    pub(crate) event: EventHandle,
}

impl Drop for Instant {
    fn drop(&mut self) {
        if calling::inside() {
            return;
        }
        // The destruction of an event never blocks (law A12). After a context loss there is nothing
        // to destroy.
        drop(self.driver.event_destroy(self.event));
    }
}

/// Timed events for reuse: their times have been read. The creation of an event costs more than
/// most of the operations that are timed.
#[derive(Debug, Default)]
pub(crate) struct Instants(Mutex<BTreeMap<DeviceId, Vec<Arc<Instant>>>>);

impl Instants {
    /// Maximum number of events that are kept per device.
    const KEPT_MAX: usize = 4096;
    /// Maximum number of kept events that a lane takes at once.
    const TAKEN_MAX: usize = 64;

    /// Returns a timed event of `device`, which the caller will record. Takes an event from
    /// `ready`, the events that the lane has in reserve. If `ready` is empty, first fills it with
    /// kept events. If no events are kept, creates an event.
    pub(crate) fn take(
        &self,
        driver: &Arc<dyn Driver>,
        device: DeviceId,
        ready: &mut Vec<Arc<Instant>>,
    ) -> Result<Arc<Instant>> {
        if ready.is_empty()
            && let Some(kept) = self.lock().get_mut(&device)
        {
            ready.extend(kept.drain(kept.len().saturating_sub(Self::TAKEN_MAX)..));
        }
        if let Some(instant) = ready.pop() {
            return Ok(instant);
        }
        let event = driver.event_create(device, Timing::On)?;
        Ok(Arc::new(Instant { driver: Arc::clone(driver), device, event }))
    }

    /// Keeps an event for reuse after its time was read, unless the event has another owner.
    pub(super) fn give_back(&self, instant: Arc<Instant>) {
        if Arc::strong_count(&instant) == 1 {
            let mut all = self.lock();
            let kept = all.entry(instant.device).or_default();
            if kept.len() < Self::KEPT_MAX {
                kept.push(instant);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<DeviceId, Vec<Arc<Instant>>>> {
        self.0.lock().expect("no thread panicked while it held this lock")
    }
}
