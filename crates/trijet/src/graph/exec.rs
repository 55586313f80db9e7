//! A graph that can be launched.
#![forbid(unsafe_code)]

use super::node::{ArgumentRange, Condition, Node};
use super::nodes::{Nodes, Part, Recorded};
use super::verify::race;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::interval::RangeMap;
use crate::base::ledger::Mode;
use crate::device::driver::{Action, GraphHandle};
use crate::device::memory::{Space, Span};
use crate::log::calling;
use crate::memory::{Buffer, ElementKind, UsedMemory, Uses};
use crate::order::calls::recorder::Recorder;
use crate::order::submission::Submission;
use crate::order::track::Use;
use crate::stream::shared::OpenDevice;
use crate::stream::{Device, Stream};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// If a kernel uses an argument, the memory of a launch must have the same address as the recorded
/// memory, modulo this number of bytes. The reason is that the check of the kernel saw only the
/// recorded addresses, and may have required an alignment.
const ALIGNMENT: u64 = 256;
/// Maximum number of different labels of operations in the name of a graph.
const NAMED_MAX: usize = 4;
/// Maximum number of accesses of an operation.
const ACCESSES_MAX: usize = 64;

/// A recorded graph, see [`Device::record`].
pub struct Graph {
    device: Arc<OpenDevice>,
    /// The graph of the driver. `None` for a graph without nodes.
    handle: Option<GraphHandle>,
    nodes: Vec<Node>,
    /// The name of the graph in traces.
    name: String,
    /// The memory that the driver's graph uses now: the arguments, then the memory in `heap`.
    spans: Vec<Span>,
    /// The element type of each argument.
    elements: Vec<ElementKind>,
    /// The memory that was allocated while the graph was recorded.
    heap: Vec<Buffer<u8>>,
    /// The uses of the arguments by all nodes together.
    touches: Vec<ArgumentRange>,
    /// The uses in `touches`, as ranges of the memory in `spans`.
    touched: Vec<(Span, Mode)>,
    /// Whether a node is a host function.
    has_host_fn: bool,
    /// The error of the driver that stopped a change of the graph. Launches return this error.
    broken: Option<Error>,
    /// Whether `nodes` is empty because a comparison with a recording has taken the nodes.
    /// [`Graph::change`] always puts the nodes back. [`Graph::renew`] loses the nodes if the
    /// recorded code panics.
    is_compared: bool,
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Graph").field("nodes", &self.nodes.len()).finish_non_exhaustive()
    }
}

/// A name that no other graph of the driver has. The name includes the labels of the first
/// operations.
fn name(handle: Option<GraphHandle>, nodes: &[Node]) -> String {
    let mut labels: Vec<String> = Vec::new();
    for node in nodes {
        let label = node.label();
        if labels.len() == NAMED_MAX {
            break;
        }
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    let number = handle.map_or(0, |handle| handle.0);
    format!("graph {number}: {}", labels.join(", "))
}

/// The properties that the memory of a launch must have in common with the memory of the recording.
/// A search for a graph that can be launched with other memory uses them as its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MemoryLikeness {
    bytes: u64,
    space: Space,
    /// The address modulo [`ALIGNMENT`].
    offset: u64,
}

/// The properties that other memory must have to replace this memory in a launch.
pub(crate) fn alike(span: &Span) -> MemoryLikeness {
    let (bytes, space) = (span.bytes(), span.memory().space());
    MemoryLikeness { bytes, space, offset: span.address() % ALIGNMENT }
}

fn invalid(cause: String) -> Error {
    Error::new(ErrorKind::InvalidValue, "graph launch", cause)
}

/// The arguments, followed by the memory of the graph itself.
fn with_heap<'l: 's, 's>(arguments: Uses<'l>, heap: &'s mut [Buffer<u8>]) -> Uses<'s> {
    // A `SmallVec` cannot shorten the lifetime of its elements in place.
    let shorter = |argument: UsedMemory<'l>| -> UsedMemory<'s> { argument };
    let arguments = Uses { all: arguments.all.into_iter().map(shorter).collect() };
    heap.iter_mut().fold(arguments, |all, chunk| all.write(chunk.view_mut()))
}

/// Converts a range of an argument to a span. `whole` is the memory of the argument.
fn span_of(touch: &ArgumentRange, whole: &Span) -> Span {
    let first = whole.range().start;
    whole.memory().span(first + touch.range.start..first + touch.range.end)
}

