//! Futures: to await what a thread could wait for, under any executor.
//!
//! A future asks the driver when it is polled ([`Driver::event_poll`]). Where time passes by
//! itself, an answer of "later" puts the event and the task's waker on the list of the device's
//! completion thread, which looks at the events of the list and wakes. Where time is simulated,
//! the poll itself advances the simulation and the task is woken at once: no thread is needed.
//!
//! *No wake-up is missed*, because nobody waits for a signal that is given once. An entry stays on
//! the list until the thread has found its event complete, whenever that happened: completion
//! between a task's look and its entry is found at the thread's next look. The entry leaves the
//! list and its waker is taken in one step under the lock of the list; a task that is polled
//! before that step replaces the waker that will be woken, and one polled after it either finds
//! the event complete or makes a new entry. The thread rests only while the list is empty, which
//! it sees under the lock under which entries are made.
//!
//! *What a poll teaches.* The thread that polls and gets the result knows the work that the future
//! stands for to be complete, as after a successful query (law A8), and not what the thread knew that
//! made the future (law A46). The completion thread's looks teach nobody.
//!
//! *Lives.* A future holds its device, so the device drops when no future is left, the list is
//! empty, and the thread can end; it is told to, and nobody waits until it has. Wakers are code of
//! the user: they are cloned, called and dropped under no lock, and their panics end there.
//!
//! Imports: `base`, `device`. Imported by `memory`.
#![forbid(unsafe_code)]

use super::callback;
use super::device::Shared;
use super::event::Record;
use super::lane::Mark;
use super::noted::Noted;
use super::universe::Universe;
use crate::base::clock::VectorClock;
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::{Driver, EventHandle, Progress};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, Location, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// How long the completion thread rests between two looks at pending events. The kernel delays a
/// timed wait by up to 50 microseconds anyway (the default timer slack of Linux), so a shorter
/// rest would cost processor time and gain little; a longer one would show beside a copy of a few
/// MiB, which takes about as long.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

/// What a future waits for: an event that is recorded no second time while somebody holds it.
#[derive(Debug, Clone)]
pub(crate) enum Point {
    /// An event of the ordering.
    Mark(Arc<Mark>),
    /// A record of a user's event.
    Record(Arc<Record>),
}

impl Point {
    fn event(&self) -> EventHandle {
        match self {
            Self::Mark(mark) => mark.event,
            Self::Record(record) => record.event,
        }
    }

    fn note<'a>(&'a self, universe: &'a Universe, site: &'static Location<'static>) -> Noted<'a> {
        match self {
            Self::Mark(mark) => universe.note_mark(mark, site),
            Self::Record(record) => record.note_recorded(site),
        }
    }

    fn snapshot(&self) -> Option<&VectorClock> {
        match self {
            Self::Mark(mark) => Some(&mark.snapshot),
            Self::Record(record) => record.snapshot(),
        }
    }
}

/// Points to wait for, mostly one.
pub(crate) type Points = SmallVec<[Point; 2]>;

/// Waits for points without blocking: what every future here is made of.
pub(crate) struct Waiting {
    device: Arc<Shared>,
    points: Points,
    /// So many of them were seen to be complete.
    complete: usize,
    /// Why it could not be made.
    failed: Option<Error>,
    /// Where it was made.
    site: &'static Location<'static>,
    /// The entry on the list of the completion thread, which may be gone from there.
    entry: Option<EntryId>,
}

impl Waiting {
    /// Waits for `points`.
    pub(crate) fn new(
        device: &Arc<Shared>,
        points: Result<Points>,
        site: &'static Location<'static>,
    ) -> Self {
        let (points, failed) = match points {
            Ok(points) => (points, None),
            Err(error) => (Points::new(), Some(error)),
        };
        let device = Arc::clone(device);
        Self { device, points, complete: 0, failed, site, entry: None }
    }

    /// Asks once; the calling thread knows what it asked for when the answer is good. After a
    /// result it may be asked again.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        let answer = self.ask(context);
        if answer.is_ready() {
            self.leave();
        }
        answer
    }

    fn ask(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        callback::refuse("ready")?;
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.again()));
        }
        let universe = &self.device.universe;
        while let Some(point) = self.points.get(self.complete) {
            let progress = universe.driver.event_poll(point.event());
            match progress.map_err(|error| self.device.failed(error))? {
                Progress::Ready => {
                    point.note(universe, self.site).succeeded();
                    self.complete += 1;
                }
                Progress::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Progress::Later => {
                    let watch = &self.device.completion;
                    let driver = &universe.driver;
                    self.entry = Some(watch.enter(self.entry, driver, point, context.waker())?);
                    return Poll::Pending;
                }
            }
        }
        // Only now: the task may have been polled on another thread before.
        self.points.iter().filter_map(Point::snapshot).for_each(|clock| universe.learn(clock));
        Poll::Ready(Ok(()))
    }

    /// Takes the entry off the list.
    fn leave(&mut self) {
        if let Some(id) = self.entry.take().filter(|_| !callback::forked()) {
            // The waker is dropped here, under no lock.
            drop(self.device.completion.take(id));
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.leave();
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} points complete", self.complete, self.points.len())
    }
}

