//! Futures: to await what a thread could wait for, under any executor.
//!
//! A future asks the driver when it is polled. Where time passes by itself, an answer of "later" puts
//! the event and the task's waker on the list of the device's completion thread, which looks at the
//! events of the list and wakes: see `completion`. Where time is simulated, the poll itself advances the
//! simulation and the task is woken at once: no thread is needed.
//!
//! *What a poll teaches.* The thread that polls and gets the result knows the work that the future
//! stands for to be complete, as after a successful query (law A8), and not what the thread knew that
//! made the future (law A46). The looks of the completion thread teach nothing.
//!
//! A future holds its device, so a device is dropped when no future of it is left.
#![forbid(unsafe_code)]

use super::completion::{Awaited, EntryId};
use super::record::Record;
use super::shared::Shared;
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, Progress};
use crate::log::calling;
use crate::log::entry::HostWait;
use crate::order::domain::Domain;
use crate::order::mark::Mark;
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// What a future waits for: an event that is recorded no second time while somebody holds it.
#[derive(Debug, Clone)]
pub(crate) enum Point {
    /// An event of the ordering.
    Mark(Arc<Mark>),
    /// A record of a user's event.
    Record(Arc<Record>),
}

impl Point {
    fn event(&self) -> (DeviceId, EventHandle) {
        match self {
            Self::Mark(mark) => (mark.device, mark.event),
            Self::Record(record) => record.event(),
        }
    }

    fn awaited(&self) -> Arc<dyn Awaited> {
        match self {
            Self::Mark(mark) => Arc::<Mark>::clone(mark),
            Self::Record(record) => Arc::<Record>::clone(record),
        }
    }

    fn note<'a>(&'a self, domain: &'a Domain, site: &'static Location<'static>) -> HostWait<'a> {
        match self {
            Self::Mark(mark) => domain.note_mark(mark, site),
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

/// Points to wait for: one, as a rule.
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
        calling::refuse("ready")?;
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.again()));
        }
        let domain = &self.device.domain;
        while let Some(point) = self.points.get(self.complete) {
            let (device, event) = point.event();
            let progress = domain.gate.poll_event(device, event);
            match progress.map_err(|error| self.device.failed(error))? {
                Progress::Ready => {
                    point.note(domain, self.site).succeeded();
                    self.complete += 1;
                }
                Progress::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Progress::Later => {
                    let watch = &self.device.completion;
                    let awaited = point.awaited();
                    let entry = watch.enter(self.entry, domain, &awaited, context.waker())?;
                    self.entry = Some(entry);
                    return Poll::Pending;
                }
            }
        }
        // Only now: the task may have been polled on another thread before.
        self.points.iter().filter_map(Point::snapshot).for_each(|clock| domain.learn(clock));
        Poll::Ready(Ok(()))
    }

    /// Takes the entry off the list.
    fn leave(&mut self) {
        if let Some(id) = self.entry.take().filter(|_| !calling::forked()) {
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
/// use trijet::Device;
/// use trijet::sim::{Executor, HostConfig, Order};
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
