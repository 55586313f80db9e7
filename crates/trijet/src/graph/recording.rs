//! The recording of a graph.
#![forbid(unsafe_code)]

use super::exec::{Graph, Renewed};
use super::nodes::{Nodes, Recorded};
use crate::base::error::{Error, ErrorKind, Result};
use crate::log::calling;
use crate::memory::{AsView, ElementKind};
use crate::stream::{Device, Stream};
use std::panic::Location;
use std::sync::Arc;

/// A graph that is being recorded, see [`Device::record`].
#[derive(Debug)]
pub struct Recording {
    device: Device,
    nodes: Arc<Nodes>,
}

impl Drop for Recording {
    /// The streams of the recording may outlive the recording, for example after a panic of the
    /// recorded code. No graph would ever contain later operations of these streams. So such
    /// operations are refused from now on.
    fn drop(&mut self) {
        drop(self.nodes.end());
    }
}

impl Recording {
    /// A recording that makes several graphs. Its streams stay, and its operations are taken out
    /// for each graph. Launches without a priority get `priority`. `allocates` states whether the
    /// streams can allocate. Only the graph can use memory that they allocate.
    pub(crate) fn continuing(device: &Device, priority: Option<i32>, allocates: bool) -> Self {
        let nodes = Arc::new(Nodes::new(device, priority, allocates));
        Self { device: device.clone(), nodes }
    }

    /// Makes a graph of the operations that were recorded since the last call.
    pub(crate) fn graph(&self) -> Result<Graph> {
        Graph::new(&self.device, self.nodes.take())
    }

