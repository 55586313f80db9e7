//! Futures that end when work of a device is complete. They run under any executor.
//!
//! A future queries the driver each time it is polled. If the work is not complete, the task must
//! be woken later:
//! - On a real clock, the future puts the event and the task's waker on the list of the device's
//!   completion thread. The thread queries the events of the list and wakes the tasks, see
//!   `completion`.
//! - On a simulated clock, the poll itself advances time and wakes the task at once. No thread is
//!   needed.
//!
//! *Knowledge from a poll.* When a poll returns `Ready`, the polling thread knows that the work of
//! the future is complete, as after a successful query (law A8). The polling thread does not get
//! the knowledge of the thread that created the future (law A46). A query by the completion thread
//! tells no other thread that work is complete.
//!
//! A future keeps its device open, so the device is dropped after its last future.
#![forbid(unsafe_code)]

use super::completion::{Awaited, EntryId};
use super::record::Record;
use super::shared::OpenDevice;
use crate::base::error::{Error, Result};
use crate::base::id::DeviceId;
use crate::base::vector_clock::VectorClock;
use crate::device::driver::{EventHandle, PollProgress};
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

/// An event for which a future waits. The event is not recorded again while this value exists.
#[derive(Debug, Clone)]
pub(crate) enum Point {
    /// An event that the library recorded for the order of operations.
    Mark(Arc<Mark>),
    /// A record of an event of the program.
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

/// The points for which a future waits, usually one.
pub(crate) type Points = SmallVec<[Point; 2]>;

/// A wait for points that does not block. Every future of this crate contains one.
pub(crate) struct Waiting {
    device: Arc<OpenDevice>,
    points: Points,
    /// The number of points that are known to be complete. These are the first points of `points`.
    complete: usize,
    /// The error that occurred when the future was created. Every poll returns this error.
    failed: Option<Error>,
    /// The call that created the future.
    site: &'static Location<'static>,
    /// The number of this future's entry on the list of the completion thread. The completion
    /// thread may have removed the entry already. `None` before the first entry, and after the
    /// future took its entry off the list.
    entry: Option<EntryId>,
}

impl Waiting {
    /// A wait for `points`. If `points` is an error, every poll returns the error.
    pub(crate) fn new(
        device: &Arc<OpenDevice>,
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

    /// Queries the points once. If the result is `Ready(Ok)`, the calling thread knows from now on
    /// that the work of all points is complete. May be called again after a result.
    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        let answer = self.query_points(context);
        if answer.is_ready() {
            self.leave();
        }
        answer
    }

    fn query_points(&mut self, context: &Context<'_>) -> Poll<Result<()>> {
        calling::refuse("ready")?;
        if let Some(error) = &self.failed {
            return Poll::Ready(Err(error.again()));
        }
        let domain = &self.device.domain;
        while let Some(point) = self.points.get(self.complete) {
            let (device, event) = point.event();
            let progress = domain.gate.poll_event(device, event);
            match progress.map_err(|error| self.device.failed(error))? {
                PollProgress::Ready => {
                    point.note(domain, self.site).succeeded();
                    self.complete += 1;
                }
                PollProgress::Again => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                PollProgress::Later => {
                    let watch = &self.device.completion;
                    let awaited = point.awaited();
                    let entry = watch.enter(self.entry, domain, &awaited, context.waker())?;
                    self.entry = Some(entry);
                    return Poll::Pending;
                }
            }
        }
        // The calling thread learns now that the work of all points is complete. It did not learn
        // this at earlier polls, because they may have been on other threads.
        self.points.iter().filter_map(Point::snapshot).for_each(|clock| domain.learn(clock));
        Poll::Ready(Ok(()))
    }

    /// Takes the entry off the list of the completion thread.
    fn leave(&mut self) {
        if let Some(id) = self.entry.take().filter(|_| !calling::forked()) {
            // The waker is dropped here, while no lock is held.
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
/// [`Stream`](super::Stream). The future ends when the work is complete, or with the error of work
/// that failed. The work is fixed when the future is created: the future waits for the work that
/// the ticket, the event or the stream stands for at that time.
///
/// The future works under any executor, may move between threads, and may be dropped at any time.
/// The thread whose poll ends the future knows that the work is complete, as after a wait (law
/// [A46](crate::laws#a46)). On a host device with modelled time, each poll advances time. The
/// future then ends with `Stalled` if nothing can run any more.
///
/// ```
/// use std::task::{Context, Poll, Waker};
/// use trijet::Device;
/// use trijet::sim::{Executor, HostConfig, Order};
///
/// let executor = Executor::Virtual(Order::Greedy);
/// let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
/// let stream = device.stream()?;
/// let mut x = stream.alloc::<u8>(1 << 20)?;
/// stream.fill_bytes(&mut x, 7)?;
/// let mut ready = std::pin::pin!(stream.ready());
/// // This is a minimal executor.
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
    pub(crate) fn new(device: &Arc<OpenDevice>, point: Result<Option<Point>>) -> Self {
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
