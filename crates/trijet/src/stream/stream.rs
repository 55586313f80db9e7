//! Streams: queues that run operations in the order in which they were enqueued (law A1).
#![forbid(unsafe_code)]

use super::ready::{Point, Ready};
use super::shared::OpenDevice;
use crate::base::error::Result;
use crate::base::ledger::{Mode, StreamClass};
use crate::device::driver::{Action, Driver, Readiness};
use crate::device::memory::Span;
use crate::log::calling;
use crate::order::calls::recorder::Recorder;
use crate::order::gate::{GateStream, Maker};
use crate::order::host::host_fn::{RepeatedFn, UserFn};
use crate::order::lane::Records;
use crate::order::lane_ref::LaneRef;
use crate::order::legacy::{self, LegacyOrder};
use crate::order::mark::Mark;
use crate::order::submission::Submission;
use crate::order::track::Use;
use std::any::Any;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The value of [`Inner::chunk`] while no pipeline enqueues.
const NO_CHUNK: u64 = u64::MAX;

/// An in-order queue of operations on a device.
///
/// Using one buffer on several streams needs no events: the library inserts the necessary waits.
/// Dropping a stream never blocks, and the work of the stream still runs (law
/// [A12](crate::laws#a12)).
///
/// ```
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let stream = device.stream()?;
/// let (send, receive) = std::sync::mpsc::channel();
/// stream.host_fn(move || send.send(42).expect("the receiver waits"))?;
/// stream.synchronize()?;
/// assert_eq!(receive.recv().ok(), Some(42));
/// # Ok::<(), trijet::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream(Arc<Inner>);

/// The state of a stream. The state outlives the [`Stream`] while there are buffers that will be
/// freed in the stream.
#[derive(Debug)]
pub(crate) struct Inner {
    lane: LaneRef,
    device: Arc<OpenDevice>,
    /// The number of the chunk that a pipeline is enqueuing, or [`NO_CHUNK`].
    chunk: AtomicU64,
    /// The owner of a stream that the program made. It keeps the stream alive. `None` for a stream
    /// of the library.
    owner: Option<Owner>,
}

/// The owner of a stream that the program made.
pub(super) struct Owner(
    #[expect(dead_code, reason = "it is kept for its drop")] pub(super) Box<dyn Any + Send + Sync>,
);

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").finish_non_exhaustive()
    }
}

impl Stream {
    pub(crate) fn new(device: &Arc<OpenDevice>, class: StreamClass, priority: i32) -> Result<Self> {
        calling::refuse("stream create")?;
        let opened = legacy::open(device.domain.driver(), device.id, class, priority);
        let handle = opened.map_err(|error| device.failed(error))?;
        let stream = GateStream { device: device.id, handle, maker: Maker::Library };
        Self::open(device, class, stream, None, None)
    }

    /// A new stream whose operations go to `recorder` instead of the driver.
    pub(crate) fn recorded(device: &Arc<OpenDevice>, recorder: Arc<dyn Recorder>) -> Result<Self> {
        calling::refuse("stream create")?;
        let class = StreamClass::NonBlocking;
        let opened = legacy::open(device.domain.driver(), device.id, class, 0);
        let handle = opened.map_err(|error| device.failed(error))?;
        let stream = GateStream { device: device.id, handle, maker: Maker::Library };
        Self::open(device, class, stream, None, Some(recorder))
    }

    /// Assigns a lane to the driver's `stream`.
    pub(super) fn open(
        device: &Arc<OpenDevice>,
        class: StreamClass,
        stream: GateStream,
        owner: Option<Owner>,
        recorder: Option<Arc<dyn Recorder>>,
    ) -> Result<Self> {
        let shared = Arc::clone(device);
        let domain = Arc::clone(&shared.domain);
        let records = match class {
            StreamClass::PerThread => Records::AtOnce,
            StreamClass::Legacy | StreamClass::Blocking | StreamClass::NonBlocking => {
                Records::OnDemand
            }
        };
        let legacy = LegacyOrder::new(class, &domain.blocking(shared.id));
        let adopted = match &legacy {
            Some(legacy) if class.is_default() => {
                domain.adopt_default(stream, class, records, legacy)
            }
            Some(_) | None => domain.adopt(stream, class, records, None),
        };
        let (id, tenancy) = adopted.inspect_err(|_| {
            // The caller gets the error of `adopted`, which is more useful than an error of
            // destroying the unused stream.
            drop(destroy(&**domain.driver(), class, stream));
        })?;
        if let Some(legacy) = &legacy {
            legacy.join(id, tenancy);
        }
        let lane = LaneRef::new(domain, id, stream, legacy);
        let lane = match recorder {
            Some(recorder) => lane.recorded(recorder),
            None => lane,
        };
        let chunk = AtomicU64::new(NO_CHUNK);
        Ok(Self(Arc::new(Inner { lane, device: shared, chunk, owner })))
    }

