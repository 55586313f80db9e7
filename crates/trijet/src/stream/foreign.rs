//! Streams and events of other libraries that Trijet uses, and streams and events of Trijet that
//! other libraries use. Also captures of such streams.

use super::device::Device;
use super::event::Event;
use super::shared::OpenDevice;
use super::stream::{Owner, Stream};
use crate::base::error::{Error, ErrorKind, Result};
use crate::device::driver::{Action, CaptureMode, CaptureState, GraphHandle};
use crate::log::calling;
use crate::order::gate::{GateStream, Maker};
use std::any::Any;
use std::ffi::c_void;
use std::panic::Location;
use std::sync::Arc;

impl Device {
    /// A stream that another library created. Operations that are enqueued through this handle are
    /// ordered like operations of any other stream, and follow the work that is already in the
    /// stream. `owner` keeps the stream alive, and is dropped after the last buffer that was
    /// allocated in the stream.
    ///
    /// While other code captures the stream into a graph, copies, fills and launches become a part
    /// of the graph. Their order is the order of the capture. If one of these operations must
    /// follow earlier work of other streams, the call first waits on the host for that work. All
    /// other calls return `Capturing` and do not change the capture: allocations, host functions,
    /// records, waits, queries, synchronizations, and copies of memory that is not page-locked.
    /// CUDA does not report whether a stream in capture is a blocking stream. So a stream that is
    /// passed here during a capture counts as non-blocking.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let theirs = device.stream()?;
    /// // SAFETY: the stream is alive, since it moves into its owner.
    /// let ours = unsafe { device.stream_from_raw(theirs.as_raw(), theirs)? };
    /// let mut x = ours.alloc::<u8>(64)?;
    /// ours.fill_bytes(&mut x, 1)?;
    /// ours.synchronize()?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `raw` is a created stream of this device, not a default stream, and stays valid until
    /// `owner` is dropped.
    ///
    /// If an operation becomes a part of a graph, the memory that the operation uses stays
    /// allocated as long as the graph exists. The caller orders the launches of the graph with
    /// every other use of this memory, because the library does not see the launches.
    ///
    /// # Errors
    /// `InvalidValue` for a default stream and beyond 1024 streams of a driver; an error of the
    /// driver.
    pub unsafe fn stream_from_raw(
        &self,
        raw: *mut c_void,
        owner: impl Any + Send + Sync,
    ) -> Result<Stream> {
        calling::refuse("stream from raw")?;
        let shared = self.shared();
        let imported = shared.domain.driver().stream_from_raw(shared.id, raw);
        let (handle, kind) = imported.map_err(|error| shared.failed(error))?;
        let stream = GateStream { device: shared.id, handle, maker: Maker::Program };
        Stream::open(shared, kind.class(), stream, Some(Owner(Box::new(owner))), None)
    }

    /// Whether other code captures a stream of another library into a graph now. Such a stream
    /// takes copies, fills and launches only, see [`stream_from_raw`](Self::stream_from_raw).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let theirs = device.stream()?;
    /// // SAFETY: the stream is alive.
    /// assert!(!unsafe { device.is_captured_raw(theirs.as_raw())? });
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `raw` is a created stream of this device, not a default stream, and lives during the call.
    ///
    /// # Errors
    /// `InvalidValue` for a default stream; an error of the driver.
    pub unsafe fn is_captured_raw(&self, raw: *mut c_void) -> Result<bool> {
        calling::refuse("is captured")?;
        let shared = self.shared();
        let driver = shared.domain.driver();
        let state = driver
            .stream_from_raw(shared.id, raw)
            .and_then(|(handle, _)| driver.capture_state(handle));
        state.map(|state| state != CaptureState::None).map_err(|error| shared.failed(error))
    }
}

impl Stream {
    /// The stream as a `CUstream`, for other libraries; on the host device, a number. Trijet orders
    /// work of other libraries only if the work is enqueued in [`Stream::foreign`].
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.lane().driver().stream_to_raw(self.lane().stream.handle)
    }

    /// Makes later work of this stream wait for the work that a `CUevent` of another library stands
    /// for at this call (law [A7](crate::laws#a7)).
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (theirs, ours) = (device.stream()?, device.stream()?);
    /// let event = device.event()?;
    /// event.record(&theirs)?;
    /// // SAFETY: the event is alive.
    /// unsafe { ours.wait_raw(event.as_raw())? };
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `event` is a live event of the device of this stream.
    ///
    /// # Errors
    /// An error of the driver.
    #[track_caller]
    pub unsafe fn wait_raw(&self, event: *mut c_void) -> Result<()> {
        calling::refuse("stream wait")?;
        let lane = self.lane();
        let event = lane.driver().event_from_raw(lane.device, event);
        let waits = lane.wait_event(event, None, Location::caller());
        waits.map_err(|error| self.device().failed(error))
    }
}

impl Event {
    /// The event as a `CUevent`, for other libraries that wait for it; on the host device, a
    /// number. The handle stands for the last record. A later record may replace the handle, so
    /// call this function after each record.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        let (device, event) = self.raw();
        device.domain.driver().event_to_raw(event)
    }
}