/// The memory of each range in `touches`, with the access mode of the range.
fn touched(touches: &[ArgumentRange], spans: &[Span]) -> Vec<(Span, Mode)> {
    touches.iter().map(|touch| (span_of(touch, &spans[touch.argument]), touch.mode)).collect()
}

/// The uses of the arguments by the graph as a whole. If the nodes use too many ranges of an
/// argument, the whole argument is one range, with the combined access mode of all these ranges.
fn touches(nodes: &[Node], arguments: &[Span]) -> Vec<ArgumentRange> {
    let mut maps: Vec<RangeMap<(bool, bool)>> = Vec::new();
    maps.resize_with(arguments.len(), RangeMap::default);
    for touch in nodes.iter().flat_map(|node| &node.touches) {
        maps[touch.argument].update(touch.range.clone(), Default::default, |(reads, writes)| {
            // If an earlier node of the graph wrote the bytes, the launch as a whole does not read
            // them.
            *reads |= touch.mode != Mode::Write && !*writes;
            *writes |= touch.mode.writes();
        });
    }
    let mode = |(reads, writes)| match (reads, writes) {
        (_, false) => Mode::Read,
        (false, true) => Mode::Write,
        (true, true) => Mode::Update,
    };
    let each_max = (ACCESSES_MAX / arguments.len().max(1)).max(1);
    let mut all = Vec::new();
    for (argument, (map, span)) in maps.iter().zip(arguments).enumerate() {
        let parts: Vec<_> = map.overlapping(0..span.bytes()).collect();
        if parts.len() <= each_max {
            let touch = |(range, used): &(_, _)| ArgumentRange {
                argument,
                range: Clone::clone(range),
                mode: mode(*used),
            };
            all.extend(parts.into_iter().map(touch));
        } else {
            // Bytes that no node touches keep their content. So the whole argument does not count
            // as overwritten.
            let writes = parts.iter().any(|(_, (_, writes))| *writes);
            let mode = if writes { Mode::Update } else { Mode::Read };
            all.push(ArgumentRange { argument, range: 0..span.bytes(), mode });
        }
    }
    all
}

/// Returns an error if two nodes race, on a device that was opened with the checker. The last `own`
/// spans are memory of the graph itself.
fn refuse_race(device: &OpenDevice, nodes: &[Node], spans: &[Span], own: usize) -> Result<()> {
    if device.domain.log().tracers.has_checker()
        && let Some(race) = race(nodes, spans, spans.len() - own)
    {
        return Err(Error::new(ErrorKind::InvalidValue, "record", race));
    }
    Ok(())
}

/// How [`Graph::renew`] changed a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// This number of nodes got new values.
    Patched(usize),
    /// The graph was created anew.
    Anew,
}

impl Graph {
    pub(super) fn new(device: &Device, recorded: Recorded) -> Result<Self> {
        let Recorded { nodes, spans, elements, heap } = recorded;
        let shared = Arc::clone(device.shared());
        refuse_race(&shared, &nodes, &spans, heap.len())?;
        let touches = touches(&nodes, &spans);
        if touches.len() > ACCESSES_MAX {
            let (count, cause) = (spans.len(), "arguments; a graph has at most 64");
            return Err(Error::new(ErrorKind::InvalidValue, "record", format!("{count} {cause}")));
        }
        let touched = touched(&touches, &spans);
        let has_host_fn = nodes.iter().any(Node::is_host_fn);
        let mut graph = Self {
            device: shared,
            handle: None,
            name: String::new(),
            nodes,
            spans,
            elements,
            heap,
            touches,
            touched,
            has_host_fn,
            broken: None,
            is_compared: false,
        };
        if !graph.nodes.is_empty() {
            graph.create().map_err(|error| graph.device.failed(error))?;
        }
        graph.name = name(graph.handle, &graph.nodes);
        Ok(graph)
    }

    /// Creates the graph of the driver.
    fn create(&mut self) -> Result<()> {
        let driver = Arc::clone(self.device.domain.driver());
        let handle = driver.graph_create(self.device.id)?;
        // From here on, the drop of the `Graph` destroys the driver's graph, even if an operation
        // below fails.
        self.handle = Some(handle);
        for node in &self.nodes {
            let span = |touch: &ArgumentRange| span_of(touch, &self.spans[touch.argument]);
            node.with_action(span, |action| {
                driver.graph_add(handle, node.home.device, action, &node.after)
            })?;
        }
        driver.graph_ready(handle)
    }

