//! Turns the calls of a program into entries of a ledger, one after another.

use crate::accesses::Touched;
use crate::call_stack::CallStack;
use crate::captures::{GraphMemory, GraphPart, Graphs};
use crate::file::{Call, Entry};
use crate::memory::{Allocated, Memory};
use crate::seen::{SeenAccesses, SeenWork};
use crate::streams::{StreamKey, StreamOf, StreamTable};
use crate::tensors::Tensors;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use trijet_cupti::call_file::CallLaunches;
use trijet_ledger::base::id::{BlockId, LaneId, Position};
use trijet_ledger::base::ledger::{
    Accesses, Declared, Engine, HostStep, MemoryCall, Mode, Op, OpKind, Place, StreamWork,
    WaitOutcome, Waited,
};
use trijet_ledger::profile::readable_name;

/// An entry of the ledger, with what is known beside it.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) op: Op,
    /// The accesses that the entry may make beside those that it declares: of the addresses among
    /// the arguments of a kernel, and of the whole of a large box.
    pub(crate) possible: Accesses,
    /// The stack of calls of the entry, or of the first launch of its kernel.
    pub(crate) stack: Option<CallStack>,
    pub(crate) part: LedgerPart,
}

/// The part of the ledger that an entry belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerPart {
    /// The program.
    Program,
    /// The inside of a graph, whose entries before and after it are of the program.
    Graph,
    /// A wait inside of a graph that is known to order only if kernels wait by themselves.
    Programmatic,
}

/// Numbers that were counted while the calls were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) calls: u64,
    pub(crate) kernels: u64,
    /// Kernels without an address among their arguments.
    pub(crate) kernels_without_addresses: u64,
    /// Kernels whose accesses were seen.
    pub(crate) seen_kernels: u64,
    /// Those of them whose copies by tensor maps may not be among what was seen.
    pub(crate) kernels_without_maps: u64,
    pub(crate) graphs: u64,
    /// Launches of graphs whose kernels were seen.
    pub(crate) seen_graphs: u64,
    /// Waits of streams for values in memory.
    pub(crate) value_waits: u64,
    /// Launches of graphs with nodes whose accesses are not known.
    pub(crate) unknown_graphs: u64,
    /// Launches of graphs the order of whose nodes was not examined.
    pub(crate) merged_graphs: u64,
}

/// The label of the entry with the copies and fills of a graph.
pub(crate) const COPIES_OF_GRAPH: &str = "copies and fills of a graph";

/// A function that is recorded if the order of the nodes of graphs is.
const FIRST_OF_GRAPH_ORDER: &str = "cuGraphAddDependencies";

/// The only thread of the ledger: see the crate.
const THREAD: u64 = 1;

/// The state of the program.
#[derive(Debug, Clone)]
pub(crate) struct CallReader {
    functions: HashMap<u16, String>,
    kernels: HashMap<u32, String>,
    /// The stack of the first launch of each kernel.
    first_launches: HashMap<u32, u32>,
    streams: StreamTable,
    memory: Memory,
    graphs: Graphs,
    /// Whether the calls have the order of the nodes of graphs. Earlier recorders left it out.
    has_graph_order: bool,
    /// The streams that have waited for a value in memory.
    value_waiters: BTreeSet<StreamKey>,
    /// The position that each event was last recorded at.
    recorded: HashMap<u64, Position>,
    /// Allocations that the host can also read and write.
    managed: HashSet<BlockId>,
    /// Live allocations of streams.
    of_stream: HashSet<BlockId>,
    /// Events that graphs record for others.
    of_graphs: HashSet<u64>,
    /// The number of the last operation of a lane before its first wait for something that may come
    /// from any stream. The order that such a wait makes is not known.
    pub(crate) waits_for_any: HashMap<LaneId, u64>,
    /// Whether the host may have learned from the last call how far a stream is, without a call:
    /// from a host function, or from memory that the host also reads.
    pub(crate) may_tell: bool,
    /// Whether a free of memory counts as a wait for the device, as drivers were seen to do.
    frees_wait: bool,
    seen: SeenAccesses,
    tensors: Tensors,
    /// The launches of the next call.
    launches: Option<CallLaunches>,
    pub(crate) counts: Counts,
    /// The allocation of each block: its size, the function that made it, and the stack.
    pub(crate) made: HashMap<u64, (u64, String, Option<u32>)>,
}

