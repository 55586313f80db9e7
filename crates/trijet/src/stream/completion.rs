//! The completion thread of a device: wakes tasks when the events they wait for are complete.
//!
//! *No wake-up is missed*, because no task depends on a signal that is given once. An entry stays on
//! the list until the thread has found its event complete, whenever that happened: a completion
//! between a task's look and its entry is found at the thread's next look. The entry leaves the
//! list and its waker is taken in one step under the lock of the list; a task that is polled
//! before that step replaces the waker that will be woken, and one polled after it either finds
//! the event complete or makes a new entry. The thread rests only while the list is empty, which
//! it sees under the lock under which entries are made.
//!
//! *Lives.* The thread ends when its device is dropped; it is told to, and the drop does not wait for
//! it. Wakers are code of the user: they are cloned, called and dropped under no lock, and their panics
//! end here.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::device::driver::{EventHandle, Progress};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::gate::Gate;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

/// How long the completion thread rests between two looks at pending events. The kernel delays a
/// timed wait by up to 50 microseconds anyway (the default timer slack of Linux), so a shorter
/// rest would cost processor time and gain little; a longer one would show beside a copy of a few
/// MiB, which takes about as long.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// Names an entry; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryId(u64);

/// An event that tasks wait for. While it is held, the event is not recorded again.
pub(super) trait Awaited: Send + Sync {
    fn event(&self) -> (DeviceId, EventHandle);
}

/// A task that waits for an event.
struct Entry {
    point: Arc<dyn Awaited>,
    waker: Waker,
}

#[derive(Default)]
struct List {
    entries: BTreeMap<EntryId, Entry>,
    made: u64,
    started: bool,
    ended: bool,
}

/// What a device and its completion thread share.
#[derive(Default)]
struct Watch {
    list: Mutex<List>,
    changed: Condvar,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().expect("no user code runs under this lock")
    }
}

/// The completion thread of a device, once a future needed it.
#[derive(Default)]
pub(crate) struct Completion(Arc<Watch>);

impl Completion {
    /// Has `waker` woken when `point` is complete or has failed, instead of what the entry `id`
    /// asked for.
    pub(super) fn enter(
        &self,
        id: Option<EntryId>,
        domain: &Arc<Domain>,
        point: &Arc<dyn Awaited>,
        waker: &Waker,
    ) -> Result<EntryId> {
        let same =
            |entry: &Entry| entry.point.event() == point.event() && entry.waker.will_wake(waker);
        if let Some(id) = id
            && self.0.lock().entries.get(&id).is_some_and(same)
        {
            return Ok(id);
        }
        let entry = Entry { point: Arc::clone(point), waker: waker.clone() };
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

    /// Takes an entry off the list, if it is there.
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

/// The completion thread.
fn run(watch: &Watch, gate: &Gate) {
    let mut looks = Vec::new();
    let mut list = watch.lock();
    while !list.ended {
        if list.entries.is_empty() {
            list = watch.changed.wait(list).expect("no user code runs under this lock");
            continue;
        }
        looks.extend(list.entries.iter().map(|(id, entry)| (*id, Arc::clone(&entry.point))));
        drop(list);
        for (id, point) in looks.drain(..) {
            look(watch, gate, id, &*point);
        }
        list = watch.lock();
        if !list.ended && !list.entries.is_empty() {
            let rested = watch.changed.wait_timeout(list, LOOK_AGAIN);
            list = rested.expect("no user code runs under this lock").0;
        }
    }
}

/// Wakes the task when its point is complete or cannot be any more: it will be told why.
fn look(watch: &Watch, gate: &Gate, id: EntryId, point: &dyn Awaited) {
    let (device, event) = point.event();
    if matches!(gate.poll_event(device, event), Ok(Progress::Later)) {
        return;
    }
    let mut list = watch.lock();
    // It may be gone, or wait for its next point by now.
    let entered = list.entries.get(&id).is_some_and(|now| now.point.event() == point.event());
    let entry = if entered { list.entries.remove(&id) } else { None };
    drop(list);
    if let Some(entry) = entry
        && let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry.waker.wake()))
    {
        // Nobody here could be told, and dropping it may panic again.
        std::mem::forget(panic);
    }
}
