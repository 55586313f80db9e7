//! Happens-before as an explicit relation: a bit for every pair, nothing derived from clocks.
//!
//! Each call has two nodes: the moment of the call on its host thread, and the work that it puts
//! into a stream, if any. Every edge leads from an earlier call to a later one, so that one pass
//! over the calls gives the transitive closure. Only what a law guarantees is an edge; what an
//! implementation may do besides is none.

use crate::calls::{Access, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the starts and joins of threads count. They do in the world, but the library cannot see
/// them, so that it may not be blamed for a wait that only they make idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joins {
    Count,
    Ignored,
}

/// A set of nodes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nodes(Vec<u64>);

impl Nodes {
    fn sized(nodes: usize) -> Self {
        Self(vec![0; nodes.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, node: usize) {
        self.0[node / 64] |= 1 << (node % 64);
    }

    pub(crate) fn contains(&self, node: usize) -> bool {
        self.0[node / 64] >> (node % 64) & 1 == 1
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine |= theirs);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let bits = |(index, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| 64 * index + bit)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// The moment of a call on its thread.
pub(crate) fn host(call: usize) -> usize {
    2 * call
}

/// What a call put into a stream, when it is complete.
pub(crate) fn work(call: usize) -> usize {
    2 * call + 1
}

/// From when to when memory is in use; both ends are nodes.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) access: Access,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// When a call that puts work into a stream returns to its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    /// At once, as far as anybody may rely on it.
    Early,
    /// When everything before it in the stream is complete and the source was read.
    Staged,
    /// When the work is complete.
    Done,
}

fn return_of(history: &History, verb: Verb, accesses: &[Access]) -> Return {
    let place = |writes: bool| {
        let access = accesses.iter().find(|access| access.writes == writes);
        access.map_or(Memory::Device, |access| history.memory(access))
    };
    let (source, target) = (place(false), place(true));
    match verb {
        // Law A17: between two places of the host a copy is synchronous. To and from pageable
        // memory it may be, which is no promise; law A16: otherwise it is not.
        Verb::Copy if source.is_of_host() && target.is_of_host() => Return::Done,
        // Law A18.
        Verb::CopyNow => match (source, target) {
            (Memory::Device, Memory::Device) => Return::Early,
            (Memory::Pageable, Memory::Device) => Return::Staged,
            _ => Return::Done,
        },
        Verb::FillNow if target == Memory::Pinned => Return::Done,
        _ => Return::Early,
    }
}

/// The moments around each access of a call.
pub(crate) fn uses(history: &History, call: usize) -> Vec<Use> {
    let moments = |access: &Access| match &history.calls[call].what {
        What::Work { verb, accesses, .. } => match verb {
            _ if access.writes => (work(call), work(call)),
            // Law A19: out of stream order, from the call on.
            Verb::Batch(Sources::DuringCall) => (host(call), host(call)),
            Verb::Batch(Sources::AnyTime) => (host(call), work(call)),
            _ if return_of(history, *verb, accesses) == Return::Staged => (host(call), host(call)),
            _ => (work(call), work(call)),
        },
        _ => (host(call), host(call)),
    };
    let accesses = history.calls[call].what.accesses().iter();
    accesses
        .map(|access| {
            let (begin, end) = moments(access);
            Use { access: access.clone(), begin, end }
        })
        .collect()
}

/// `before[node]`: what is complete before the node begins.
#[derive(Debug)]
pub(crate) struct Closure {
    before: Vec<Nodes>,
    /// For each wait, what would be before it if it waited for nothing.
    pub(crate) without: BTreeMap<usize, Nodes>,
    /// For each wait, the record it waits for, if there was one.
    pub(crate) waited: BTreeMap<usize, Option<usize>>,
}

/// What is last at some point of the history.
struct Builder<'a> {
    history: &'a History,
    joins: Joins,
    closure: Closure,
    threads: BTreeMap<u64, Vec<usize>>,
    streams: Vec<Option<usize>>,
    /// Streams that do not exist yet.
    unborn: BTreeSet<usize>,
    /// The last work or wait of the legacy stream of each device.
    barriers: BTreeMap<usize, usize>,
    records: BTreeMap<u64, usize>,
}

impl Builder<'_> {
    fn lane(&self, stream: usize) -> Lane {
        self.history.lanes[stream]
    }

    /// The last work of the stream, or of the one whose place it took.
    fn last(&self, stream: usize) -> Option<usize> {
        if self.unborn.contains(&stream) {
            return None;
        }
        let before = || self.lane(stream).follows.and_then(|other| self.last(other));
        self.streams[stream].or_else(before)
    }

    /// What the stream holds, as a record in it or a wait for it finds it.
    fn prefix(&self, stream: usize) -> Vec<usize> {
        let lane = self.lane(stream);
        // Law A1: a stream executes in the order of its calls.
        let mut prefix: Vec<usize> = self.last(stream).into_iter().collect();
        // Laws A13 and A14: the legacy stream stands for all blocking ones of its device, and law
        // A15 counts the per-thread streams among them.
        if lane.kind == StreamKind::Legacy {
            let others = self.history.lanes.iter().enumerate();
            let blocking = others.filter(|(_, other)| {
                other.device == lane.device && other.kind != StreamKind::NonBlocking
            });
            prefix.extend(blocking.filter_map(|(other, _)| self.last(other)));
        }
        prefix
    }