    /// Gives the stream a name, which findings and timelines use.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let upload = Device::open(Select::Host(0))?.stream()?.named("upload");
    /// upload.synchronize()?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        self.lane().name(name);
        self
    }

    /// Waits until everything enqueued so far is complete (law [A9](crate::laws#a9)).
    ///
    /// # Errors
    /// The error of work that failed, a panic of a host function, or `Stalled`.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        self.complete()?;
        self.take_panic()
    }

    /// Returns the oldest panic of a host function that no call has reported.
    pub(crate) fn take_panic(&self) -> Result<()> {
        self.lane().domain.host_fns.take_panic()
    }

    /// Like [`Stream::synchronize`], but does not return panics of host functions. The next call
    /// that reports panics returns them. This function is for callers that already have an error to
    /// return, or that wait for several streams.
    #[track_caller]
    pub(crate) fn complete(&self) -> Result<()> {
        calling::refuse("stream synchronize")?;
        self.0.device.run_deferred();
        let lane = self.lane();
        let (vector, noted) = lane.known("stream synchronize", Location::caller())?;
        let device = self.device();
        let synchronized = device.synchronized(|| {
            lane.gate().synchronize_stream(lane.stream)?;
            noted.succeeded();
            lane.domain.learn(&vector);
            Ok(())
        });
        synchronized.map_err(|error| device.failed(error))
    }

    /// Whether everything enqueued so far is complete (law [A9](crate::laws#a9)). Never blocks.
    ///
    /// # Errors
    /// The error of work that failed.
    #[track_caller]
    pub fn query(&self) -> Result<Readiness> {
        calling::refuse("stream query")?;
        let lane = self.lane();
        let (vector, noted) = lane.known("stream query", Location::caller())?;
        let answer = lane.gate().query_stream(lane.stream);
        let readiness = answer.map_err(|error| self.device().failed(error))?;
        if readiness == Readiness::Ready {
            noted.succeeded();
            lane.domain.learn(&vector);
        }
        Ok(readiness)
    }

    /// Runs `run` on a thread of the driver, after all work enqueued so far. Later work of this
    /// stream waits for `run` (law [A27](crate::laws#a27)). `run` must not call the driver: calls
    /// of this crate that may do so return `InCallback` (law [A28](crate::laws#a28)). `run` may use
    /// signals. The library catches a panic of `run`, and the next synchronization returns it.
    /// `run` is dropped exactly once, even if the device was lost and `run` is never called (law
    /// [A29](crate::laws#a29)). To enqueue a function that uses page-locked memory, call
    /// [`Stream::host_fn_with`].
    ///
    /// # Errors
    /// An error of the driver. `run` is then dropped without being called.
    #[track_caller]
    pub fn host_fn(&self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        self.enqueue_host_fn(Box::new(run), &[], &[], Location::caller())
    }

    /// Enqueues a host function that uses memory. `uses` are the accesses by which the host
    /// function is ordered. `touches` are the bytes that the host function accesses.
    pub(crate) fn enqueue_host_fn(
        &self,
        run: UserFn,
        uses: &[Use<'_>],
        touches: &[(Span, Mode)],
        site: &'static Location<'static>,
    ) -> Result<()> {
        calling::refuse("host function")?;
        let lane = self.lane();
        let host_fns = &lane.domain.host_fns;
        let (slot, call) = host_fns.admit(lane.device, lane.id, lane.class(), site, run);
        let action = Action::HostFn { run: &call, touches };
        let submission = Submission {
            slot: Some(&slot),
            has_host_fn: true,
            ..self.submission(action, uses, site)
        };
        lane.enqueue(&submission).inspect_err(|_| slot.empty())
    }

    /// Adds a host function to a recording. The function runs in each launch of the graph.
    pub(crate) fn record_host_fn(
        &self,
        run: RepeatedFn,
        site: &'static Location<'static>,
    ) -> Result<()> {
        let lane = self.lane();
        let host_fns = &lane.domain.host_fns;
        let run = host_fns.repeated(lane.device, lane.id, lane.class(), site, run);
        self.enqueue(Action::HostFn { run: &run, touches: &[] }, &[], site)
    }

    /// A future of all work enqueued so far. Later work does not delay the future. The future does
    /// not report a panic of a host function; the next synchronization does.
    ///
    /// # Errors
    /// The future ends with an error if the driver refuses this call, if work failed, if the work
    /// can never be complete (`Stalled`), or if the stream is part of a recording (`Capturing`).
    #[track_caller]
    pub fn ready(&self) -> Ready {
        let mark = || self.lane().mark().map_err(|error| self.device().failed(error));
        let admitted = calling::refuse("ready").and_then(|()| self.lane().refuse_recorded("ready"));
        let mark = admitted.and_then(|()| mark());
        Ready::new(&self.0.device, mark.map(|mark| mark.map(Point::Mark)))
    }

    /// Waits until everything enqueued is complete, and drops the stream. Unlike a drop, this call
    /// reports errors.
    ///
    /// # Errors
    /// The errors of [`Stream::synchronize`].
    pub fn close(self) -> Result<()> {
        self.synchronize()
    }

    #[inline]
    pub(crate) fn lane(&self) -> &LaneRef {
        &self.0.lane
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<OpenDevice> {
        &self.0.device
    }

    /// Sets the chunk to which traces attribute the operations from now on. `None` for no chunk.
    pub(crate) fn set_chunk(&self, chunk: Option<u64>) {
        self.0.chunk.store(chunk.unwrap_or(NO_CHUNK), Ordering::Relaxed);
    }

    /// Describes an operation of this stream.
    #[inline(always)]
    pub(crate) fn submission<'a>(
        &self,
        action: Action<'a>,
        uses: &'a [Use<'a>],
        site: &'static Location<'static>,
    ) -> Submission<'a> {
        let chunk = self.0.chunk.load(Ordering::Relaxed);
        let chunk = (chunk != NO_CHUNK).then_some(chunk);
        Submission { chunk, ..Submission::new(action, uses, site) }
    }

    /// Enqueues an operation.
    #[inline(always)]
    pub(crate) fn enqueue(
        &self,
        action: Action<'_>,
        uses: &[Use<'_>],
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.lane().enqueue(&self.submission(action, uses, site))
    }
}