/// The future of a [`Ticket`](super::Ticket), an [`Event`](super::Event) or a
/// [`Stream`](super::Stream): ends when the work is complete, or with the error of work that
/// failed. It stands for what had been enqueued when it was made, whenever it is polled.
///
/// It works under any executor, may move between threads, and may be dropped at any time. Whoever
/// awaits it knows that the work is complete, as after a wait. Host devices with modelled time
/// make progress when it is polled, and report `Stalled` when nothing can.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use trijet::{Device, Executor, HostConfig, Order};
///
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::host(HostConfig { executor, ..HostConfig::default() })?.remove(0);
/// let stream = device.stream()?;
/// let mut x = stream.alloc::<u8>(1 << 20)?;
/// stream.fill_bytes(&mut x, 7)?;
/// let mut ready = std::pin::pin!(stream.ready());
/// // What an executor does, in short.
/// let mut context = Context::from_waker(Waker::noop());
/// let outcome = loop {
///     if let Poll::Ready(outcome) = ready.as_mut().poll(&mut context) {
///         break outcome;
///     }
/// };
/// outcome?;
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub struct Ready(Waiting);

impl Ready {
    #[track_caller]
    pub(crate) fn new(device: &Arc<Shared>, point: Result<Option<Point>>) -> Self {
        let points = point.map(|point| point.into_iter().collect());
        Self(Waiting::new(device, points, Location::caller()))
    }
}

impl Future for Ready {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll(context)
    }
}

/// Names an entry; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EntryId(u64);

/// A task that waits for a point.
struct Entry {
    point: Point,
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
    fn enter(
        &self,
        id: Option<EntryId>,
        driver: &Arc<dyn Driver>,
        point: &Point,
        waker: &Waker,
    ) -> Result<EntryId> {
        let same =
            |entry: &Entry| entry.point.event() == point.event() && entry.waker.will_wake(waker);
        if let Some(id) = id
            && self.0.lock().entries.get(&id).is_some_and(same)
        {
            return Ok(id);
        }
        let entry = Entry { point: point.clone(), waker: waker.clone() };
        let mut list = self.0.lock();
        if !list.started {
            self.start(driver)?;
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

    fn take(&self, id: EntryId) -> Option<Entry> {
        self.0.lock().entries.remove(&id)
    }

    fn start(&self, driver: &Arc<dyn Driver>) -> Result<()> {
        let (watch, driver) = (Arc::clone(&self.0), Arc::clone(driver));
        let thread = std::thread::Builder::new().name("trijet-ready".to_owned());
        thread.spawn(move || run(&watch, &*driver)).map(drop).map_err(|cause| {
            Error::new(ErrorKind::Unsupported, "ready", "no thread to watch events")
                .caused_by(cause)
        })
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        if callback::forked() {
            return;
        }
        self.0.lock().ended = true;
        self.0.changed.notify_one();
    }
}

/// The completion thread.
fn run(watch: &Watch, driver: &dyn Driver) {
    let mut looks = Vec::new();
    let mut list = watch.lock();
    while !list.ended {
        if list.entries.is_empty() {
            list = watch.changed.wait(list).expect("no user code runs under this lock");
            continue;
        }
        looks.extend(list.entries.iter().map(|(id, entry)| (*id, entry.point.clone())));
        drop(list);
        for (id, point) in looks.drain(..) {
            look(watch, driver, id, &point);
        }
        list = watch.lock();
        if !list.ended && !list.entries.is_empty() {
            let rested = watch.changed.wait_timeout(list, LOOK_AGAIN);
            list = rested.expect("no user code runs under this lock").0;
        }
    }
}

/// Wakes the task when its point is complete or cannot be any more: it will be told why.
fn look(watch: &Watch, driver: &dyn Driver, id: EntryId, point: &Point) {
    if matches!(driver.event_poll(point.event()), Ok(Progress::Later)) {
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
