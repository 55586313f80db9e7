//! Timed events for traces.
#![forbid(unsafe_code)]

use super::calling;
use crate::base::error::Result;
use crate::base::id::DeviceId;
use crate::device::driver::{Driver, EventHandle, Timing};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A timed event, which is destroyed when its last holder is dropped.
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
        // Destroying never blocks (law A12). After a context loss there is nothing to destroy.
        drop(self.driver.event_destroy(self.event));
    }
}

/// Timed events for reuse, whose times have been read. Creating an event costs more than most of
/// the operations that are timed.
#[derive(Debug, Default)]
pub(crate) struct Instants(Mutex<BTreeMap<DeviceId, Vec<Arc<Instant>>>>);

impl Instants {
    /// Maximum number of events that are kept per device.
    const KEPT_MAX: usize = 4096;
    /// Maximum number of events that a lane takes at once.
    const TAKEN_MAX: usize = 64;

    /// Returns a timed event of `device` to record. Prefers an event in `ready`, a list of events
    /// that the lane took before. If the list is empty, fills it with kept events. Without kept
    /// events, creates one.
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

    /// Keeps an event whose time has been read, unless it has another holder.
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
        self.0.lock().expect("no panic under this lock")
    }
}
