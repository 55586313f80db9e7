//! The graph of a run, from the records of its trace.
#![forbid(unsafe_code)]

use super::super::activities::{is_timed, loads};
use super::super::calls::{Class, ProgramCalls};
use super::super::findings::ProcessStreams;
use super::edges::{CALL_NS, CallOf, EdgeKind, Moments, RunEdge, WaitOf};
use super::events::EventOrder;
use super::graphs::{LaunchOrder, NodeBefore, SilentNode};
use super::host::HostOrder;
use super::run::{CopyRate, Placed, RunModel};
use super::sorted::SortedTrace;
use super::waits::{CLOCKS_NS, CallWait};
use crate::trace::activity::{Activity, ActivityKind, CopyDirection, MemoryKind, ProcessTrace};
use std::collections::{BTreeMap, HashMap};

/// Maximum time in nanoseconds from the end of a call to the start of its operation that the launch
/// explains, and maximum gap between two operations of a stream.
pub(super) const LATENCY_MAX_NS: u64 = 20_000;
/// Maximum time in nanoseconds from the end of an operation to the return of a call that waits for
/// it.
pub(super) const RETURN_MAX_NS: u64 = 100_000;
/// Maximum number of operations that are searched for one that another operation follows.
const SEARCHED_MAX: usize = 8;

/// Delays of a program, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Typical {
    /// The median time from the start of a call to the start of its operation, among operations
    /// whose stream was idle.
    latency: u64,
    /// The median gap between two operations of a stream, among operations that were enqueued
    /// before the first one ended, and that neither the legacy stream nor an event delayed.
    gap: u64,
}

/// The operations before an operation.
struct Earlier<'a> {
    /// The last one of its stream.
    stream: Option<usize>,
    /// The last one of its stream that is no copy between host and device.
    kernel: Option<usize>,
    /// The last one of its copy engine, if it is not the last one of its stream.
    engine: Option<usize>,
    /// The last ones of streams that the legacy stream orders with its stream.
    legacy: &'a [usize],
    /// The last ones of streams that its stream waited for.
    events: &'a [usize],
    /// The nodes before it in its graph. If there are some, it follows no operation of its own
    /// launch for another reason.
    graph: &'a [NodeBefore],
}

/// The last operations of a stream.
#[derive(Debug, Clone, Copy)]
struct LastOfStream {
    operation: usize,
    /// The last one that belongs to another launch of a graph than `operation`.
    before_launch: Option<usize>,
}

/// The operations that each operation follows because of the legacy stream.
type FollowedByLegacy = HashMap<usize, Vec<usize>>;

/// The order between operations that the records state, other than the order of their streams.
struct StreamOrder {
    legacy: FollowedByLegacy,
    events: EventOrder,
    graphs: LaunchOrder,
}

impl StreamOrder {
    /// Whether an operation follows another one by this order.
    fn holds(&self, operation: usize) -> bool {
        self.legacy.contains_key(&operation)
            || !self.events.before(operation).is_empty()
            || !self.graphs.before(operation).is_empty()
    }
}

/// An edge to the start of an operation, with the measured time of the moment that it comes from.
struct Timed {
    from: u32,
    at: u64,
    delay: u64,
    kind: EdgeKind,
}

/// The parts of a graph.
struct Builder<'a> {
    trace: &'a SortedTrace<'a>,
    /// See [`RunModel::loading`].
    loading: HashMap<u32, u64>,
    edges: Vec<(u32, RunEdge)>,
}

impl RunModel {
    /// The model of a process. `None` without operations with known times, or if the records have
    /// no order.
    pub(in crate::profile) fn of(trace: &ProcessTrace, calls: &ProgramCalls) -> Option<Self> {
        let sorted = SortedTrace::of(trace, calls)?;
        Builder { trace: &sorted, loading: HashMap::new(), edges: Vec::new() }.model()
    }
}