    /// Records `work`, and changes the graph to the recorded operations, as
    /// [`Device::record_again`] does.
    ///
    /// # Errors
    /// The outer error is the error of `work`. The inner error is the reason why the graph could
    /// not be changed.
    pub(crate) fn change<E>(
        &self,
        graph: &mut Graph,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Result<()>, E> {
        graph.change(&self.nodes, work)
    }

    /// Records `work`, and changes a graph of this recording to the recorded operations. The
    /// recorded operations may differ from the operations of the graph.
    ///
    /// # Errors
    /// An error of the driver. The graph is then broken.
    pub(crate) fn renew(&self, graph: &mut Graph, work: impl FnOnce()) -> Result<Renewed> {
        graph.renew(&self.nodes, work)
    }

    /// The numbers of kernel launches and of other operations that were recorded since the last
    /// call.
    pub(crate) fn counts(&self) -> (usize, usize) {
        self.nodes.counts()
    }

    /// Whether an operation was refused since the last call.
    pub(crate) fn has_refused(&self) -> bool {
        self.nodes.has_refused()
    }

    /// Drops the operations that were recorded since the last call.
    pub(crate) fn discard(&self) {
        self.nodes.discard();
    }

    /// A stream whose operations are recorded. The operations run when the graph is launched.
    /// Copies, fills, launches of kernels and of other graphs, and [host functions](Self::host_fn)
    /// can be recorded. Other calls return `Unsupported` or `Capturing` (law
    /// [A33](crate::laws#a33)). Memory that the stream [allocates](Stream::alloc) belongs to the
    /// graph.
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn stream(&self) -> Result<Stream> {
        self.stream_on(&self.device)
    }

    /// Like [`Recording::stream`], but on another device. The graph is still launched as one
    /// operation of a stream on the device that recorded it.
    ///
    /// ```
    /// use trijet::Uses;
    /// use trijet::sim::HostConfig;
    /// use trijet::Device;
    /// let devices = Device::host(HostConfig::new().devices(2))?;
    /// let (a, b) = (devices[0].stream()?, devices[1].stream()?);
    /// let (x, mut y) = (a.upload(&[1_u32, 2])?, b.alloc::<u32>(2)?);
    /// let mut graph = devices[0].record(|g| {
    ///     g.argument(&x)?;
    ///     g.argument(&y)?;
    ///     g.stream_on(&devices[1])?.copy(&x, &mut y)
    /// })?;
    /// a.launch_graph(&mut graph, Uses::new().read(&x).update(&mut y))?;
    /// assert_eq!(b.download(&y)?, [1, 2]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Device::stream`]; `InvalidValue` for a device of another driver.
    pub fn stream_on(&self, device: &Device) -> Result<Stream> {
        self.nodes.join(device)?;
        let stream = Stream::recorded(device.shared(), Arc::<Nodes>::clone(&self.nodes))?;
        self.nodes.open(stream.lane().id);
        Ok(stream)
    }

    /// Records a host function. When a launch of the graph reaches the function, a thread of the
    /// driver calls `run` (law [A27](crate::laws#a27)). The graph owns `run`, and drops it when the
    /// graph is dropped and no launch is pending. As for [`Stream::host_fn`], `run` must not call
    /// the driver, and a later synchronization returns a panic of `run` as its error. A signal that
    /// `run` sets orders no memory. A graph that is [recorded again](Device::record_again) keeps
    /// the first `run`.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    /// use trijet::Uses;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let (s, count) = (device.stream()?, Arc::new(AtomicU32::new(0)));
    /// let counted = Arc::clone(&count);
    /// let mut graph = device.record(|g| {
    ///     let s = g.stream()?;
    ///     g.host_fn(&s, move || drop(counted.fetch_add(1, Relaxed)))
    /// })?;
    /// s.launch_graph(&mut graph, Uses::new())?;
    /// s.launch_graph(&mut graph, Uses::new())?;
    /// s.synchronize()?;
    /// assert_eq!(count.load(Relaxed), 2);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for a stream that does not belong to the recording.
    #[track_caller]
    pub fn host_fn(&self, stream: &Stream, run: impl Fn() + Send + Sync + 'static) -> Result<()> {
        self.nodes.demand(stream)?;
        stream.record_host_fn(Box::new(run), Location::caller())
    }

    /// Leaves out one edge of the graph. An edge belongs to the later of its two nodes. `number`
    /// counts from 1 through the edges of the first node, then through the edges of the next node,
    /// and so on. The results of a graph without an edge show what the edge prevents, as
    /// [`testing::drop_wait`](crate::testing::drop_wait) shows for streams. On a
    /// [checked](crate::DeviceBuilder::check) device the graph is then refused, unless other edges
    /// order the two nodes.
    ///
    /// ```
    /// use trijet::check::CheckOptions;
    /// use trijet::kernels::AXPY;
    /// use trijet::{Device, Select};
    /// let builder = Device::builder().select(Select::Host(0));
    /// let device = builder.check(CheckOptions::default()).open()?;
    /// let s = device.stream()?;
    /// let (x, mut y) = (s.upload(&[1.0_f32, 2.0])?, s.upload(&[0.0_f32, 0.0])?);
    /// let outcome = device.record(|g| {
    ///     g.argument(&x)?;
    ///     g.argument(&y)?;
    ///     g.drop_edge(1);
    ///     g.stream()?.launch(&AXPY, (1.0_f32, &x, &mut y))?;
    ///     g.stream()?.launch(&AXPY, (2.0_f32, &x, &mut y))
    /// });
    /// let error = outcome.expect_err("the two sums race");
    /// let cause = "operation 0 (`axpy_f32`) writes bytes 0..8 of argument 1";
    /// assert!(error.to_string().contains(cause));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    pub fn drop_edge(&self, number: usize) {
        self.nodes.drop_edge(number);
    }

    /// Makes memory the next argument of the graph. Operations of the recording use only memory of
    /// arguments, and memory that the streams of the recording allocate. Arguments must not share
    /// bytes, because the arguments of a launch may not share bytes either.
    ///
    /// # Errors
    /// `InvalidValue` for memory that shares bytes with an earlier argument, or of another driver.
    pub fn argument<V: AsView + ?Sized>(&self, memory: &V) -> Result<()> {
        self.nodes.argument(&memory.as_view().as_bytes(), ElementKind::of::<V::Element>())
    }
}