impl CallReader {
    pub(crate) fn new(frees_wait: bool, seen: SeenAccesses) -> Self {
        Self {
            functions: HashMap::new(),
            kernels: HashMap::new(),
            first_launches: HashMap::new(),
            streams: StreamTable::default(),
            memory: Memory::new(),
            graphs: Graphs::default(),
            has_graph_order: false,
            value_waiters: BTreeSet::new(),
            recorded: HashMap::new(),
            managed: HashSet::new(),
            of_stream: HashSet::new(),
            of_graphs: HashSet::new(),
            waits_for_any: HashMap::new(),
            may_tell: false,
            frees_wait,
            seen,
            tensors: Tensors::default(),
            launches: None,
            counts: Counts::default(),
            made: HashMap::new(),
        }
    }

    pub(crate) fn note_accesses(&mut self, entry: &Entry<'_>) {
        self.seen.read(entry);
    }

    pub(crate) fn waits_for(&self, launches: CallLaunches) -> bool {
        self.seen.waits_for(launches)
    }

    /// Reads a block, and passes the entries that it makes to `add`.
    pub(crate) fn read(&mut self, entry: &Entry<'_>, add: &mut impl FnMut(Step)) {
        match entry {
            Entry::Function { number, name } => {
                let name = String::from_utf8_lossy(name).into_owned();
                self.has_graph_order |= name == FIRST_OF_GRAPH_ORDER;
                self.functions.insert(*number, name);
            }
            Entry::Context { number, device } => self.streams.add_context(*number, *device),
            Entry::Kernel { number, name } => {
                let name = readable_name(&String::from_utf8_lossy(name));
                self.kernels.insert(*number, name);
            }
            Entry::Launch { call, kernel, stream } => {
                self.counts.calls += 1;
                self.launch(call, *kernel, *stream, add);
                self.launches = None;
            }
            Entry::Call(call) => {
                self.counts.calls += 1;
                let name = self.functions.get(&call.function).cloned().unwrap_or_default();
                self.call(call, &name, add);
                self.launches = None;
            }
            Entry::Launches(launches) => self.launches = Some(*launches),
            Entry::Access { address, is_write, stack } => {
                self.host_access(*address, *is_write, *stack, add);
            }
            Entry::Time { .. }
            | Entry::Touched { .. }
            | Entry::Stack { .. }
            | Entry::Command(_)
            | Entry::Trouble(_)
            | Entry::End { .. } => {}
        }
    }

    fn key(call: &Call<'_>, handle: u64) -> StreamKey {
        StreamKey::new(handle, call.context, call.thread, call.per_thread)
    }

    /// An entry in the order of a stream.
    fn entry(kind: impl Into<OpKind>, engine: Engine, on: StreamOf, call: &Call<'_>) -> Step {
        let mut op = Op::new(kind, engine, on.device, on.position);
        (op.stream, op.thread) = (on.class, THREAD);
        Step {
            op,
            possible: Accesses::new(),
            stack: CallStack::of(call),
            part: LedgerPart::Program,
        }
    }

