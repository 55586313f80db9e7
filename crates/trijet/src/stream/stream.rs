//! Streams: operations in the order in which they were enqueued (law A1).
#![forbid(unsafe_code)]

use super::ready::{Point, Ready};
use super::shared::Shared;
use crate::base::error::Result;
use crate::base::ledger::{Mode, StreamClass};
use crate::device::driver::{Action, Driver, Readiness};
use crate::device::memory::{Memory, Span};
use crate::log::calling;
use crate::order::gate::{GateStream, Maker};
use crate::order::host_fn::UserFn;
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

/// No chunk: the operation belongs to no pipeline.
const NO_CHUNK: u64 = u64::MAX;

/// An in-order queue of operations on a device.
///
/// Using one buffer on several streams needs no events: the waits follow from the uses. Dropping
/// a stream never blocks; what it holds still runs (law A12).
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

/// A stream outlives its handle while buffers that it will free exist.
#[derive(Debug)]
pub(crate) struct Inner {
    lane: LaneRef,
    device: Arc<Shared>,
    /// The chunk that a pipeline is enqueuing.
    chunk: AtomicU64,
    /// Keeps a stream of the program alive.
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
    pub(crate) fn new(device: &Arc<Shared>, class: StreamClass, priority: i32) -> Result<Self> {
        calling::refuse("stream create")?;
        let opened = legacy::open(&**device.domain.driver(), device.id, class, priority);
        let handle = opened.map_err(|error| device.failed(error))?;
        let stream = GateStream { device: device.id, handle, maker: Maker::Library };
        Self::open(device, class, stream, None)
    }

    /// Gives the driver's `stream` a lane.
    pub(super) fn open(
        device: &Arc<Shared>,
        class: StreamClass,
        stream: GateStream,
        owner: Option<Owner>,
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
        let kind = (class, records);
        let adopted = match &legacy {
            Some(legacy) if class.is_default() => domain.adopt_default(stream, kind, legacy),
            Some(_) | None => domain.adopt(stream, kind, None),
        };
        let (id, tenancy) = adopted.inspect_err(|_| {
            // The error at hand says more than one of giving back what nobody used.
            drop(destroy(&**domain.driver(), class, stream));
        })?;
        if let Some(legacy) = &legacy {
            legacy.join(id, tenancy);
        }
        let lane = LaneRef::new(domain, id, stream, legacy);
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

    /// Waits for everything enqueued so far, and reports what failed.
    ///
    /// # Errors
    /// The error of work that failed, a panic of a host function, or `Stalled`.
    #[track_caller]
    pub fn synchronize(&self) -> Result<()> {
        calling::refuse("stream synchronize")?;
        self.0.device.run_deferred();
        let lane = self.lane();
        let (vector, noted) = lane.known("stream synchronize", Location::caller())?;
        let device = self.device();
        let synchronized = device.watch_pool(false, || lane.gate().synchronize_stream(lane.stream));
        synchronized.map_err(|error| device.failed(error))?;
        noted.succeeded();
        lane.domain.learn(&vector);
        lane.domain.host_fns.take_panic()
    }

    /// Whether everything enqueued so far is complete. Never blocks.
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

    /// Runs `run` on a thread of the driver after everything enqueued so far; later work of this
    /// stream waits for it. It must not call this crate: every call inside returns `InCallback`.
    /// A panic is caught and returned by the next synchronisation. It is dropped exactly once,
    /// even when it is never called because the device was lost. For one that uses page-locked memory
    /// there is [`Stream::host_fn_with`].
    ///
    /// # Errors
    /// What the driver reports; `run` is dropped then.
    #[track_caller]
    pub fn host_fn(&self, run: impl FnOnce() + Send + 'static) -> Result<()> {
        self.enqueue_host_fn(Box::new(run), &[], &[], Location::caller())
    }

    /// A host function that uses memory: `uses` orders it, `touches` are its bytes.
    pub(crate) fn enqueue_host_fn(
        &self,
        run: UserFn,
        uses: &[Use<'_>],
        touches: &[(Span, Mode)],
        site: &'static Location<'static>,
    ) -> Result<()> {
        calling::refuse("host function")?;
        let lane = self.lane();
        let at = (lane.device, lane.id, lane.class());
        let (slot, call) = lane.domain.host_fns.admit(at, site, run);
        let action = Action::HostFn { run: &call, touches };
        let submission = Submission { slot: Some(&slot), ..self.submission(action, uses, site) };
        lane.enqueue(&submission).map(|_| ()).inspect_err(|_| slot.empty())
    }

    /// A future of everything enqueued so far; what is enqueued later does not delay it. A panic
    /// of a host function is left to the next synchronisation.
    ///
    /// # Errors
    /// The future ends with what the driver reports here, with the error of work that failed, or
    /// with `Stalled`.
    #[track_caller]
    pub fn ready(&self) -> Ready {
        let mark = || self.lane().mark().map_err(|error| self.device().failed(error));
        let mark = calling::refuse("ready").and_then(|()| mark());
        Ready::new(&self.0.device, mark.map(|mark| mark.map(Point::Mark)))
    }

    /// Waits for everything and gives the stream back; reports what dropping could not.
    ///
    /// # Errors
    /// As for [`Stream::synchronize`].
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
    pub(crate) fn device(&self) -> &Arc<Shared> {
        &self.0.device
    }

    /// The chunk that the following operations belong to, for the records.
    pub(crate) fn set_chunk(&self, chunk: Option<u64>) {
        self.0.chunk.store(chunk.unwrap_or(NO_CHUNK), Ordering::Relaxed);
    }

    /// An operation of this stream.
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
    ) -> Result<Option<Memory>> {
        let submitted = self.lane().enqueue(&self.submission(action, uses, site));
        submitted.map(|(_, memory)| memory)
    }
}

impl Inner {
    #[inline]
    pub(crate) fn lane(&self) -> &LaneRef {
        &self.lane
    }

    #[inline]
    pub(crate) fn device(&self) -> &Arc<Shared> {
        &self.device
    }
}

/// Whether the stream goes with this handle of it. The legacy stream stays, and a per-thread one goes
/// with its last handle.
fn is_last(lane: &LaneRef) -> bool {
    let default = lane.legacy.as_ref().filter(|legacy| legacy.class().is_default());
    default.is_none_or(|legacy| lane.domain.leave_default(lane.device, legacy))
}

fn give_back(lane: &LaneRef, end: Result<Option<Arc<Mark>>>) -> [Result<()>; 2] {
    [lane.retire(end), destroy(lane.driver(), lane.class(), lane.stream)]
}

/// Default streams stay, and so do those of the program.
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
        // Inside a host function the driver must not be called. And a stream whose end could not
        // be recorded stays until it can: others may wait for its work.
        let (lane, device) = (self.lane.clone(), Arc::clone(&self.device));
        let owner = self.owner.take();
        self.device.defer(Box::new(move || {
            let end = lane.end();
            keep_errors(&device, give_back(&lane, end));
            drop(owner);
        }));
    }
}

fn keep_errors(device: &Shared, results: [Result<()>; 2]) {
    for error in results.into_iter().filter_map(Result::err) {
        device.keep_error(error);
    }
}
