//! Happens-before as an explicit relation: one bit for each pair, without clocks.
//!
//! Each call has two nodes: the moment of the call on its host thread, and the work, if any, that
//! the call puts into a stream. Every edge leads from an earlier call to a later one, so one pass
//! over the calls gives the transitive closure. An edge is an order that a law guarantees. Other
//! orders of an implementation have no edge.

use crate::calls::{Access, Call, History, Lane, Memory, Verb, What};
use crate::program::{Sources, StreamKind};
use crate::switches::{Switch, on};
use std::collections::{BTreeMap, BTreeSet};

/// The kinds of order that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Only order that the laws promise for every timing of the host.
    Laws,
    /// In addition, order of this run: which record an event had, and which work was found
    /// complete.
    Run,
    /// Order that the library can see in a run, without the ownership of memory and without
    /// hand-overs by signals and joins. The library may therefore insert a wait that ownership or a
    /// hand-over makes unnecessary.
    Library,
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

/// The completion of the work of a call.
pub(crate) fn work(call: usize) -> usize {
    2 * call + 1
}

/// A use of memory, from its first node to its last one.
#[derive(Debug, Clone)]
pub(crate) struct Use {
    pub(crate) access: Access,
    pub(crate) begin: usize,
    pub(crate) end: usize,
}