    fn launch(&mut self, call: &Call<'_>, kernel: u32, stream: u64, add: &mut impl FnMut(Step)) {
        if let Some(stack) = call.stack {
            self.first_launches.entry(kernel).or_insert(stack);
        }
        if call.code != 0 {
            return;
        }
        let key = Self::key(call, stream);
        let addresses: Vec<u64> = call.words().collect();
        let of_first = |number: &u32| CallStack { number: *number, is_of_first_launch: true };
        let stack = CallStack::of(call).or(self.first_launches.get(&kernel).map(of_first));
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add(GraphPart::Kernel(kernel, addresses), stack);
        }
        self.counts.kernels += 1;
        let on = self.streams.count(key, call.context);
        let mut step = Self::entry(StreamWork::Kernel, Engine::Compute, on, call);
        step.op.label = self.kernel_name(kernel);
        step.op.declared = Declared::Nothing;
        step.stack = stack;
        match self.seen_work(1) {
            Some(seen) => {
                self.counts.seen_kernels += 1;
                self.counts.kernels_without_maps += u64::from(seen.unseen_by_maps.is_some());
                self.add_seen(&mut step, seen, &addresses);
            }
            None => {
                step.possible = possible_accesses(&self.memory, &addresses, Mode::Update);
                self.counts.kernels_without_addresses += u64::from(step.possible.is_empty());
            }
        }
        self.may_tell |= self.is_shared(&step.possible);
        add(step);
    }

    fn kernel_name(&self, kernel: u32) -> Cow<'static, str> {
        let name = self.kernels.get(&kernel).cloned();
        Cow::Owned(name.unwrap_or_else(|| "a kernel".to_owned()))
    }

    /// The accesses of the kernels of the present call, if they were seen.
    fn seen_work(&mut self, least: u64) -> Option<SeenWork> {
        self.seen.work(self.launches?, least)
    }

    /// Adds the accesses of kernels that were seen. If those by tensor maps may be missing, the
    /// kernels may also access what their arguments name and what was not seen.
    fn add_seen(&self, step: &mut Step, mut seen: SeenWork, addresses: &[u64]) {
        seen.touched.extend(seen.tensors.iter().map(|(first, mode)| Touched {
            range: self.tensors.range(*first, &self.memory),
            mode: *mode,
            elsewhere: Place::Device,
            is_exact: false,
        }));
        // Memory without an allocation may be the heap of kernels, which gives the same bytes to
        // one kernel after another.
        let exact = self.accesses(&seen.touched, true);
        let (known, unknown): (Vec<_>, Vec<_>) =
            exact.into_iter().partition(|one| self.made.contains_key(&one.block.0));
        step.op.accesses = merged(known.into_iter().collect());
        let possible = self.accesses(&seen.touched, false);
        step.possible = merged(unknown.into_iter().chain(possible).collect());
        step.op.declared = Declared::All;
        if let Some(mode) = seen.unseen_by_maps {
            step.op.declared = Declared::Nothing;
            let is_seen =
                |address: &u64| { seen.touched.iter() }.any(|one| one.range.contains(address));
            let others: Vec<_> = addresses.iter().copied().filter(|one| !is_seen(one)).collect();
            step.possible.extend(possible_accesses(&self.memory, &others, mode));
        }
    }

    /// Adds work with declared accesses to a stream, or to the capture of the stream.
    fn work(
        &mut self,
        call: &Call<'_>,
        handle: u64,
        kind: StreamWork,
        label: &'static str,
        touched: Vec<Touched>,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, handle);
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add(GraphPart::Declared(label, touched), CallStack::of(call));
        }
        let on = self.streams.count(key, call.context);
        let mut step = Self::entry(kind, Engine::Compute, on, call);
        step.op.accesses = self.accesses(&touched, true);
        step.possible = self.accesses(&touched, false);
        step.op.engine = engine_of(kind, &step.op.accesses);
        step.op.bytes =
            touched.iter().map(|one| one.range.end - one.range.start).max().unwrap_or(0);
        step.op.label = Cow::Borrowed(label);
        self.may_tell |= kind == StreamWork::Fill && self.is_shared(&step.op.accesses);
        add(step);
    }

    /// The accesses of the ranges that are exact, or of those that are not.
    fn accesses(&self, touched: &[Touched], exact: bool) -> Accesses {
        accesses_of(&self.memory, touched, exact)
    }

    /// A synchronous copy or fill. In a default stream of a thread, the host waits for it.
    fn work_now(
        &mut self,
        call: &Call<'_>,
        kind: StreamWork,
        label: &'static str,
        touched: Vec<Touched>,
        add: &mut impl FnMut(Step),
    ) {
        let of_legacy = match kind {
            StreamWork::Fill => StreamWork::FillNow,
            _ => StreamWork::CopyNow,
        };
        let kind = if call.per_thread { kind } else { of_legacy };
        // A copy within the device does not hold the host up (law A18).
        let is_of_host =
            self.accesses(&touched, true).iter().any(|access| access.place != Place::Device);
        self.work(call, 0, kind, label, touched, add);
        if call.per_thread && is_of_host {
            self.wait(call, Some(0), Waited::Stream, true, add);
        }
    }

    /// A wait of the host. `handle` is the stream whose position the entry has.
    fn wait(
        &mut self,
        call: &Call<'_>,
        handle: Option<u64>,
        what: Waited,
        is_complete: bool,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, handle.unwrap_or(0));
        let on = self.streams.of(key, call.context);
        let outcome = if is_complete { WaitOutcome::Complete } else { WaitOutcome::Failed };
        add(Self::entry(HostStep::Sync { what, outcome }, Engine::None, on, call));
    }

    fn allocate(
        &mut self,
        call: &Call<'_>,
        name: &str,
        range: Range<u64>,
        place: Place,
        add: &mut impl FnMut(Step),
    ) {
        if range.is_empty() {
            return;
        }
        let bytes = range.end - range.start;
        let made = self.memory.allocate(range, place);
        self.made.insert(made.block.0, (bytes, name.to_owned(), call.stack));
        if matches!(name, "cuMemAllocManaged" | "cuLibraryGetManaged") {
            self.managed.insert(made.block);
        }
        if place == Place::Device {
            self.memory_call(call, MemoryCall::AllocNow, &made, add);
        }
    }

    /// Memory that the program asks for, and may have asked for before.
    fn find(&mut self, call: &Call<'_>, name: &str, range: Range<u64>, add: &mut impl FnMut(Step)) {
        if self.memory.holder(range.start).is_none() {
            self.allocate(call, name, range, Place::Device, add);
        }
    }

    fn memory_call(
        &mut self,
        call: &Call<'_>,
        kind: MemoryCall,
        of: &Allocated,
        add: &mut impl FnMut(Step),
    ) {
        let on = self.streams.of(StreamKey::Legacy(call.context), call.context);
        let mut step = Self::entry(kind, Engine::None, on, call);
        step.op.accesses.push(whole(of));
        let is_free = kind == MemoryCall::FreeNow;
        step.op.label = Cow::Borrowed(if is_free { "free" } else { "allocation" });
        add(step);
    }

    /// A free outside of streams.
    fn free(&mut self, call: &Call<'_>, address: u64, waits: bool, add: &mut impl FnMut(Step)) {
        let Some(freed) = self.memory.free(address) else { return };
        // A free of memory of a stream waits for nothing (law A24).
        let waits = waits && !self.of_stream.remove(&freed.block);
        if waits && self.frees_wait {
            self.wait(call, None, Waited::Device, true, add);
        }
        self.memory_call(call, MemoryCall::FreeNow, &freed, add);
        // The C library may give the addresses out again, which is no call of the driver.
        if freed.place != Place::Device {
            self.memory.forget(address);
        }
    }

    fn allocate_in_stream(
        &mut self,
        call: &Call<'_>,
        name: &str,
        stream: u64,
        range: Range<u64>,
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, stream);
        let made = GraphMemory { range, function: name.to_owned(), stack: call.stack };
        // The memory of a graph exists from one of its launches on.
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add(GraphPart::Allocation(made), CallStack::of(call));
        }
        add(self.made_in_stream(call, key, &made));
        // Drivers were seen to hold the blocking streams back for it, as for a record.
        if self.frees_wait && matches!(key, StreamKey::Legacy(_)) {
            let on = self.streams.of(key, call.context);
            Self::hold_back(call, on, add);
        }
    }

    /// The entry of an allocation in the order of a stream.
    fn made_in_stream(&mut self, call: &Call<'_>, key: StreamKey, of: &GraphMemory) -> Step {
        let bytes = of.range.end - of.range.start;
        let made = self.memory.allocate(of.range.clone(), Place::Device);
        self.made.insert(made.block.0, (bytes, of.function.clone(), of.stack));
        self.of_stream.insert(made.block);
        let on = self.streams.count(key, call.context);
        let mut step = Self::entry(StreamWork::Alloc, Engine::None, on, call);
        step.op.accesses.push(whole(&made));
        step.op.label = Cow::Borrowed("allocation");
        step
    }

    fn free_in_stream(
        &mut self,
        call: &Call<'_>,
        (address, stream): (u64, u64),
        add: &mut impl FnMut(Step),
    ) {
        let key = Self::key(call, stream);
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add(GraphPart::Free(address), CallStack::of(call));
        }
        if let Some(step) = self.freed_in_stream(call, key, address) {
            add(step);
        }
    }

    /// The entry of a free in the order of a stream.
    fn freed_in_stream(&mut self, call: &Call<'_>, key: StreamKey, address: u64) -> Option<Step> {
        let freed = self.memory.free(address)?;
        self.of_stream.remove(&freed.block);
        let on = self.streams.count(key, call.context);
        let mut step = Self::entry(StreamWork::Free, Engine::None, on, call);
        step.op.accesses.push(whole(&freed));
        step.op.label = Cow::Borrowed("free");
        Some(step)
    }

    fn launch_graph(&mut self, call: &Call<'_>, add: &mut impl FnMut(Step)) {
        let key = Self::key(call, call.word(1));
        let work = self.graphs.program(call.word(0));
        if let Some(mut capture) = self.graphs.capture(key) {
            return capture.add_child(&work);
        }
        self.counts.graphs += 1;
        let is_examined = self.examine_order(call, &work, add);
        self.counts.merged_graphs += u64::from(!is_examined);
        self.of_graphs.extend(&work.records);
        if work.waits {
            self.follow_all(call, key, add);
        }
        if work.unknown > 0 {
            self.note_wait_for_any(call, key);
        }
        self.counts.unknown_graphs += u64::from(work.unknown > 0);
        for memory in &work.allocations {
            let mut step = self.made_in_stream(call, key, memory);
            step.op.graph = Some(call.word(0));
            add(step);
        }
        // Two entries, so that what copies declare is not mixed with what kernels may do.
        let on = self.streams.count(key, call.context);
        let mut copies = Self::entry(StreamWork::Kernel, Engine::Compute, on, call);
        copies.op.label = Cow::Borrowed(COPIES_OF_GRAPH);
        copies.op.accesses = merged(self.accesses(&work.declared, true));
        copies.possible = merged(self.accesses(&work.declared, false));
        // Launches of one program follow each other (law A31).
        copies.op.graph = Some(call.word(0));
        add(copies);
        if work.kernels > 0 || work.unknown > 0 {
            let on = self.streams.count(key, call.context);
            let mut kernels = Self::entry(StreamWork::Kernel, Engine::Compute, on, call);
            kernels.op.label = Cow::Borrowed("kernels of a graph");
            kernels.op.declared = Declared::Nothing;
            kernels.op.graph = Some(call.word(0));
            match self.seen_work(work.kernels) {
                Some(seen) => {
                    self.counts.seen_graphs += 1;
                    self.add_seen(&mut kernels, seen, &work.addresses);
                    if work.unknown > 0 {
                        kernels.op.declared = Declared::Nothing;
                    }
                }
                None => {
                    kernels.possible =
                        possible_accesses(&self.memory, &work.addresses, Mode::Update);
                }
            }
            self.may_tell |= work.unknown > 0 || self.is_shared(&kernels.possible);
            add(kernels);
        }
        // Memory of a graph that is freed gives its addresses to a later allocation of the graph.
        let mut freed = HashSet::new();
        for address in work.frees.iter().filter(|address| freed.insert(**address)) {
            if let Some(mut step) = self.freed_in_stream(call, key, *address) {
                step.op.graph = Some(call.word(0));
                add(step);
            }
        }
    }
}

mod access;
mod dispatch;
mod graph;
mod host;
mod inside;
mod order;

use access::{accesses_of, engine_of, merged, possible_accesses, whole};
pub(crate) use inside::CHAINS_AFTER;
