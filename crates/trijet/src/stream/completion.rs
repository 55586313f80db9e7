//! The completion thread of a device. It wakes tasks when the events for which the tasks wait are
//! complete.
//!
//! Each task that waits for an event has an entry on the list of the completion thread. *No wake-up
//! is missed*, because an entry stays on the list until the thread has found the event of the entry
//! complete. If the event completes after the query of a task and before the task makes its entry,
//! the thread finds the event complete at the next query. The thread removes the entry and takes
//! the waker of the entry in one step, under the lock of the list. A task that is polled before
//! this step replaces the waker that will be woken. A task that is polled after this step either
//! finds the event complete or makes a new entry. The thread waits without a limit only while the
//! list is empty. The thread checks for an empty list under the same lock under which entries are
//! made.
//!
//! *Lifetime.* The drop of a device tells the completion thread to end, and does not wait for the
//! thread. Wakers are code of the user: they are cloned, called and dropped while no lock is held,
//! and the thread catches their panics.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{EventHandle, PollProgress};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::gate::Gate;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

/// The time between two queries of pending events. Linux delays a timed wait by up to 50 us (its
/// default timer slack). So a shorter interval would cost processor time and gain little. A copy of
/// a few MiB takes about 50 us, so a longer interval would be noticeable after such a copy.
const POLL_INTERVAL: Duration = Duration::from_micros(50);

/// The number of an entry on the list of the completion thread. No later entry has the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(u64);

/// An event for which tasks wait. The event is not recorded again while an `Arc` of this value
/// exists.
pub(super) trait Awaited: Send + Sync {
    fn event(&self) -> (DeviceId, EventHandle);
}

/// A task that waits for an event.
struct WaitingTask {
    point: Arc<dyn Awaited>,
    waker: Waker,
}

#[derive(Default)]
struct WaitList {
    entries: BTreeMap<EntryId, WaitingTask>,
    /// The last number that an entry got.
    made: u64,
    started: bool,
    ended: bool,
}

/// The state that a device and its completion thread share.
#[derive(Default)]
struct Watch {
    list: Mutex<WaitList>,
    changed: Condvar,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, WaitList> {
        self.list.lock().expect("no user code runs under this lock")
    }
}

/// The completion thread of a device. The thread starts when a future first needs it.
#[derive(Default)]
pub(crate) struct Completion(Arc<Watch>);

impl Completion {
    /// Makes an entry: `waker` is woken when `point` is complete or has failed. The entry replaces
    /// the entry `id`, unless `id` is `None`.
    pub(super) fn enter(
        &self,
        id: Option<EntryId>,
        domain: &Arc<Domain>,
        point: &Arc<dyn Awaited>,
        waker: &Waker,
    ) -> Result<EntryId> {
        let same = |entry: &WaitingTask| {
            entry.point.event() == point.event() && entry.waker.will_wake(waker)
        };
        if let Some(id) = id
            && self.0.lock().entries.get(&id).is_some_and(same)
        {
            return Ok(id);
        }
        let entry = WaitingTask { point: Arc::clone(point), waker: waker.clone() };
        let mut list = self.0.lock();
        if !list.started {
            self.start(domain)?;
            list.started = true;
        }
        let id = id.unwrap_or_else(|| {
            list.made += 1;
            EntryId(list.made)
        });
        let replaced = list.entries.insert(id, entry);
        drop(list);
        self.0.changed.notify_one();
        drop(replaced);
        Ok(id)
    }

    /// Takes an entry off the list and returns its waker, if the entry is still there.
    pub(super) fn take(&self, id: EntryId) -> Option<Waker> {
        self.0.lock().entries.remove(&id).map(|entry| entry.waker)
    }

    fn start(&self, domain: &Arc<Domain>) -> Result<()> {
        let (watch, gate) = (Arc::clone(&self.0), Arc::clone(&domain.gate));
        let thread = std::thread::Builder::new().name("trijet-ready".to_owned());
        thread.spawn(move || run(&watch, &gate)).map(drop).map_err(|cause| {
            Error::new(
                ErrorKind::Unsupported,
                "ready",
                "the thread that watches events cannot be started",
            )
            .caused_by(cause)
        })
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        self.0.lock().ended = true;
        self.0.changed.notify_one();
    }
}

/// The body of the completion thread.
fn run(watch: &Watch, gate: &Gate) {
    let mut pending = Vec::new();
    let mut list = watch.lock();
    while !list.ended {
        if list.entries.is_empty() {
            list = watch.changed.wait(list).expect("no user code runs under this lock");
            continue;
        }
        pending.extend(list.entries.iter().map(|(id, entry)| (*id, Arc::clone(&entry.point))));
        drop(list);
        for (id, point) in pending.drain(..) {
            wake_if_over(watch, gate, id, &*point);
        }
        list = watch.lock();
        if !list.ended && !list.entries.is_empty() {
            let waited = watch.changed.wait_timeout(list, POLL_INTERVAL);
            list = waited.expect("no user code runs under this lock").0;
        }
    }
}

/// Wakes the task of an entry if `point` is complete or has failed. If `point` has failed, the next
/// poll of the task returns the error.
fn wake_if_over(watch: &Watch, gate: &Gate, id: EntryId, point: &dyn Awaited) {
    let (device, event) = point.event();
    if matches!(gate.poll_event(device, event), Ok(PollProgress::Later)) {
        return;
    }
    let mut list = watch.lock();
    // The entry may have been removed by now, or may now wait for another point of the same future.
    let entered = list.entries.get(&id).is_some_and(|now| now.point.event() == point.event());
    let entry = if entered { list.entries.remove(&id) } else { None };
    drop(list);
    if let Some(entry) = entry
        && let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry.waker.wake()))
    {
        // This thread has no caller that could get the panic, and the drop of its payload may panic
        // again. So the payload leaks.
        std::mem::forget(panic);
    }
}
