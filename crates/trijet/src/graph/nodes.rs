//! The operations that a recording has collected. The streams of the recording share them.
#![forbid(unsafe_code)]

use super::comparison::Comparison;
use super::edges::connect;
use super::heap::Heap;
use super::node::{ArgumentRange, Condition, Node, NodeHome, unsupported};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{BlockId, DeviceId, LaneId};
use crate::base::ledger::Mode;
use crate::base::units::Bytes;
use crate::device::memory::Span;
use crate::memory::{Buffer, ElementKind, Uses, View};
use crate::order::calls::recorder::{RecordedLane, Recorder, Temporary};
use crate::order::submission::Submission;
use crate::order::track::Use;
use crate::stream::foreign::Captured;
use crate::stream::{Device, Stream};
use smallvec::SmallVec;
use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// During a recording, argument `HEAP + n` is chunk `n` of the recording's heap.
const HEAP: usize = usize::MAX / 2;

const OTHER_MEMORY: &str = "the arguments or the allocated memory of the recording differ from the \
                            arguments or the memory of the graph";

/// The recorded operations as nodes with edges, and the memory that the operations use.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) nodes: Vec<Node>,
    /// The memory of the arguments, followed by the memory of the chunks of the heap.
    pub(super) spans: Vec<Span>,
    /// The element type of each argument.
    pub(super) elements: Vec<ElementKind>,
    /// The chunks of the heap that no earlier graph of the recording owns. This graph will own
    /// them.
    pub(super) heap: Vec<Buffer<u8>>,
}

#[derive(Debug)]
pub(super) struct Nodes {
    /// The device of the graph, followed by the other devices on which the graph has operations.
    devices: Mutex<Vec<Device>>,
    state: Mutex<RecordingState>,
    heap: Arc<Heap>,
    /// Whether the streams of the recording can allocate.
    allocates: bool,
}

#[derive(Debug, Default)]
struct RecordingState {
    arguments: Vec<RecordedArgument>,
    nodes: Vec<Node>,
    /// The lanes of the streams, in the order in which the streams were made. The entry is `None`
    /// for a dropped stream, and for a stream of a graph within the graph.
    streams: Vec<Option<LaneId>>,
    /// The priority for launches without a priority.
    priority: Option<i32>,
    /// The number of the edge that is left out, counted from 1.
    dropped_edge: Option<usize>,
    /// The comparison with an existing graph. While there is a comparison, operations are compared
    /// and not collected.
    comparison: Option<Comparison>,
    /// Whether an operation was refused since the recorded operations were last taken out.
    has_refused: bool,
    has_ended: bool,
}

/// The memory of an argument.
#[derive(Debug)]
struct RecordedArgument {
    block: BlockId,
    range: Range<u64>,
    span: Span,
    element: ElementKind,
}

/// The number of an argument, and a range of its bytes.
type ArgumentBytes = (usize, Range<u64>);

/// A graph that becomes a part of another graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    pub(super) nodes: &'a [Node],
    /// The uses of the arguments by all nodes together.
    pub(super) touches: &'a [ArgumentRange],
    /// The number of the graph's streams.
    pub(super) streams: usize,
    /// The device and the number of bytes of each chunk of the graph's own memory.
    pub(super) heap: &'a [(DeviceId, u64)],
}

/// Converts a range of an argument of an inner graph to a range of an argument of the outer graph.
/// `at` has, for each argument of the inner graph, its argument and its range in the outer graph.
fn shift(touch: &mut ArgumentRange, at: &[ArgumentBytes]) {
    let (argument, range) = &at[touch.argument];
    touch.range = range.start + touch.range.start..range.start + touch.range.end;
    touch.argument = *argument;
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "record", cause)
}

impl RecordingState {
    /// The number of the stream with this lane. A new stream gets the next number.
    fn stream(&mut self, lane: LaneId) -> usize {
        let known = self.streams.iter().position(|known| *known == Some(lane));
        known.unwrap_or_else(|| {
            self.streams.push(Some(lane));
            self.streams.len() - 1
        })
    }

    /// Assigns the next number to a new stream. The lane may have belonged to a stream that was
    /// dropped.
    fn open(&mut self, lane: LaneId) {
        let gone = self.streams.iter_mut().filter(|known| **known == Some(lane));
        gone.for_each(|known| *known = None);
        self.streams.push(Some(lane));
    }

    /// Reserves numbers for the `streams` streams of a graph within the graph. Returns the first of
    /// these numbers.
    fn part(&mut self, streams: usize) -> usize {
        let first = self.streams.len();
        self.streams.extend(std::iter::repeat_n(None, streams));
        first
    }