    /// Replaces the driver's graph by a new one, because a conditional node cannot be changed.
    fn create_again(&mut self) -> Result<()> {
        let old = self.handle.take();
        let created = self.create();
        let driver = self.device.domain.driver();
        let destroyed = old.map_or(Ok(()), |old| driver.graph_destroy(old));
        if let Err(error) = created {
            self.broken = Some(error.again());
            return Err(error);
        }
        destroyed
    }

    /// Records `work`. If only values differ from the graph, changes the graph to the recorded
    /// operations.
    ///
    /// # Errors
    /// The outer error is the error of `work`. The inner error is the reason why the graph could
    /// not be changed.
    pub(super) fn change<E>(
        &mut self,
        nodes: &Nodes,
        work: impl FnOnce() -> std::result::Result<(), E>,
    ) -> std::result::Result<Result<()>, E> {
        /// Puts the nodes back into the graph, even if the recorded code panics.
        struct Compared<'a>(&'a mut Graph, &'a Nodes);

        impl Compared<'_> {
            fn end(&mut self) -> (Vec<(usize, Node)>, Option<String>) {
                let (comparison, mismatch) = self.1.compared(&self.0.spans, &self.0.elements);
                self.0.nodes = comparison.known;
                self.0.is_compared = false;
                (comparison.changes, mismatch)
            }
        }