/// A capture of a stream that the program made, as another library would begin it. For tests of
/// code that runs during captures.
///
/// ```
/// use trijet::testing::{Capture, CaptureMode};
/// use trijet::{Device, Select};
/// let device = Device::open(Select::Host(0))?;
/// let theirs = device.stream()?;
/// let mut x = theirs.upload(&[1_u8; 4])?;
/// theirs.synchronize()?;
/// // SAFETY: the stream is alive, since it moves into its owner. `x` outlives the graph, and one
/// // stream has all uses of `x`.
/// let ours = unsafe { device.stream_from_raw(theirs.as_raw(), theirs)? };
///
/// let capture = Capture::begin(&ours, CaptureMode::ThreadLocal)?;
/// ours.fill_bytes(&mut x, 7)?;
/// let captured = capture.end()?;
/// assert_eq!(ours.download(&x)?, [1; 4]);
/// // SAFETY: the same.
/// unsafe { captured.launch(&ours)? };
/// assert_eq!(ours.download(&x)?, [7; 4]);
/// # Ok::<(), trijet::Error>(())
/// ```
///
/// Dropping the capture ends it and discards the graph.
#[derive(Debug)]
pub struct Capture<'a> {
    stream: &'a Stream,
    has_ended: bool,
}

/// The graph of a [`Capture`].
#[derive(Debug)]
pub struct Captured {
    device: Arc<OpenDevice>,
    graph: GraphHandle,
}

/// Returns the driver's stream, if the program made the stream. Returns an error for a stream that
/// the library made.
fn of_program(stream: &Stream) -> Result<GateStream> {
    let on = stream.lane().stream;
    if on.maker == Maker::Program {
        return Ok(on);
    }
    let cause = "the library made the stream, so nothing else can capture it";
    Err(Error::new(ErrorKind::InvalidValue, "capture", cause))
}

impl<'a> Capture<'a> {
    /// Begins to capture a stream of [`Device::stream_from_raw`].
    ///
    /// # Errors
    /// `InvalidValue` for a stream that the library made, because other code cannot capture such a
    /// stream; an error of the driver.
    pub fn begin(stream: &'a Stream, mode: CaptureMode) -> Result<Self> {
        calling::refuse("capture")?;
        let on = of_program(stream)?;
        let begun = stream.lane().driver().capture_begin(on.handle, mode);
        begun.map_err(|error| stream.device().failed(error))?;
        Ok(Self { stream, has_ended: false })
    }

    /// Makes another stream of the program wait for the present work of the captured stream. The
    /// other stream is then part of the capture until the capture ends.
    ///
    /// # Errors
    /// The errors of [`Capture::begin`].
    pub fn fork(&self, other: &Stream) -> Result<()> {
        calling::refuse("capture")?;
        Self::order(self.stream, other)
    }

    /// Makes the captured stream wait for the present work of another stream of the capture. If a
    /// stream of the capture was not joined, ending the capture is an error (904, law
    /// [A33](crate::laws#a33)).
    ///
    /// # Errors
    /// The errors of [`Capture::begin`].
    pub fn join(&self, other: &Stream) -> Result<()> {
        calling::refuse("capture")?;
        Self::order(other, self.stream)
    }

    fn order(from: &Stream, to: &Stream) -> Result<()> {
        let (first, second) = (of_program(from)?, of_program(to)?);
        let ordered = to.lane().gate().order_captured(first, second);
        ordered.map_err(|error| to.device().failed(error))
    }

    /// Ends the capture and returns its graph.
    ///
    /// # Errors
    /// The error that made the capture invalid.
    pub fn end(mut self) -> Result<Captured> {
        calling::refuse("capture")?;
        self.has_ended = true;
        self.ended()
    }

    fn ended(&self) -> Result<Captured> {
        let (lane, device) = (self.stream.lane(), self.stream.device());
        let graph = lane.driver().capture_end(lane.stream.handle);
        let graph = graph.map_err(|error| device.failed(error))?;
        Ok(Captured { device: Arc::clone(device), graph })
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.has_ended && !calling::inside() {
            // An invalid capture has no graph. A valid graph is discarded, because the capture was
            // dropped.
            drop(self.ended());
        }
    }
}

/// Captures work that another library enqueues. `run` is called with one stream for each of
/// `devices`, and enqueues the work in these streams. All devices have the same driver.
pub(crate) fn capture(
    devices: &[Device],
    run: impl FnOnce(&[*mut c_void]) -> Result<()>,
) -> Result<Captured> {
    let streams = devices.iter().map(Device::stream).collect::<Result<Vec<_>>>()?;
    let Some((first, others)) = streams.split_first() else {
        return Err(Error::new(ErrorKind::InvalidValue, "capture", "there is no device"));
    };
    let begun =
        first.lane().driver().capture_begin(first.lane().stream.handle, CaptureMode::Relaxed);
    begun.map_err(|error| first.device().failed(error))?;
    let capture = Capture { stream: first, has_ended: false };
    let order = |from: &Stream, to: &Stream| {
        let ordered = to.lane().gate().order_captured(from.lane().stream, to.lane().stream);
        ordered.map_err(|error| to.device().failed(error))
    };
    others.iter().try_for_each(|other| order(first, other))?;
    let raw: Vec<*mut c_void> = streams.iter().map(Stream::as_raw).collect();
    run(&raw)?;
    others.iter().try_for_each(|other| order(other, first))?;
    capture.end()
}

impl Captured {
    pub(crate) fn graph(&self) -> GraphHandle {
        self.graph
    }

    /// Launches the graph.
    ///
    /// # Safety
    /// The memory of the operations stays allocated until the operations are complete. The caller
    /// orders the operations with every other use of this memory.
    ///
    /// # Errors
    /// An error of the driver.
    #[track_caller]
    pub unsafe fn launch(&self, stream: &Stream) -> Result<()> {
        calling::refuse("graph launch")?;
        let action = Action::Graph { graph: self.graph, touches: &[], name: "captured graph" };
        stream.enqueue(action, &[], Location::caller())
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        self.device.destroy_graph(self.graph);
    }
}
