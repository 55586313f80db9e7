//! The recording of a graph.
#![forbid(unsafe_code)]

use super::edges::connect;
use super::exec::Graph;
use super::node::{Node, Place};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, LaneId};
use crate::device::memory::Span;
use crate::log::calling;
use crate::memory::AsView;
use crate::order::recorder::Recorder;
use crate::order::submission::Submission;
use crate::stream::{Device, Stream};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// A graph that is being recorded, see [`Device::record`].
#[derive(Debug)]
pub struct Recording {
    device: Device,
    nodes: Arc<Nodes>,
}

/// What was recorded so far. The streams of the recording share it.
#[derive(Debug, Default)]
struct Nodes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    arguments: Vec<Argument>,
    nodes: Vec<Node>,
    /// The streams that have nodes.
    streams: Vec<LaneId>,
    /// The priority of launches that have none.
    priority: Option<i32>,
    /// Whether an operation was refused.
    has_refused: bool,
    has_ended: bool,
}

/// Memory that an argument stands for while the graph is recorded.
#[derive(Debug)]
struct Argument {
    block: BlockId,
    range: Range<u64>,
    span: Span,
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "record", cause)
}

impl State {
    /// What was recorded. The streams stay.
    fn take(&mut self) -> (Vec<Node>, Vec<Span>) {
        self.has_refused = false;
        let arguments = std::mem::take(&mut self.arguments);
        let spans = arguments.into_iter().map(|argument| argument.span).collect();
        (std::mem::take(&mut self.nodes), spans)
    }

    /// Adds a node.
    fn add(&mut self, lane: LaneId, submission: &Submission<'_>) -> Result<()> {
        let label = submission.action.label();
        if self.has_ended {
            return Err(invalid(format!("`{label}`: the recording of this stream has ended")));
        }
        let known = self.streams.iter().position(|known| *known == lane);
        let stream = known.unwrap_or(self.streams.len());
        let mut node = Node::of(&submission.action, stream)?;
        node.set_priority(self.priority);
        for access in submission.uses {
            let Some((argument, range)) = self.place(access.track.id, &access.range) else {
                return Err(invalid(format!(
                    "`{label}` uses memory that is no argument of the graph; name it with \
                     `Recording::argument` first"
                )));
            };
            node.places.push(Place { argument, range, mode: access.mode });
        }
        if known.is_none() {
            self.streams.push(lane);
        }
        self.nodes.push(node);
        Ok(())
    }

    /// The argument that has these bytes of a block.
    fn place(&self, block: BlockId, range: &Range<u64>) -> Option<(usize, Range<u64>)> {
        let has = |known: &Argument| {
            known.block == block && known.range.start <= range.start && range.end <= known.range.end
        };
        let argument = self.arguments.iter().position(has)?;
        let first = self.arguments[argument].range.start;
        Some((argument, range.start - first..range.end - first))
    }
}

impl Nodes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic under this lock")
    }

    /// Ends the recording, and takes what was recorded.
    fn end(&self) -> (Vec<Node>, Vec<Span>) {
        let mut state = self.state();
        state.has_ended = true;
        state.take()
    }
}

impl Recorder for Nodes {
    fn take(&self, lane: LaneId, submission: &Submission<'_>) -> Result<()> {
        let mut state = self.state();
        let taken = state.add(lane, submission);
        state.has_refused |= taken.is_err();
        taken
    }
}

impl Recording {
    /// A recording that goes on: its streams stay, and what they have recorded is taken out again and again.
    /// Launches without a priority get this one.
    pub(crate) fn continuing(device: &Device, priority: Option<i32>) -> Self {
        let recording = Self { device: device.clone(), nodes: Arc::default() };
        recording.nodes.state().priority = priority;
        recording
    }

    /// A graph of what was recorded since the last call.
    pub(crate) fn graph(&self) -> Result<Graph> {
        let (mut nodes, spans) = self.nodes.state().take();
        connect(&mut nodes);
        Graph::new(&self.device, nodes, spans)
    }

    /// Changes a graph into what was recorded since the last call, as [`Device::record_again`] does.
    pub(crate) fn change(&self, graph: &mut Graph) -> Result<()> {
        let (mut nodes, spans) = self.nodes.state().take();
        graph.connect_like(&mut nodes);
        graph.change(&self.device, nodes, &spans)
    }