impl Builder<'_> {
    fn add(&mut self, from: u32, to: u32, delay: u64, kind: EdgeKind) {
        self.edges.push((to, RunEdge { from, delay, kind }));
    }

    fn model(mut self) -> Option<RunModel> {
        self.loading = self.loads();
        self.add_calls();
        let order = StreamOrder {
            legacy: self.legacy_order(),
            events: self.trace.event_order(),
            graphs: self.trace.graph_order(),
        };
        self.add_silent(&order.graphs);
        self.add_operations(&order);
        let silent = order.graphs.silent.len();
        let count = 2 * (self.trace.calls.len() + self.trace.operations.len()) + 1 + silent;
        let moments = Moments::of(count, &self.edges)?;
        let rate = |wanted: CopyDirection| {
            let pinned = |one: &&Activity| {
                matches!(one.kind, ActivityKind::Copy { direction, from, to } if direction == wanted
                    && (from == MemoryKind::Pinned || to == MemoryKind::Pinned))
            };
            CopyRate::fastest(self.trace.operations.iter().map(|one| one.activity).filter(pinned))
        };
        let rates = [rate(CopyDirection::Upload), rate(CopyDirection::Download)];
        let placed = self.trace.operations.iter().enumerate().map(|(at, one)| Placed {
            device: one.activity.device,
            time: one.begin()..one.end(),
            begin: self.trace.of_operation(at),
        });
        let operations = placed.collect();
        let loading = self.loading;
        Some(RunModel { moments, operations, loading, waiting: HashMap::new(), rates })
    }

    /// The parts of calls in which kernels or modules were loaded, by the moment of the end of the
    /// call, and by the moments of the starts of its operations. A load counts for the last call
    /// that began before it.
    fn loads(&self) -> HashMap<u32, u64> {
        let mut found: HashMap<u32, u64> = HashMap::new();
        let mut by_begin: Vec<usize> = (0..self.trace.calls.len()).collect();
        by_begin.sort_by_key(|&at| self.trace.calls[at].time.start);
        for one in self.trace.of.activities.iter().filter(|one| is_timed(one)) {
            if !matches!(one.kind, ActivityKind::Overhead(kind) if loads(kind)) {
                continue;
            }
            let begun =
                by_begin.partition_point(|&at| self.trace.calls[at].time.start <= one.begin.0);
            let around = by_begin[..begun].iter().rev().take(SEARCHED_MAX);
            let around = { around }.find(|&&at| self.trace.calls[at].time.end >= one.end.0);
            if let Some(&at) = around {
                let ops =
                    self.trace.enqueued_by(at).into_iter().map(|one| self.trace.of_operation(one));
                for moment in ops.chain([self.trace.of_call(at) + 1]) {
                    let sum = found.entry(moment).or_default();
                    *sum = sum.saturating_add(one.end.0 - one.begin.0);
                }
            }
        }
        found
    }

    fn add_calls(&mut self) {
        let order = HostOrder::of(self.trace.calls);
        for (at, call) in self.trace.calls.iter().enumerate() {
            let begin = self.trace.of_call(at);
            match order.previous(at) {
                Some(previous) => {
                    let delay =
                        call.time.start.saturating_sub(self.trace.calls[previous.call].time.end);
                    self.add(
                        self.trace.of_call(previous.call) + 1,
                        begin,
                        delay,
                        EdgeKind::Program,
                    );
                    if let Some(own) = order.on_thread(at).filter(|_| previous.is_of_another) {
                        self.add(self.trace.of_call(own) + 1, begin, 0, EdgeKind::Program);
                    }
                }
                None => self.add(0, begin, call.time.start - self.trace.start, EdgeKind::Start),
            }
            self.add_call(at);
        }
    }

    /// Adds the edges to the end of a call: from its start, and from the operations that it waits
    /// for.
    fn add_call(&mut self, at: usize) {
        let calls = self.trace.calls;
        let call = &calls[at];
        let (begin, length) = (self.trace.of_call(at), call.time.end - call.time.start);
        let own = self.trace.enqueued_by(at);
        let is_staged = own.iter().any(|&one| self.trace.operations[one].staged().is_some());
        let of = match call.class {
            Class::DeviceSync | Class::StreamSync => CallOf::Sync,
            Class::CopySync => CallOf::Copy,
            Class::CopyAsync if is_staged => CallOf::Staged,
            Class::Alloc => CallOf::Allocation,
            _ if own.is_empty() => CallOf::Other,
            _ => CallOf::Enqueue,
        };
        let mut delay = length;
        if let Some(CallWait { of, operations }) = self.trace.awaited(at) {
            let latest = operations.iter().map(|&one| self.trace.operations[one].end()).max();
            let latest = latest.unwrap_or(0);
            // A call that copies or allocates works on the host after the wait.
            let explained = match of {
                _ if latest <= call.time.start => CALL_NS,
                WaitOf::Sync => RETURN_MAX_NS,
                _ => u64::MAX,
            };
            let tail = call.time.end.saturating_sub(latest).min(explained);
            for one in operations {
                let (moment, kind) = (self.trace.of_operation(one), EdgeKind::Awaited(of));
                let end = self.trace.operations[one].end();
                if end > call.time.end {
                    // Within the error of the clocks, the call returned with the operation.
                    let begun = self.trace.operations[one].begin().min(call.time.end);
                    self.add(moment, begin + 1, call.time.end - begun, kind);
                } else {
                    self.add(moment + 1, begin + 1, tail.min(call.time.end - end), kind);
                }
            }
            if latest > call.time.start {
                delay = delay.min(CALL_NS);
            }
        }
        self.add(begin, begin + 1, delay, EdgeKind::Call(of));
    }

    /// For each operation with a known call, the start of the call without the loading of kernels,
    /// the end of the operation before it in its stream, and its own start. Operations that the
    /// legacy stream or an event delayed are left out.
    fn launches(&self, order: &StreamOrder) -> impl Iterator<Item = [u64; 3]> {
        self.trace.streams.values().flat_map(move |list| {
            list.iter().enumerate().filter_map(move |(at, &one)| {
                if order.holds(one) {
                    return None;
                }
                let load = self.loading.get(&self.trace.of_operation(one)).copied().unwrap_or(0);
                let called = self.trace.calls[self.trace.operations[one].call?]
                    .time
                    .start
                    .saturating_add(load);
                let free =
                    at.checked_sub(1).map_or(0, |last| self.trace.operations[list[last]].end());
                Some([called, free, self.trace.operations[one].begin()])
            })
        })
    }

    /// The typical delays of this program.
    fn typical(&self, order: &StreamOrder) -> Typical {
        let median = |mut list: Vec<u64>| {
            list.sort_unstable();
            list.get(list.len() / 2).map_or(CALL_NS, |median| (*median).min(LATENCY_MAX_NS))
        };
        let idle = self.launches(order).filter(|[called, free, _]| free <= called);
        let latency = median(idle.map(|[called, _, begin]| begin.saturating_sub(called)).collect());
        let is_queued = |[called, free, _]: &[u64; 3]| called.saturating_add(latency) <= *free;
        let queued = self.launches(order).filter(is_queued);
        let gap = median(queued.map(|[_, free, begin]| begin.saturating_sub(free)).collect());
        Typical { latency, gap }
    }

    /// Adds the edges to the nodes of graphs that left no operation.
    fn add_silent(&mut self, graphs: &LaunchOrder) {
        for (at, SilentNode { before, call, .. }) in graphs.silent.iter().enumerate() {
            let moment = self.trace.of_silent(at);
            for one in before {
                let from = match *one {
                    NodeBefore::Operation(one) => self.trace.of_operation(one) + 1,
                    NodeBefore::Silent(one) => self.trace.of_silent(one),
                };
                self.add(from, moment, 0, EdgeKind::Graph);
            }
            if let Some(call) = *call {
                self.add(self.trace.of_call(call), moment, 0, EdgeKind::Launch);
            }
        }
    }

    fn add_operations(&mut self, order: &StreamOrder) {
        let typical = self.typical(order);
        // The copies of a direction share an engine.
        let mut on_engine: HashMap<(u32, CopyDirection), usize> = HashMap::new();
        let mut on_stream: HashMap<(u32, u32), LastOfStream> = HashMap::new();
        let mut last_kernels: HashMap<(u32, u32), usize> = HashMap::new();
        for at in 0..self.trace.operations.len() {
            let one = &self.trace.operations[at];
            let (stream, is_copy) = (one.stream(), one.is_copy());
            let mut kind = EdgeKind::Run;
            let mut engine = None;
            if let ActivityKind::Copy { direction, .. } = one.activity.kind {
                let before = on_engine.insert((one.activity.device, direction), at);
                engine = before.filter(|_| is_copy);
                if one.staged().is_some() {
                    let call = one.call.map(|call| self.trace.calls[call].class);
                    let is_waited_for = call == Some(Class::CopySync);
                    let bytes = one.activity.bytes;
                    kind = EdgeKind::StagedCopy { direction, bytes, is_waited_for };
                }
            }
            let (moment, length) = (self.trace.of_operation(at), one.end() - one.begin());
            self.add(moment, moment + 1, length, kind);
            let last = on_stream.get(&stream).copied();
            let is_of_launch = |one: &usize| order.graphs.are_of_one_launch(*one, at);
            // The last operation of the stream before the launch, or before the operation.
            let outside = match last {
                Some(last) if is_of_launch(&last.operation) => last.before_launch,
                last => last.map(|last| last.operation),
            };
            on_stream.insert(stream, LastOfStream { operation: at, before_launch: outside });
            let graph = order.graphs.before(at);
            let is_first = !order.graphs.is_later(at);
            let followed = outside.filter(|_| is_first);
            let kernel = last_kernels.get(&stream).copied().filter(|one| !is_of_launch(one));
            let earlier = Earlier {
                stream: followed,
                kernel: kernel.filter(|_| is_first),
                engine: engine.filter(|before| followed != Some(*before)),
                legacy: order.legacy.get(&at).map_or(&[], Vec::as_slice),
                events: order.events.before(at),
                graph,
            };
            if !is_copy {
                last_kernels.insert(stream, at);
            }
            let mut edges = self.edges_to(at, &earlier, &order.graphs, typical);
            edges.extend(self.by_graph(at, &order.graphs));
            self.add_known(at, edges, order);
        }
    }

    /// The edges to the start of an operation from the nodes before it in its graph.
    fn by_graph<'b>(
        &'b self,
        at: usize,
        graphs: &'b LaunchOrder,
    ) -> impl Iterator<Item = Timed> + 'b {
        let (begin, kind) = (self.trace.operations[at].begin(), EdgeKind::Graph);
        graphs.before(at).iter().map(move |one| match *one {
            NodeBefore::Operation(one) => {
                let (from, before) = (self.trace.of_operation(one), &self.trace.operations[one]);
                if before.end() <= begin {
                    return Timed { from: from + 1, at: before.end(), delay: 0, kind };
                }
                // A dependent launch starts while the kernel before it runs.
                Timed { from, at: before.begin(), delay: begin - before.begin(), kind }
            }
            NodeBefore::Silent(one) => {
                let from = self.trace.of_silent(one);
                Timed { from, at: graphs.silent[one].ready, delay: 0, kind }
            }
        })
    }

    /// The edges to the start of an operation that its records state: from its call, from the
    /// operations of its stream and its engine, and from those before an event. The edges of its
    /// graph are not among them.
    fn edges_to(
        &self,
        at: usize,
        earlier: &Earlier<'_>,
        graphs: &LaunchOrder,
        typical: Typical,
    ) -> Vec<Timed> {
        let operation = &self.trace.operations[at];
        let begin = operation.begin();
        let end_of = |one: Option<usize>| one.map_or(0, |one| self.trace.operations[one].end());
        let legacy = || earlier.legacy.iter().filter(|&&one| !graphs.are_of_one_launch(one, at));
        let called = operation.call.map(|call| (call, self.trace.calls[call].time.clone()));
        let called = called.filter(|(_, time)| time.start <= begin);
        let in_graph = earlier.graph.iter().map(|one| match *one {
            NodeBefore::Operation(one) => end_of(Some(one)),
            NodeBefore::Silent(one) => graphs.silent[one].ready,
        });
        let events = earlier.events.iter().map(|&one| end_of(Some(one)));
        let awaited = events.chain(in_graph).max().unwrap_or(0);
        let free = end_of(earlier.stream).max(end_of(earlier.engine)).max(awaited);
        let gap = begin.saturating_sub(free);
        // An operation that starts long after the one before it has waited for its launch.
        let is_launched = called.as_ref().is_some_and(|(_, time)| {
            free <= time.start || gap > typical.gap.saturating_add(CLOCKS_NS)
        });
        let mut found = Vec::new();
        if let Some((call, time)) = called {
            let explained = if is_launched {
                (time.end - time.start).saturating_add(LATENCY_MAX_NS)
            } else {
                // The kernel starts after its call has loaded it.
                let load = self.loading.get(&self.trace.of_operation(at)).copied().unwrap_or(0);
                typical.latency.saturating_add(load)
            };
            let delay = (begin - time.start).min(explained);
            let (from, kind) = (self.trace.of_call(call), EdgeKind::Launch);
            found.push(Timed { from, at: time.start, delay, kind });
        }
        if let Some(last) = earlier.stream {
            let is_copy = [self.trace.operations[last].is_copy(), operation.is_copy()];
            let kind = EdgeKind::Stream { is_copy };
            let (from, end) = (self.trace.of_operation(last), self.trace.operations[last].end());
            if end > begin {
                let at = self.trace.operations[last].begin();
                found.push(Timed { from, at, delay: begin - at, kind });
            } else {
                // The launch, or an operation of another stream, explains the rest of the gap.
                let is_held = awaited > end || legacy().any(|&one| end_of(Some(one)) > end);
                let explained = if is_launched || is_held { typical.gap } else { LATENCY_MAX_NS };
                let delay = (begin - end).min(explained);
                found.push(Timed { from: from + 1, at: end, delay, kind });
            }
        }
        let kernel = earlier.kernel.filter(|&one| Some(one) != earlier.stream);
        let of_kernel = EdgeKind::Stream { is_copy: [false, operation.is_copy()] };
        let legacy = legacy().map(|&one| (Some(one), EdgeKind::Legacy));
        let events = earlier.events.iter().map(|&one| (Some(one), EdgeKind::Event));
        let ended = [(kernel, of_kernel), (earlier.engine, EdgeKind::Between)];
        for (one, kind) in ended.into_iter().chain(legacy).chain(events) {
            if let Some(one) = one.filter(|&one| self.trace.operations[one].end() <= begin) {
                let (from, at) =
                    (self.trace.of_operation(one) + 1, self.trace.operations[one].end());
                found.push(Timed { from, at, delay: 0, kind });
            }
        }
        found
    }

    /// Adds the edges to the start of an operation, and one to explain a later start. A start
    /// within the latency after an operation that an event or a graph orders before it needs no
    /// other reason. The time of a node that left no operation explains any later start.
    fn add_known(&mut self, at: usize, mut edges: Vec<Timed>, order: &StreamOrder) {
        let (begin, moment) = (self.trace.operations[at].begin(), self.trace.of_operation(at));
        let (binding, ready) = edges.iter().enumerate().fold((None, 0), |best, (at, edge)| {
            let ready = edge.at.saturating_add(edge.delay);
            if best.0.is_none() || ready > best.1 { (Some(at), ready) } else { best }
        });
        let late = begin.saturating_sub(ready);
        match binding {
            None => {
                let delay = begin.saturating_sub(self.trace.start);
                edges.push(Timed { from: 0, at: self.trace.start, delay, kind: EdgeKind::Start });
            }
            Some(binding) => {
                let is_ordered = matches!(edges[binding].kind, EdgeKind::Event | EdgeKind::Graph);
                let explained = if is_ordered { LATENCY_MAX_NS } else { CLOCKS_NS };
                let silent = self.trace.of_silent(0);
                let unknown = (0..edges.len())
                    .filter(|&one| late > explained && edges[one].from >= silent)
                    .max_by_key(|&one| edges[one].at);
                if let Some(unknown) = unknown {
                    edges[unknown].delay = begin.saturating_sub(edges[unknown].at);
                }
                let is_late = late > explained && unknown.is_none();
                match self.followed(at, ready, order).filter(|_| is_late) {
                    _ if unknown.is_some() => {}
                    Some((from, time)) => {
                        let kind = EdgeKind::Between;
                        edges.push(Timed { from, at: time, delay: begin - time, kind });
                    }
                    None if late <= LATENCY_MAX_NS => edges[binding].delay += late,
                    None => {}
                }
            }
        }
        for Timed { from, delay, kind, .. } in edges {
            self.add(from, moment, delay, kind);
        }
    }

    /// The moment of another stream, and its time, that an operation waited for, although it was
    /// ready at `ready`: the end of an operation directly before its start, or the start of an
    /// operation that ran at that time. An event or the multiprocessors kept the operation waiting.
    /// The trace does not tell which, unless it has the waits between the two streams: then no
    /// other event can have kept it, and kernels alone compete for the multiprocessors.
    fn followed(&self, at: usize, ready: u64, order: &StreamOrder) -> Option<(u32, u64)> {
        let operations = &self.trace.operations;
        let (begin, stream) = (operations[at].begin(), operations[at].stream());
        let is_kernel = |one: usize| operations[one].activity.kind == ActivityKind::Kernel;
        let is_other = |one: &usize| {
            let other = operations[*one].stream();
            let is_rival = is_kernel(*one) && is_kernel(at);
            if order.graphs.are_of_one_launch(*one, at) {
                return is_rival || other == stream;
            }
            other != stream && (is_rival || !order.events.knows(stream, other))
        };
        let ended = self.trace.by_end.partition_point(|&one| operations[one].end() <= begin);
        let mut latest = self.trace.by_end[..ended].iter().rev().take(SEARCHED_MAX).copied();
        let is_near = |one: &usize| operations[*one].end().saturating_add(LATENCY_MAX_NS) >= begin;
        if let Some(one) = latest.find(|one| is_other(one) && is_near(one)) {
            return Some((self.trace.of_operation(one) + 1, operations[one].end()));
        }
        let mut earlier = (0..at).rev().take(SEARCHED_MAX);
        let ran = |one: &usize| {
            let operation = &operations[*one];
            operation.end() > begin && operation.begin().saturating_add(LATENCY_MAX_NS) >= ready
        };
        let one = earlier.find(|one| is_other(one) && ran(one))?;
        Some((self.trace.of_operation(one), operations[one].begin()))
    }

    /// The operations that each operation follows because one of the streams is the legacy stream:
    /// the last ones of the other streams that were enqueued before it.
    fn legacy_order(&self) -> FollowedByLegacy {
        let streams = ProcessStreams::of(self.trace.of);
        let mut found = FollowedByLegacy::new();
        if !streams.has_blocking() {
            return found;
        }
        let operations = &self.trace.operations;
        let mut enqueued: Vec<usize> = (0..operations.len()).collect();
        enqueued.sort_by_key(|&at| (self.trace.enqueued_at(at), operations[at].begin()));
        let mut last: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for at in enqueued {
            let stream = operations[at].stream();
            let follows = |other: (u32, u32)| {
                other.0 == stream.0
                    && (streams.is_legacy(stream) && streams.is_blocking(other)
                        || streams.is_blocking(stream) && streams.is_legacy(other))
            };
            let others = last.iter().filter(|(other, _)| follows(**other)).map(|(_, one)| *one);
            let before: Vec<usize> =
                { others }.filter(|&one| operations[one].end() <= operations[at].begin()).collect();
            if !before.is_empty() {
                found.insert(at, before);
            }
            last.insert(stream, at);
        }
        found
    }
}