    /// What the next work or wait of the stream comes after.
    fn predecessors(&self, stream: usize) -> Vec<usize> {
        let lane = self.lane(stream);
        let mut edges = self.prefix(stream);
        // Law A13: all blocking streams wait for what the legacy stream holds. That is not in them,
        // so a record in a blocking stream, or a wait for one, does not stand for it: no law says
        // so.
        if matches!(lane.kind, StreamKind::Blocking | StreamKind::PerThread) {
            edges.extend(self.barriers.get(&lane.device));
        }
        edges
    }

    fn device_tail(&self, device: usize) -> Vec<usize> {
        let lanes = self.history.lanes.iter().enumerate();
        let here = lanes.filter(|(_, lane)| lane.device == device);
        here.filter_map(|(stream, _)| self.last(stream)).collect()
    }

    fn closed(&self, edges: &[usize]) -> Nodes {
        let mut row = Nodes::sized(2 * self.history.calls.len());
        for edge in edges {
            row.insert(*edge);
            row.add(&self.closure.before[*edge]);
        }
        row
    }

    /// What the host thread finds complete at a call.
    fn at_host(&self, thread: u64, what: &What) -> Vec<usize> {
        let mut edges = self.threads.get(&thread).cloned().unwrap_or_else(Vec::new);
        match what {
            // Laws A5 and A8: of an event that was never recorded there is nothing to wait for.
            What::SyncEvent { event } => edges.extend(self.records.get(event).copied().map(work)),
            // Law A9.
            What::SyncStream { stream } => edges.extend(self.prefix(*stream)),
            // Law A10.
            What::SyncDevice { device } => edges.extend(self.device_tail(*device)),
            // Law A11: only the host itself orders its threads.
            What::After { thread } if self.joins == Joins::Count => {
                edges.extend(self.threads.get(thread).into_iter().flatten());
            }
            // Law A18: what is staged was first waited for.
            What::Work { verb, stream, accesses }
                if return_of(self.history, *verb, accesses) == Return::Staged =>
            {
                edges.extend(self.prefix(*stream));
            }
            _ => {}
        }
        edges
    }

    /// Enqueues the work of a call.
    fn enqueue(&mut self, call: usize, stream: usize) {
        // Law A2: what the thread did, and what it knows, comes before what it enqueues. Law A27
        // makes a host function one more operation of its stream.
        let what = &self.history.calls[call].what;
        let is_record = matches!(what, What::Record { .. });
        let mut edges = if is_record { self.prefix(stream) } else { self.predecessors(stream) };
        edges.push(host(call));
        match what {
            // Law A4: a record stands for what the stream holds now, and replaces an earlier one.
            What::Record { event, .. } => {
                self.records.insert(*event, call);
            }
            // Law A5: a wait for an event that was never recorded is no edge to anything.
            What::Wait { event, .. } if !self.records.contains_key(event) => {
                let row = self.closed(&edges);
                self.closure.without.insert(call, row.clone());
                self.closure.waited.insert(call, None);
                self.closure.before[work(call)] = row;
                return;
            }
            // Law A7: what the event stands for at this call.
            What::Wait { event, .. } => {
                self.closure.without.insert(call, self.closed(&edges));
                let record = self.records.get(event).copied();
                self.closure.waited.insert(call, record);
                edges.extend(record.map(work));
            }
            _ => {}
        }
        let row = self.closed(&edges);
        self.closure.before[work(call)] = row;
        self.streams[stream] = Some(work(call));
        let lane = self.lane(stream);
        // Law A14: whether a bare record holds back the blocking streams is left open.
        if lane.kind == StreamKind::Legacy && !is_record {
            self.barriers.insert(lane.device, work(call));
        }
    }

    fn call(&mut self, call: usize) {
        let history = self.history;
        let thread = history.calls[call].thread;
        let what = &history.calls[call].what;
        let row = self.closed(&self.at_host(thread, what));
        self.closure.before[host(call)] = row;
        if let What::Open { stream } = what {
            self.unborn.remove(stream);
        }
        if let Some(stream) = what.stream() {
            self.enqueue(call, stream);
        }
        let mut last = vec![host(call)];
        if let What::Work { verb, accesses, .. } = what
            && return_of(history, *verb, accesses) == Return::Done
        {
            last.push(work(call));
        }
        self.threads.insert(thread, last);
    }
}

impl Closure {
    pub(crate) fn new(history: &History, joins: Joins) -> Self {
        let nodes = 2 * history.calls.len();
        let before = vec![Nodes::sized(nodes); nodes];
        let mut builder = Builder {
            history,
            joins,
            closure: Self { before, without: BTreeMap::new(), waited: BTreeMap::new() },
            threads: BTreeMap::new(),
            streams: vec![None; history.lanes.len()],
            unborn: history.calls.iter().filter_map(|call| call.what.born()).collect(),
            barriers: BTreeMap::new(),
            records: BTreeMap::new(),
        };
        (0..history.calls.len()).for_each(|call| builder.call(call));
        builder.closure
    }

    /// Whether `earlier` is complete when `later` begins.
    pub(crate) fn orders(&self, earlier: usize, later: usize) -> bool {
        self.before[later].contains(earlier)
    }

    pub(crate) fn before(&self, node: usize) -> &Nodes {
        &self.before[node]
    }
}