    /// Adds an operation as a node, or compares it with the next node of the existing graph.
    fn add(&mut self, heap: &Heap, lane: RecordedLane, submission: &Submission<'_>) -> Result<()> {
        let label = submission.action.label();
        self.refuse_ended(label)?;
        let home = NodeHome { stream: self.stream(lane.id), device: lane.device };
        let priority = self.priority;
        if submission.slot.is_some() {
            return Err(unsupported("a host function that runs once"));
        }
        // This check comes before the check of the memory. So the error of an operation that cannot
        // be a node does not depend on the memory of the operation.
        submission.action.as_node().map_err(unsupported)?;
        let mut touches = SmallVec::<[ArgumentRange; 8]>::new();
        for access in submission.uses {
            let (argument, range) = self.locate(heap, label, access)?;
            touches.push(ArgumentRange { argument, range, mode: access.mode });
        }
        if let Some(comparison) = &mut self.comparison {
            comparison.operation(&submission.action, home, priority, &touches);
            return Ok(());
        }
        let mut node = Node::of(&submission.action, home)?;
        node.set_priority(priority);
        node.touches = touches.into_vec();
        self.nodes.push(node);
        Ok(())
    }

    /// Adds a node, or compares it with the next node of the existing graph.
    fn take(&mut self, node: Node) {
        match &mut self.comparison {
            Some(comparison) => comparison.node(node),
            None => self.nodes.push(node),
        }
    }

    fn refuse_ended(&self, label: &str) -> Result<()> {
        if self.has_ended {
            return Err(invalid(format!("`{label}`: the recording of this stream has ended")));
        }
        Ok(())
    }

    /// Finds the argument that contains the bytes of a use. The number of chunk `n` of the heap is
    /// `HEAP + n`. Also returns the range in bytes from the start of the argument or chunk.
    fn locate(&self, heap: &Heap, label: &str, used: &Use<'_>) -> Result<(usize, Range<u64>)> {
        let (block, range) = (used.track.id, &used.range);
        let has = |known: &RecordedArgument| {
            known.block == block && known.range.start <= range.start && range.end <= known.range.end
        };
        if let Some(argument) = self.arguments.iter().position(has) {
            let first = self.arguments[argument].range.start;
            return Ok((argument, range.start - first..range.end - first));
        }
        let heap_first = self.comparison.as_ref().map_or(HEAP, |comparison| comparison.arguments);
        match heap.locate(block, range) {
            Some((chunk, range)) => Ok((heap_first + chunk, range)),
            None => Err(invalid(format!(
                "`{label}` uses memory that is no argument of the graph; name it with \
                 `Recording::argument` first"
            ))),
        }
    }
}

impl Nodes {
    pub(super) fn new(device: &Device, priority: Option<i32>, allocates: bool) -> Self {
        let state = Mutex::new(RecordingState { priority, ..RecordingState::default() });
        let devices = Mutex::new(vec![device.clone()]);
        Self { devices, state, heap: Heap::new(), allocates }
    }

    /// Adds another device to the recording.
    pub(super) fn join(&self, device: &Device) -> Result<()> {
        let mut devices = self.devices();
        devices[0].shared().domain.own("record", device.shared().domain.id())?;
        if devices.iter().all(|known| known.id() != device.id()) {
            devices.push(device.clone());
        }
        Ok(())
    }