    /// Whether an operation was refused since the last call.
    pub(crate) fn has_refused(&self) -> bool {
        self.nodes.state().has_refused
    }

    /// Forgets what was recorded since the last call.
    pub(crate) fn discard(&self) {
        self.nodes.state().take();
    }

    /// A stream whose operations are recorded. They run when the graph is launched. Copies, fills and
    /// launches can be recorded; other calls return `Unsupported` or `Capturing` (law A33).
    ///
    /// # Errors
    /// As for [`Device::stream`].
    pub fn stream(&self) -> Result<Stream> {
        let recorder = Arc::clone(&self.nodes);
        Stream::recorded(self.device.shared(), recorder)
    }

    /// Names memory as the next argument of the graph. Each operation of the recording uses memory of
    /// arguments only. Arguments have no bytes in common, since those of a launch need not have them
    /// either.
    ///
    /// # Errors
    /// `InvalidValue` for memory that shares bytes with an earlier argument, or of another driver.
    pub fn argument<V: AsView + ?Sized>(&self, memory: &V) -> Result<()> {
        let view = memory.as_view();
        let access = view.read_use();
        self.device.shared().domain.own("record", access.track.domain)?;
        let (block, range) = (access.track.id, access.range);
        let mut state = self.nodes.state();
        let overlaps = |known: &Argument| {
            known.block == block && known.range.start < range.end && range.start < known.range.end
        };
        if let Some(known) = state.arguments.iter().position(overlaps) {
            let number = state.arguments.len();
            return Err(invalid(format!("argument {number} shares bytes with argument {known}")));
        }
        state.arguments.push(Argument { block, range, span: view.span() });
        Ok(())
    }
}

impl Device {
    /// Records a graph: the operations that `work` enqueues in the streams of the recording. They do not
    /// run. If `work` fails, nothing is left of the recording.
    ///
    /// ```
    /// use trijet::graph::Arguments;
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
    /// s.launch_graph(&mut twice, Arguments::new().read(x.view()).write(y.view_mut()))?;
    /// assert_eq!(s.download(&y)?, [12.0, 24.0]);
    /// let mut z = s.upload(&[0.0_f32, 0.0])?;
    /// s.launch_graph(&mut twice, Arguments::new().read(x.view()).write(z.view_mut()))?;
    /// assert_eq!(s.download(&z)?, [2.0, 4.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`; what the driver reports when it makes the graph.
    pub fn record(&self, work: impl FnOnce(&Recording) -> Result<()>) -> Result<Graph> {
        calling::refuse("record")?;
        let (nodes, spans) = recorded(self, work)?;
        Graph::new(self, nodes, spans)
    }

    /// Records the operations of a graph again, and changes the graph in place: the scalars and the
    /// configurations of its kernels, and the values of its fills. Launches that are pending keep the old
    /// ones. That costs much less than a new graph, which a driver has to prepare.
    ///
    /// ```
    /// use trijet::graph::{Arguments, Recording};
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
    /// s.launch_graph(&mut graph, Arguments::new().read(x.view()).write(y.view_mut()))?;
    /// assert_eq!(s.download(&y)?, [10.0, 20.0]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue`, with the number of the operation, if the graph would be another one: with other
    /// operations, kernels, edges, attributes, arguments or bytes. It is as it was then, also after an error
    /// of `work`. After an error of the driver, launches return that error.
    pub fn record_again(
        &self,
        graph: &mut Graph,
        work: impl FnOnce(&Recording) -> Result<()>,
    ) -> Result<()> {
        calling::refuse("record")?;
        let (nodes, spans) = recorded(self, work)?;
        graph.change(self, nodes, &spans)
    }
}

/// The nodes that `work` records, and the memory of the arguments.
fn recorded(
    device: &Device,
    work: impl FnOnce(&Recording) -> Result<()>,
) -> Result<(Vec<Node>, Vec<Span>)> {
    let recording = Recording { device: device.clone(), nodes: Arc::default() };
    let outcome = work(&recording);
    let (mut nodes, spans) = recording.nodes.end();
    outcome?;
    connect(&mut nodes);
    Ok((nodes, spans))
}