impl Device {
    /// Records a graph: calls `work`, and collects the operations that it enqueues in the streams
    /// of the recording. The operations do not run. If `work` fails, the recording is dropped.
    ///
    /// ```
    /// use trijet::Uses;
    /// use trijet::kernels::AXPY;
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let (x, mut y) = (s.upload(&[1.0_f32, 2.0])?, s.upload(&[10.0_f32, 20.0])?);
    /// let mut twice = device.record(|g| {
    ///     g.argument(&x)?;
    ///     g.argument(&y)?;
    ///     let s = g.stream()?;
    ///     s.launch(&AXPY, (1.0_f32, &x, &mut y))?;
    ///     s.launch(&AXPY, (1.0_f32, &x, &mut y))
    /// })?;
    /// s.launch_graph(&mut twice, Uses::new().read(&x).update(&mut y))?;
    /// assert_eq!(s.download(&y)?, [12.0, 24.0]);
    /// let mut z = s.upload(&[0.0_f32, 0.0])?;
    /// s.launch_graph(&mut twice, Uses::new().read(&x).update(&mut z))?;
    /// assert_eq!(s.download(&z)?, [2.0, 4.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`; an error of the driver when it creates the graph.
    pub fn record(&self, work: impl FnOnce(&Recording) -> Result<()>) -> Result<Graph> {
        calling::refuse("record")?;
        Graph::new(self, recorded(self, work)?)
    }

    /// Records the operations of a graph again, and changes the graph in place. The new operations
    /// may have other scalars and other configurations of kernels, and other values of fills.
    /// Pending launches keep the old values. This costs much less than a new graph, which the
    /// driver has to prepare.
    ///
    /// ```
    /// use trijet::Uses;
    /// use trijet::graph::Recording;
    /// use trijet::kernels::AXPY;
    /// use trijet::{Buffer, Device, Result, Select};
    ///
    /// fn step(g: &Recording, a: f32, x: &Buffer<f32>, y: &mut Buffer<f32>) -> Result<()> {
    ///     g.argument(x)?;
    ///     g.argument(y)?;
    ///     g.stream()?.launch(&AXPY, (a, x, y))
    /// }
    ///
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let (x, mut y) = (s.upload(&[1.0_f32, 2.0])?, s.upload(&[0.0_f32, 0.0])?);
    /// let mut graph = device.record(|g| step(g, 1.0, &x, &mut y))?;
    /// device.record_again(&mut graph, |g| step(g, 10.0, &x, &mut y))?;
    /// s.launch_graph(&mut graph, Uses::new().read(&x).update(&mut y))?;
    /// assert_eq!(s.download(&y)?, [10.0, 20.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue`, with the number of the operation, if operations, kernels, streams,
    /// attributes, arguments or bytes differ. The graph is then unchanged. It is also unchanged
    /// after an error or a panic of `work`. After an error of the driver, launches return that
    /// error.
    pub fn record_again(
        &self,
        graph: &mut Graph,
        work: impl FnOnce(&Recording) -> Result<()>,
    ) -> Result<()> {
        calling::refuse("record")?;
        if !graph.is_of(self.shared()) {
            let cause = "the graph was recorded on another device";
            return Err(Error::new(ErrorKind::InvalidValue, "record again", cause));
        }
        let recording = Recording::continuing(self, None, true);
        graph.change(&recording.nodes, || work(&recording))?
    }
}

fn recorded(device: &Device, work: impl FnOnce(&Recording) -> Result<()>) -> Result<Recorded> {
    let recording = Recording::continuing(device, None, true);
    let outcome = work(&recording);
    let recorded = recording.nodes.end();
    outcome?;
    Ok(recorded)
}