impl Inner {
    #[inline]
    pub(crate) fn lane(&self) -> &LaneRef {
        &self.lane
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<OpenDevice> {
        &self.device
    }
}

/// Whether the stream ends when this handle is dropped. The legacy stream never ends. A per-thread
/// stream ends with its last handle.
fn is_last(lane: &LaneRef) -> bool {
    let default = lane.legacy.as_ref().filter(|legacy| legacy.class().is_default());
    default.is_none_or(|legacy| lane.domain.leave_default(lane.device, legacy))
}

fn give_back(lane: &LaneRef, end: Result<Option<Arc<Mark>>>) -> [Result<()>; 2] {
    [lane.retire(end), destroy(lane.driver(), lane.class(), lane.stream)]
}

/// Destroys a stream that the library created. Default streams and streams of the program stay.
fn destroy(driver: &dyn Driver, class: StreamClass, stream: GateStream) -> Result<()> {
    match stream.maker {
        Maker::Library if !class.is_default() => driver.stream_destroy(stream.handle),
        Maker::Library | Maker::Program => Ok(()),
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if calling::forked() || !is_last(&self.lane) {
            return;
        }
        let end = if calling::inside() { None } else { Some(self.lane.end()) };
        if let Some(end) = end
            && !end.as_ref().is_err_and(|error| !error.is_loss())
        {
            keep_errors(&self.device, give_back(&self.lane, end));
            return;
        }
        // The end of the stream is recorded later, for one of two reasons. This drop may run in a
        // host function, which must not call the driver. Or the driver has just refused the record.
        // Then the stream must stay, because other streams may have to wait for work of the stream.
        let (lane, device) = (self.lane.clone(), Arc::clone(&self.device));
        let owner = self.owner.take();
        self.device.defer(Box::new(move || {
            let end = lane.end();
            keep_errors(&device, give_back(&lane, end));
            drop(owner);
        }));
    }
}

fn keep_errors(device: &OpenDevice, results: [Result<()>; 2]) {
    for error in results.into_iter().filter_map(Result::err) {
        device.keep_error(error);
    }
}