/// The moment at which a call that puts work into a stream returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    /// Before the work, unless a law forbids it.
    Early,
    /// When all earlier work of the stream is complete and the source was read.
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
        // Law A17: a copy within the host is synchronous. A copy to or from pageable memory may be
        // synchronous, but no law promises that. Law A16: other copies are not.
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
    // A call that may wait reads between its start and its return.
    let during = (host(history.calls[call].begin.unwrap_or(call)), host(call));
    let moments = |access: &Access| match &history.calls[call].what {
        What::Work { verb, accesses, .. } => match verb {
            _ if access.writes => (work(call), work(call)),
            // Law A19: a read out of stream order may start at the call.
            Verb::Batch(Sources::DuringCall) => during,
            Verb::Batch(Sources::AnyTime) => (host(call), work(call)),
            // Law A18: a staged source is read after a wait for all work that was in the stream at
            // the start of the call.
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

/// `before[node]`: the nodes that are complete before the node starts.
#[derive(Debug)]
pub(crate) struct Closure {
    before: Vec<Nodes>,
    /// For each wait, the nodes that would be before it without its event.
    pub(crate) without: BTreeMap<usize, Nodes>,
    /// For each wait, the record of its event, if there is one.
    pub(crate) waited: BTreeMap<usize, Option<usize>>,
}

/// A call that may wait, at its start.
struct Begun {
    call: usize,
    /// The nodes that the work of the call follows.
    edges: Vec<usize>,
    /// The last nodes of the stream of the call, and the nodes of the legacy stream that the
    /// blocking streams wait for.
    tails: Vec<usize>,
    barrier: Vec<usize>,
    /// The last nodes of the blocking streams of each device.
    devices: BTreeMap<usize, Vec<usize>>,
}

/// The last nodes of threads, streams and events at a point of the history.
struct Builder<'a> {
    history: &'a History,
    trust: Trust,
    /// Waits and synchronisations that may not rely on the record of their event (law A45).
    doubted: &'a BTreeSet<usize>,
    closure: Closure,
    threads: BTreeMap<u64, Vec<usize>>,
    /// The last nodes of a thread when a call returned.
    returned: Vec<Vec<usize>>,
    streams: Vec<Vec<usize>>,
    /// Streams that do not exist yet.
    unborn: BTreeSet<usize>,
    /// The last work or wait of the legacy stream of each device.
    barriers: BTreeMap<usize, Vec<usize>>,
    records: BTreeMap<u64, usize>,
    /// The last launch of each graph.
    launched: BTreeMap<u64, usize>,
    begun: BTreeMap<(u64, usize), Begun>,
    /// The nodes before the host function of a call. The keys are the indices of the calls.
    host_fns: BTreeMap<usize, Vec<usize>>,
    signals: BTreeMap<u64, Vec<usize>>,
    settled: Vec<usize>,
    /// Earlier uses of a block, by their calls.
    users: BTreeMap<u64, Vec<(usize, Access)>>,
}

impl Builder<'_> {
    fn lane(&self, stream: usize) -> Lane {
        self.history.lanes[stream]
    }

    /// The last work of the stream, or of the earlier stream of its lane.
    fn last(&self, stream: usize) -> Vec<usize> {
        if self.unborn.contains(&stream) {
            return Vec::new();
        }
        let tails = &self.streams[stream];
        match self.lane(stream).follows {
            Some(other) if tails.is_empty() && !on(Switch::Fresh) => self.last(other),
            _ => tails.clone(),
        }
    }

    /// The last work of the blocking streams and of the legacy stream of a device.
    fn of_blocking(&self, device: usize) -> Vec<usize> {
        let lanes = self.history.lanes.iter().enumerate();
        let here =
            lanes.filter(|(_, lane)| lane.device == device && lane.kind != StreamKind::NonBlocking);
        here.flat_map(|(stream, _)| self.last(stream)).collect()
    }

    /// The work that a record in the stream, or a wait for the stream, covers.
    fn prefix(&self, stream: usize) -> Vec<usize> {
        let lane = self.lane(stream);
        // Law A1: a stream executes in the order of its calls.
        let mut prefix = self.last(stream);
        // Laws A13 and A14: the legacy stream stands for all blocking ones of its device, and law
        // A15 counts the per-thread streams among them.
        if lane.kind == StreamKind::Legacy {
            prefix.extend(self.of_blocking(lane.device));
        }
        prefix
    }

    /// The nodes that the next operation of the stream follows.
    fn predecessors(&self, stream: usize) -> Vec<usize> {
        let lane = self.lane(stream);
        let mut edges = self.prefix(stream);
        // Law A13: all blocking streams wait for the work of the legacy stream. This work is not in
        // a blocking stream, so no law lets a record in that stream, or a wait for it, cover this
        // work. Law A38: the legacy stream may wait for the legacy stream of another device.
        if lane.kind != StreamKind::NonBlocking {
            edges.extend(self.barriers.get(&lane.device).into_iter().flatten());
        }
        edges
    }

    fn device_tail(&self, device: usize) -> Vec<usize> {
        let lanes = self.history.lanes.iter().enumerate();
        let here = lanes.filter(|(_, lane)| lane.device == device);
        here.flat_map(|(stream, _)| self.last(stream)).collect()
    }

    fn closed(&self, edges: &[usize]) -> Nodes {
        let mut row = Nodes::sized(2 * self.history.calls.len());
        for edge in edges {
            row.insert(*edge);
            row.add(&self.closure.before[*edge]);
        }
        row
    }

    /// Law A44: a call that uses memory exclusively follows the calls that used it before. A call
    /// that shares memory follows the calls that used it exclusively. This holds for memory that
    /// the library orders.
    fn owned(&self, accesses: &[Access]) -> Vec<usize> {
        if self.trust == Trust::Library || !on(Switch::Ownership) {
            return Vec::new();
        }
        let before = accesses.iter().filter(|access| !access.by_hand).flat_map(|access| {
            let users = self.users.get(&access.block).into_iter().flatten();
            users.filter(|(_, other)| !other.by_hand && access.conflicts(other))
        });
        before.flat_map(|(call, _)| &self.returned[*call]).copied().collect()
    }

    /// The nodes that are complete for the host thread at a call.
    fn at_host(&self, call: usize) -> Vec<usize> {
        let made = &self.history.calls[call];
        let mut edges = self.threads.get(&made.thread).cloned().unwrap_or_else(Vec::new);
        edges.extend(self.owned(made.what.holds()));
        let sees_hosts = self.trust != Trust::Library;
        match &made.what {
            // Laws A5 and A8: an event without a record stands for nothing.
            What::SyncEvent { event } if !self.doubted.contains(&call) => {
                edges.extend(self.records.get(event).copied().map(work));
            }
            // Law A9.
            What::SyncStream { stream } => edges.extend(self.prefix(*stream)),
            // Law A10.
            What::SyncDevice { device } => edges.extend(self.device_tail(*device)),
            // Law A11: only the host itself orders its threads.
            What::After { thread } if sees_hosts => {
                edges.extend(self.threads.get(thread).into_iter().flatten());
            }
            What::Found { signal } if sees_hosts => {
                edges.extend(self.signals.get(signal).into_iter().flatten());
            }
            // Law A18: a staged copy first waits for its stream.
            What::Work { verb, stream, accesses }
                if return_of(self.history, *verb, accesses) == Return::Staged =>
            {
                let begun = made.begin.and(self.begun.get(&(made.thread, *stream)));
                let before = begun.map(|begun| begun.edges.clone());
                edges.extend(before.unwrap_or_else(|| self.prefix(*stream)));
            }
            _ => {}
        }
        if self.trust == Trust::Run {
            edges.extend(&self.settled);
        }
        edges
    }

    /// Law A38: the other devices of a copy between two devices in the legacy stream. The stream
    /// may belong to a third device.
    fn other_devices(&self, verb: Verb, stream: usize, accesses: &[Access]) -> Vec<usize> {
        if verb != Verb::CopyNow || !on(Switch::Peers) {
            return Vec::new();
        }
        let here = self.lane(stream).device;
        let homes = accesses.iter().filter_map(|access| self.history.homes.get(&access.block));
        let homes: BTreeSet<usize> = homes.copied().collect();
        let is_between = homes.len() == 2;
        homes.into_iter().filter(|home| is_between && *home != here).collect()
    }

    /// The nodes that work, a record or a wait follows, in addition to its call.
    fn edges_of(&self, call: usize, stream: usize) -> Vec<usize> {
        match &self.history.calls[call].what {
            What::Record { .. } => self.prefix(stream),
            // Laws A4 and A13: a wait is an operation in the legacy stream only.
            What::Wait { .. }
                if on(Switch::Strict) && self.lane(stream).kind != StreamKind::Legacy =>
            {
                self.prefix(stream)
            }
            // An allocation is no operation of a blocking stream.
            What::Work { verb: Verb::Alloc, .. } if on(Switch::Strict) => self.last(stream),
            What::Work { verb, accesses, .. } => {
                let mut edges = self.predecessors(stream);
                for device in self.other_devices(*verb, stream, accesses) {
                    edges.extend(self.of_blocking(device));
                }
                edges
            }
            _ => self.predecessors(stream),
        }
    }

    fn finish(&mut self, call: usize, edges: &[usize]) {
        let row = self.closed(edges);
        self.closure.before[work(call)] = row;
    }

    /// Enqueues the work of a call.
    fn enqueue(&mut self, call: usize, stream: usize) {
        let Call { thread, what, .. } = &self.history.calls[call];
        let is_work = matches!(what, What::Work { .. });
        let has_begun = is_work && self.history.calls[call].begin.is_some();
        let begun = has_begun.then(|| self.begun.remove(&(*thread, stream))).flatten();
        // Law A2: earlier calls of the thread, and work that it knows to be complete, precede the
        // work that it enqueues. Law A27: a host function is an operation of its stream.
        let mut edges = match &begun {
            Some(begun) => begun.edges.clone(),
            None => self.edges_of(call, stream),
        };
        match &begun {
            // The thread owned the memory when the call began.
            Some(begun) => {
                edges.push(host(begun.call));
                edges.extend(self.owned(what.accesses()));
                if let What::Work { verb, accesses, .. } = what {
                    for device in self.other_devices(*verb, stream, accesses) {
                        edges.extend(begun.devices.get(&device).into_iter().flatten());
                    }
                }
            }
            None => edges.push(host(call)),
        }
        // Law A31: a graph runs once at a time.
        if let Some(graph) = self.history.launches.get(&call) {
            edges.extend(self.launched.insert(*graph, call).map(work));
        }
        match what {
            // Law A4: a record stands for the stream's work at its call, and replaces an earlier
            // one.
            What::Record { event, .. } => {
                self.records.insert(*event, call);
            }
            // Law A5: a wait for an event without a record orders nothing.
            What::Wait { event, .. } if !self.records.contains_key(event) => {
                self.closure.without.insert(call, self.closed(&edges));
                self.closure.waited.insert(call, None);
                return self.finish(call, &edges);
            }
            // Law A7: a wait covers the work that the event stands for at this call.
            What::Wait { event, .. } => {
                self.closure.without.insert(call, self.closed(&edges));
                let record = self.records.get(event).copied();
                self.closure.waited.insert(call, record);
                if !self.doubted.contains(&call) {
                    edges.extend(record.map(work));
                }
            }
            What::Work { verb: Verb::HostFn, .. } => {
                self.host_fns.insert(call, edges.clone());
            }
            _ => {}
        }
        self.finish(call, &edges);
        self.follow(call, stream, begun.as_ref());
    }

    /// Makes later work of the stream, and of streams that wait for it, follow the work of the
    /// call.
    fn follow(&mut self, call: usize, stream: usize, begun: Option<&Begun>) {
        // Work that other threads enqueued since the call started does not precede the work of the
        // call.
        let beside = |now: &[usize], then: Option<&Vec<usize>>| match then {
            Some(then) if now != then.as_slice() => now.to_vec(),
            _ => Vec::new(),
        };
        let mut tails = beside(&self.streams[stream], begun.map(|begun| &begun.tails));
        tails.push(work(call));
        self.streams[stream] = tails;
        let lane = self.lane(stream);
        let (raises, others) = match &self.history.calls[call].what {
            // Law A14: the laws leave open whether a bare record holds back the blocking streams.
            What::Record { .. } => (false, Vec::new()),
            What::Work { verb: Verb::Alloc, .. } => (!on(Switch::Strict), Vec::new()),
            What::Work { verb, accesses, .. } => {
                (true, self.other_devices(*verb, stream, accesses))
            }
            _ => (true, Vec::new()),
        };
        if lane.kind == StreamKind::Legacy && raises {
            let now = self.barriers.get(&lane.device).map_or(&[][..], Vec::as_slice);
            let mut barrier = beside(now, begun.map(|begun| &begun.barrier));
            barrier.push(work(call));
            self.barriers.insert(lane.device, barrier);
            for other in others {
                self.barriers.entry(other).or_default().push(work(call));
            }
        }
    }

    /// A call that may wait starts.
    fn begin(&mut self, call: usize, stream: usize) {
        let device = self.lane(stream).device;
        let devices = self.history.lanes.iter().map(|lane| lane.device);
        let begun = Begun {
            call,
            devices: devices.map(|device| (device, self.of_blocking(device))).collect(),
            edges: self.predecessors(stream),
            tails: self.streams[stream].clone(),
            barrier: self.barriers.get(&device).cloned().unwrap_or_else(Vec::new),
        };
        self.begun.insert((self.history.calls[call].thread, stream), begun);
    }

    fn call(&mut self, call: usize) {
        let history = self.history;
        let Call { thread, what, .. } = &history.calls[call];
        if let What::Set { signal, inside: Some(host_fn) } = what {
            // Law A27: the work before a host function in its stream is complete when it runs.
            let before = self.host_fns.get(host_fn).cloned().unwrap_or_else(Vec::new);
            self.signals.entry(*signal).or_insert(before);
            return;
        }
        let row = self.closed(&self.at_host(call));
        self.closure.before[host(call)] = row;
        match what {
            What::Open { stream } => {
                self.unborn.remove(stream);
                if on(Switch::Fresh) {
                    self.streams[*stream] = vec![host(call)];
                }
            }
            What::Begin { stream, .. } => self.begin(call, *stream),
            What::Settled { event } => {
                self.settled.extend(self.records.get(event).copied().map(work));
                return;
            }
            What::Set { signal, .. } => {
                self.signals.entry(*signal).or_insert_with(|| vec![host(call)]);
            }
            _ => {}
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
        self.returned[call].clone_from(&last);
        self.threads.insert(*thread, last);
        if let What::Lent { holds } = what {
            // In this run, only the thread to which the future lends the memory has this knowledge.
            let seen = holds.iter().filter(|_| self.trust != Trust::Laws).cloned();
            for access in seen.map(|access| Access { writes: true, ..access }) {
                self.users.entry(access.block).or_default().push((call, access));
            }
        }
        for access in what.accesses() {
            self.users.entry(access.block).or_default().push((call, access.clone()));
        }
    }
}

impl Closure {
    pub(crate) fn new(history: &History, trust: Trust) -> Self {
        let mut doubted = BTreeSet::new();
        loop {
            let closure = Self::with(history, trust, &doubted);
            if trust != Trust::Laws || !on(Switch::Doubt) {
                return closure;
            }
            // A call that loses its order may make another call doubtful.
            let before = doubted.len();
            doubted.extend(closure.in_doubt(history));
            if doubted.len() == before {
                return closure;
            }
        }
    }

    fn with(history: &History, trust: Trust, doubted: &BTreeSet<usize>) -> Self {
        let nodes = 2 * history.calls.len();
        let before = vec![Nodes::sized(nodes); nodes];
        let mut builder = Builder {
            history,
            trust,
            doubted,
            closure: Self { before, without: BTreeMap::new(), waited: BTreeMap::new() },
            threads: BTreeMap::new(),
            returned: vec![Vec::new(); history.calls.len()],
            streams: vec![Vec::new(); history.lanes.len()],
            unborn: history.calls.iter().filter_map(|call| call.what.born()).collect(),
            barriers: BTreeMap::new(),
            records: BTreeMap::new(),
            launched: BTreeMap::new(),
            begun: BTreeMap::new(),
            host_fns: BTreeMap::new(),
            signals: BTreeMap::new(),
            settled: Vec::new(),
            users: BTreeMap::new(),
        };
        (0..history.calls.len()).for_each(|call| builder.call(call));
        builder.closure
    }

    /// Law A45: calls that wait for an event while another thread may record it, or may have
    /// recorded it last. No order of the host determines which record these calls find.
    pub(crate) fn in_doubt(&self, history: &History) -> Vec<usize> {
        let apart = |a: usize, b: usize| {
            history.calls[a].thread != history.calls[b].thread
                && !self.orders(host(a), host(b))
                && !self.orders(host(b), host(a))
        };
        let mut events: BTreeMap<u64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (call, made) in history.calls.iter().enumerate() {
            if let Some((event, records)) = made.what.about() {
                let all = events.entry(event).or_default();
                if records { all.0.push(call) } else { all.1.push(call) }
            }
        }
        let mut doubted = Vec::new();
        for (records, waits) in events.values() {
            for wait in waits {
                let found = records.iter().rev().find(|record| *record < wait);
                let is_open = |record: &usize| {
                    apart(*record, *wait)
                        || found.is_some_and(|found| record < found && apart(*record, *found))
                };
                if records.iter().any(is_open) {
                    doubted.push(*wait);
                }
            }
        }
        doubted
    }

    /// Whether `earlier` is complete when `later` starts.
    pub(crate) fn orders(&self, earlier: usize, later: usize) -> bool {
        self.before[later].contains(earlier)
    }

    pub(crate) fn before(&self, node: usize) -> &Nodes {
        &self.before[node]
    }
}