    fn devices(&self) -> MutexGuard<'_, Vec<Device>> {
        self.devices.lock().expect("no thread panicked while it held this lock")
    }

    /// Allocates memory of the graph on a device.
    fn allocate(&self, device: DeviceId, bytes: Bytes) -> Result<Temporary> {
        let known = self.devices().iter().find(|known| known.id() == device).cloned();
        let unknown = || invalid(format!("no stream of the recording is on {device}"));
        self.heap.alloc(&known.ok_or_else(unknown)?, bytes)
    }

    fn state(&self) -> MutexGuard<'_, RecordingState> {
        self.state.lock().expect("no thread panicked while it held this lock")
    }

    /// Registers a new stream.
    pub(super) fn open(&self, lane: LaneId) {
        self.state().open(lane);
    }

    /// Takes the recorded operations out. The streams and the heap stay.
    pub(super) fn take(&self) -> Recorded {
        let (memory, heap) = self.heap.take();
        let mut state = self.state();
        state.has_refused = false;
        let arguments = std::mem::take(&mut state.arguments);
        let mut nodes = std::mem::take(&mut state.nodes);
        let dropped = state.dropped_edge.take();
        let count = arguments.len();
        let mut number = |touch: &mut ArgumentRange| {
            if touch.argument >= HEAP {
                touch.argument = count + touch.argument - HEAP;
            }
        };
        nodes.iter_mut().for_each(|node| node.each_touch(&mut number));
        connect(&mut nodes, dropped);
        let elements = arguments.iter().map(|argument| argument.element).collect();
        let spans = arguments.into_iter().map(|argument| argument.span);
        Recorded { nodes, spans: spans.chain(memory).collect(), elements, heap }
    }

    /// Starts a comparison: operations that are recorded from now on are compared with `nodes`, the
    /// nodes of an existing graph. `arguments` is the number of arguments of this graph.
    pub(super) fn compare(&self, nodes: Vec<Node>, arguments: usize) {
        self.discard();
        self.state().comparison = Some(Comparison::new(nodes, arguments));
    }

    /// Ends the comparison and returns it. `spans` is the memory of the graph, and `elements` has
    /// the element types of its arguments. The second part of the result is the reason why the
    /// recording does not fit the graph, or `None`.
    pub(super) fn compared(
        &self,
        spans: &[Span],
        elements: &[ElementKind],
    ) -> (Comparison, Option<String>) {
        let mut state = self.state();
        let comparison = state.comparison.take().expect("`compare` began it");
        let kind = |span: &Span| (span.bytes(), span.memory().space());
        let arguments = state.arguments.iter().map(|argument| kind(&argument.span));
        let (named, own) = spans.split_at(comparison.arguments.min(spans.len()));
        let has_types = state.arguments.iter().map(|argument| &argument.element).eq(elements);
        let is_like = has_types && arguments.eq(named.iter().map(kind)) && self.heap.has_sizes(own);
        let other = || (!is_like).then(|| OTHER_MEMORY.to_owned());
        let mismatch = comparison.mismatch().or_else(other);
        (comparison, mismatch)
    }

    /// Takes the recorded operations out of a comparison. The streams and the heap stay.
    pub(super) fn take_compared(&self, comparison: Comparison) -> Recorded {
        let own = comparison.arguments;
        let mut nodes = comparison.into_nodes();
        let of_heap = |touch: &mut ArgumentRange| {
            // In the nodes of an existing graph, the numbers of the heap's chunks follow the
            // numbers of the arguments.
            if (own..HEAP).contains(&touch.argument) {
                touch.argument = HEAP + touch.argument - own;
            }
        };
        nodes.iter_mut().for_each(|node| node.each_touch(&mut |touch| of_heap(touch)));
        self.state().nodes = nodes;
        self.take()
    }

    /// Ends the recording.
    pub(super) fn end(&self) -> Recorded {
        self.state().has_ended = true;
        self.take()
    }

    /// Drops the recorded operations. The streams and the heap stay.
    pub(super) fn discard(&self) {
        let mut state = self.state();
        state.has_refused = false;
        state.arguments.clear();
        state.nodes.clear();
        state.comparison = None;
    }

    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        let launches = state.nodes.iter().filter(|node| node.is_kernel()).count();
        (launches, state.nodes.len() - launches)
    }

    pub(super) fn drop_edge(&self, number: usize) {
        self.state().dropped_edge = Some(number);
    }

    pub(super) fn has_refused(&self) -> bool {
        self.state().has_refused
    }

    /// Returns an error for a stream that does not belong to this recording.
    pub(super) fn demand(&self, stream: &Stream) -> Result<()> {
        let recorder = stream.lane().recorder();
        let is_own = |other: &Self| std::ptr::eq(other, self);
        if recorder.and_then(|r| r.as_any().downcast_ref()).is_some_and(is_own) {
            return Ok(());
        }
        Err(invalid("the stream does not belong to this recording".to_owned()))
    }

    /// Makes memory the next argument.
    pub(super) fn argument(&self, memory: &View<'_, u8>, element: ElementKind) -> Result<()> {
        let access = memory.read_use();
        self.devices()[0].shared().domain.own("record", access.track.domain)?;
        let (block, range) = (access.track.id, access.range);
        let mut state = self.state();
        let overlaps = |known: &RecordedArgument| {
            known.block == block && known.range.start < range.end && range.start < known.range.end
        };
        if let Some(known) = state.arguments.iter().position(overlaps) {
            let number = state.arguments.len();
            return Err(invalid(format!("argument {number} shares bytes with argument {known}")));
        }
        state.arguments.push(RecordedArgument { block, range, span: memory.span(), element });
        Ok(())
    }

    /// Adds copies of the nodes of another graph. They become a part of a stream: they follow
    /// earlier operations of the stream, and later operations of the stream follow them.
    pub(super) fn add_graph(
        &self,
        lane: LaneId,
        graph: &Part<'_>,
        arguments: &Uses<'_>,
    ) -> Result<()> {
        let mut state = self.state();
        state.refuse_ended("graph")?;
        if graph.nodes.iter().any(Node::is_captured) {
            return Err(unsupported("the work of another library in a graph within a graph"));
        }
        let (at, lent) = self.locations(&state, graph, arguments)?;
        let stream = state.stream(lane);
        let first = state.part(graph.streams);
        for node in graph.nodes {
            let mut node = node.copied_into(stream, first);
            node.each_touch(&mut |touch| shift(touch, &at));
            state.take(node);
        }
        // Operations that are recorded later may use the same bytes of the heap. These operations
        // then follow the copied nodes.
        lent.into_iter().for_each(|block| self.heap.release(block));
        Ok(())
    }

    /// Adds captured work of another library as one node. `uses` has the memory of the work.
    pub(super) fn add_captured<'u, 'a: 'u>(
        &self,
        lane: RecordedLane,
        captured: Captured,
        name: &'static str,
        uses: impl Iterator<Item = &'u Use<'a>>,
    ) -> Result<()> {
        let mut state = self.state();
        state.refuse_ended(name)?;
        let mut touches = Vec::new();
        for used in uses {
            let (argument, range) = state.locate(&self.heap, name, used)?;
            touches.push(ArgumentRange { argument, range, mode: used.mode });
        }
        let home = NodeHome { stream: state.stream(lane.id), device: lane.device };
        state.take(Node::captured(captured, name, touches, home));
        Ok(())
    }

    /// Adds copies of the nodes of another graph as the body of one new conditional node.
    pub(super) fn add_conditional(
        &self,
        lane: LaneId,
        condition: Condition,
        graph: &Part<'_>,
        arguments: &Uses<'_>,
    ) -> Result<()> {
        let mut state = self.state();
        state.refuse_ended("conditional")?;
        if graph.nodes.is_empty() {
            return Err(invalid(
                "the graph has no operations, so it cannot be the body of a conditional node"
                    .to_owned(),
            ));
        }
        if graph.nodes.iter().any(Node::is_captured) {
            return Err(unsupported("the work of another library in a graph within a graph"));
        }
        if graph.nodes.iter().any(Node::is_host_fn) {
            return Err(unsupported("a host function in a conditional node"));
        }
        let (at, lent) = self.locations(&state, graph, arguments)?;
        let (argument, range) = at[condition.argument].clone();
        let word = ArgumentRange { argument, range, mode: Mode::Read };
        let mut body: Vec<Node> = graph.nodes.iter().map(Node::copied_as_body).collect();
        body.iter_mut().for_each(|node| node.each_touch(&mut |touch| shift(touch, &at)));
        let mut touches = graph.touches.to_vec();
        touches.iter_mut().for_each(|touch| shift(touch, &at));
        let device = body[0].home.device;
        if body.iter().any(|node| node.home.device != device) {
            return Err(unsupported("a conditional node with operations of several devices"));
        }
        let home = NodeHome { stream: state.stream(lane), device };
        state.take(Node::conditional(condition.repeats, word, body, touches, home));
        lent.into_iter().for_each(|block| self.heap.release(block));
        Ok(())
    }

    /// Returns the ranges of this recording that replace the memory of the inner graph. The first
    /// ranges replace the arguments of the inner graph. The next ranges are in this recording's
    /// heap, and replace the inner graph's own memory. Also returns the blocks of the ranges in the
    /// heap.
    fn locations(
        &self,
        state: &RecordingState,
        graph: &Part<'_>,
        arguments: &Uses<'_>,
    ) -> Result<(Vec<ArgumentBytes>, Vec<BlockId>)> {
        let mut at = Vec::new();
        for argument in &arguments.all {
            at.push(state.locate(&self.heap, "graph", &argument.access)?);
        }
        let mut lent = Vec::new();
        for (device, bytes) in graph.heap {
            let Temporary { track, .. } = self.allocate(*device, Bytes(*bytes))?;
            let used = Use { track: &track, range: 0..*bytes, mode: Mode::Write };
            at.push(state.locate(&self.heap, "graph", &used)?);
            lent.push(track.id);
        }
        Ok((at, lent))
    }
}

impl Recorder for Nodes {
    fn take(&self, lane: RecordedLane, submission: &Submission<'_>) -> Result<()> {
        let mut state = self.state();
        let taken = state.add(&self.heap, lane, submission);
        state.has_refused |= taken.is_err();
        taken
    }

    fn alloc(&self, device: DeviceId, bytes: Bytes) -> Result<Temporary> {
        let mut state = self.state();
        state.refuse_ended("alloc")?;
        if !self.allocates {
            state.has_refused = true;
            return Err(unsupported("an allocation"));
        }
        drop(state);
        self.allocate(device, bytes)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