        impl Drop for Compared<'_> {
            fn drop(&mut self) {
                if self.0.is_compared {
                    drop(self.end());
                }
            }
        }

        self.is_compared = true;
        nodes.compare(std::mem::take(&mut self.nodes), self.spans.len() - self.heap.len());
        let mut compared = Compared(self, nodes);
        let outcome = work();
        let (changes, mismatch) = compared.end();
        drop(compared);
        outcome?;
        Ok(match mismatch {
            Some(why) => Err(Error::new(ErrorKind::InvalidValue, "record again", why)),
            None => self.apply(changes),
        })
    }

    /// Records `work`, and changes the graph to the recorded operations. If only values differ,
    /// changes nodes of the driver's graph. Otherwise creates the driver's graph anew.
    pub(super) fn renew(&mut self, nodes: &Nodes, work: impl FnOnce()) -> Result<Renewed> {
        self.is_compared = true;
        nodes.compare(std::mem::take(&mut self.nodes), self.spans.len() - self.heap.len());
        work();
        let (mut comparison, mismatch) = nodes.compared(&self.spans, &self.elements);
        self.is_compared = false;
        if mismatch.is_none() {
            self.nodes = std::mem::take(&mut comparison.known);
            let patched = comparison.changes.len();
            self.apply(comparison.changes)?;
            return Ok(Renewed::Patched(patched));
        }
        let Recorded { nodes, spans, elements, heap } = nodes.take_compared(comparison);
        self.heap.extend(heap);
        self.elements = elements;
        let replaced = self.replace(nodes, spans).map_err(|error| self.device.failed(error));
        replaced.inspect_err(|error| self.broken = Some(error.again()))?;
        Ok(Renewed::Anew)
    }

    /// Replaces the nodes and the memory. `spans` has the memory of the arguments, followed by the
    /// memory in `heap`.
    fn replace(&mut self, nodes: Vec<Node>, spans: Vec<Span>) -> Result<()> {
        refuse_race(&self.device, &nodes, &spans, self.heap.len())?;
        self.touches = touches(&nodes, &spans);
        self.touched = touched(&self.touches, &spans);
        self.has_host_fn = nodes.iter().any(Node::is_host_fn);
        (self.nodes, self.spans) = (nodes, spans);
        if self.nodes.is_empty() {
            let old = self.handle.take();
            old.map_or(Ok(()), |old| self.device.domain.driver().graph_destroy(old))?;
        } else {
            self.create_again()?;
        }
        self.name = name(self.handle, &self.nodes);
        Ok(())
    }

    /// Changes nodes of the driver's graph. Each change has the index of a node and the node with
    /// new values.
    fn apply(&mut self, changes: Vec<(usize, Node)>) -> Result<()> {
        let Some(handle) = self.handle else { return Ok(()) };
        if changes.iter().any(|(_, node)| node.is_conditional()) {
            changes.into_iter().for_each(|(number, node)| self.nodes[number] = node);
            return self.create_again().map_err(|error| self.device.failed(error));
        }
        for (number, node) in changes {
            let driver = self.device.domain.driver();
            let span = |touch: &ArgumentRange| span_of(touch, &self.spans[touch.argument]);
            let updated =
                node.with_action(span, |action| driver.graph_update(handle, number, action));
            if let Err(error) = updated {
                // The driver has changed some of the nodes, but not all.
                self.broken = Some(error.again());
                return Err(self.device.failed(error));
            }
            self.nodes[number] = node;
        }
        Ok(())
    }

    pub(super) fn is_of(&self, device: &OpenDevice) -> bool {
        self.device.id == device.id && self.device.domain.id() == device.domain.id()
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the graph has no operation. Launching it then does nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns an error if the graph, the stream and the arguments do not fit together.
    pub(super) fn demand(&self, stream: &Stream, arguments: &Uses<'_>) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.again());
        }
        if self.is_compared {
            return Err(invalid(
                "the code that recorded the graph again panicked; record a new graph".to_owned(),
            ));
        }
        if !self.is_of(stream.device()) {
            return Err(invalid("the graph was recorded on another device".to_owned()));
        }
        self.check(arguments)
    }

    fn launch(
        &mut self,
        stream: &Stream,
        arguments: Uses<'_>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.demand(stream, &arguments)?;
        if let Some(recorder) = stream.lane().recorder() {
            return self.record_in(&**recorder, stream, None, &arguments);
        }
        for argument in &arguments.all {
            self.device.domain.own("graph launch", argument.access.track.domain)?;
        }
        let mut heap = std::mem::take(&mut self.heap);
        let launched = self.launch_checked(stream, &with_heap(arguments, &mut heap), site);
        self.heap = heap;
        launched
    }

    /// Adds the operations of the graph to the graph that `stream` records. With a `condition`, the
    /// operations become the body of one conditional node.
    pub(super) fn record_in(
        &self,
        recorder: &dyn Recorder,
        stream: &Stream,
        condition: Option<Condition>,
        arguments: &Uses<'_>,
    ) -> Result<()> {
        let nodes = recorder.as_any().downcast_ref::<Nodes>().expect("there is one recorder");
        let streams =
            self.nodes.iter().flat_map(|node| node.within.iter().chain([&node.home.stream]));
        let streams = streams.max().map_or(0, |most| most + 1);
        let chunk = |chunk: &Buffer<u8>| {
            (chunk.device_id().unwrap_or(self.device.id), chunk.view().span().bytes())
        };
        let heap: Vec<_> = self.heap.iter().map(chunk).collect();
        let (touches, lane) = (&self.touches[..], stream.lane().id);
        let part = Part { nodes: &self.nodes, touches, streams, heap: &heap };
        match condition {
            None => nodes.add_graph(lane, &part, arguments),
            Some(condition) => nodes.add_conditional(lane, condition, &part, arguments),
        }
    }

    fn launch_checked(
        &mut self,
        stream: &Stream,
        arguments: &Uses<'_>,
        site: &'static Location<'static>,
    ) -> Result<()> {
        let Some(graph) = self.handle else { return Ok(()) };
        self.update(graph, arguments).map_err(|error| self.device.failed(error))?;
        // `update` may have created another graph of the driver.
        let graph = self.handle.unwrap_or(graph);
        let uses = self.touches.iter().map(|touch| {
            let Use { track, range, .. } = &arguments.all[touch.argument].access;
            let range = range.start + touch.range.start..range.start + touch.range.end;
            Use { track, range, mode: touch.mode }
        });
        let uses: SmallVec<[_; 16]> = uses.collect();
        let action = Action::Graph { graph, touches: &self.touched, name: &self.name };
        let submission = stream.submission(action, &uses, site);
        stream.lane().enqueue(&Submission { has_host_fn: self.has_host_fn, ..submission })
    }

    /// Returns an error if the memory does not fit the arguments of the graph.
    fn check(&self, arguments: &Uses<'_>) -> Result<()> {
        let (given, wanted) = (arguments.all.len(), self.spans.len() - self.heap.len());
        if given != wanted {
            return Err(invalid(format!(
                "the graph has {wanted} arguments, and {given} were passed"
            )));
        }
        for (number, (argument, was)) in arguments.all.iter().zip(&self.spans).enumerate() {
            let (span, bytes) = (&argument.span, was.bytes());
            if span.bytes() != bytes {
                let given = span.bytes();
                return Err(invalid(format!(
                    "argument {number} was recorded with {bytes} bytes, and {given} bytes were passed"
                )));
            }
            if span.memory().space() != was.memory().space() {
                let (given, wanted) = (span.memory().space(), was.memory().space());
                return Err(invalid(format!(
                    "argument {number} was recorded as {wanted}, and {given} was passed"
                )));
            }
            let (given, wanted) = (argument.element, self.elements[number]);
            if given != wanted {
                return Err(invalid(format!(
                    "argument {number} has elements of {wanted}, and a buffer of {given} was passed"
                )));
            }
            let moves = alike(span) != alike(was);
            if moves && self.nodes.iter().any(|node| node.is_kernel_with(number)) {
                return Err(invalid(format!(
                    "the address of argument {number} modulo {ALIGNMENT} differs from the \
                     address with which the graph \
                     was recorded, and a kernel uses it"
                )));
            }
            let written = |touch: &&ArgumentRange| touch.argument == number && touch.mode.writes();
            if !argument.access.mode.writes() && self.touches.iter().any(|touch| written(&touch)) {
                return Err(invalid(format!(
                    "the graph writes argument {number}; pass it to `write` or `update`"
                )));
            }
            let shared = arguments.all[..number].iter().position(|other| {
                let writes = other.access.mode.writes() || argument.access.mode.writes();
                writes && other.span.overlaps(span)
            });
            if let Some(other) = shared {
                return Err(invalid(format!(
                    "argument {number} shares bytes with argument {other}"
                )));
            }
        }
        Ok(())
    }

    /// Makes the driver's graph use the memory of the arguments.
    fn update(&mut self, graph: GraphHandle, arguments: &Uses<'_>) -> Result<()> {
        let is_other =
            |number: usize| arguments.all[number].span.address() != self.spans[number].address();
        let others: SmallVec<[bool; 16]> = (0..self.spans.len()).map(is_other).collect();
        if !others.contains(&true) {
            return Ok(());
        }
        let moves = |node: &Node| node.touches.iter().any(|touch| others[touch.argument]);
        if let Some(node) = self.nodes.iter().find(|node| node.is_captured() && moves(node)) {
            let name = node.label();
            return Err(invalid(format!(
                "`{name}` is captured work, which always uses the memory of the recording; record the \
                 graph again to use other memory"
            )));
        }
        if self.nodes.iter().any(|node| node.is_conditional() && moves(node)) {
            self.keep(arguments);
            return self.create_again();
        }
        let driver = Arc::clone(self.device.domain.driver());
        let new = |touch: &ArgumentRange| span_of(touch, &arguments.all[touch.argument].span);
        for (number, node) in self.nodes.iter().enumerate() {
            if moves(node) {
                let updated =
                    node.with_action(new, |action| driver.graph_update(graph, number, action));
                if let Err(error) = updated {
                    self.broken = Some(error.again());
                    return Err(error);
                }
            }
        }
        self.keep(arguments);
        Ok(())
    }

    /// Stores the arguments as the memory that the driver's graph uses now.
    fn keep(&mut self, arguments: &Uses<'_>) {
        for (span, argument) in self.spans.iter_mut().zip(&arguments.all) {
            *span = argument.span.clone();
        }
        self.touched = touched(&self.touches, &self.spans);
    }
}

impl Stream {
    /// Launches a graph with this memory as its arguments. The order of the arguments is the order
    /// in which the recording named them. For memory that the graph writes, [`Uses::write`] and
    /// [`Uses::update`] mean the same here.
    ///
    /// The launch is one operation of the stream. It follows earlier uses of the memory on every
    /// stream, and later uses follow it. It also follows the previous launch of the graph (law
    /// [A31](crate::laws#a31)).
    ///
    /// The memory may differ from the memory of the recording. It must have the same number of
    /// bytes, and be the same kind of memory. Memory that a kernel uses must also have the same
    /// address modulo 256 bytes. Allocations of a device begin at multiples of 256 bytes, so this
    /// concerns parts of buffers only. The tilings of kernels are encoded again for the new memory.
    ///
    /// In a stream of a [recording](super::Recording), copies of the graph's operations become a
    /// part of the recorded graph. They follow earlier operations of the stream, and later
    /// operations of the stream follow them. Later changes of `graph` do not change the recorded
    /// graph.
    ///
    /// # Errors
    /// `InvalidValue` if the arguments differ from the arguments of the graph, or for a stream of
    /// another device; an error of the driver.
    #[track_caller]
    pub fn launch_graph(&self, graph: &mut Graph, arguments: Uses<'_>) -> Result<()> {
        calling::refuse("graph launch")?;
        graph.launch(self, arguments, Location::caller())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Some(handle) = self.handle {
            self.device.destroy_graph(handle);
        }
    }
}
