//! The staged blocks of the trace file of a process. If an allocation of memory fails, the process
//! continues, and the record is counted in [`Totals::unknown`].

use crate::api::{Api, CuptiApi};
use crate::file::{
    self, ACTIVITIES_MAX, EDGES_MAX, GraphNode, NAME_BYTES_MAX, NAMES_MAX, NO_NAME, NODES_MAX, Row,
    Totals,
};
use crate::graph_edges::KnownEdges;
use crate::layout::Record;
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_char};
use std::fs::File;
use std::io::{Read, Write};

/// Maximum number of bytes of a block.
const BLOCK_BYTES_MAX: usize = file::HEAD_BYTES + 4 + NAME_BYTES_MAX;

/// The number of bytes of the block of a context or a stream.
const LASTING_BYTES: usize = file::HEAD_BYTES + file::CONTEXT.1;

/// Maximum number of threads whose names are written.
const THREADS_MAX: usize = 1 << 12;

/// Maximum number of bytes of the name of a thread, with a line break.
const THREAD_NAME_BYTES: usize = 16;

/// Looks up the names to which records refer.
pub(crate) trait Texts {
    /// The text at an address from a record: the name of a kernel, a range or a domain. Empty for
    /// the address 0.
    fn text(&self, address: u64) -> &[u8];
    /// The name of the function with the number `number`. `None` if the number is unknown.
    fn function(&self, api: Api, number: u32) -> Option<&[u8]>;
    /// Writes the name of a thread of this process. Returns the length in bytes. The length is 0 if
    /// the thread has ended.
    fn thread(&self, number: u32, into: &mut [u8; THREAD_NAME_BYTES]) -> usize;
}

impl Texts for CuptiApi {
    fn text(&self, address: u64) -> &[u8] {
        let Ok(address) = usize::try_from(address) else { return b"" };
        let name = std::ptr::with_exposed_provenance::<c_char>(address);
        if name.is_null() {
            return b"";
        }
        // SAFETY: the record of a kernel or a mark holds the address of a terminated string, which
        // CUPTI keeps until CUPTI is finalised. This does not hold if the layout of the record is
        // unknown. The recorder refuses versions of CUPTI whose layout was not compared.
        unsafe { CStr::from_ptr(name) }.to_bytes()
    }

    fn function(&self, api: Api, number: u32) -> Option<&[u8]> {
        Some(CuptiApi::function(self, api, number)?.to_bytes())
    }

    fn thread(&self, number: u32, into: &mut [u8; THREAD_NAME_BYTES]) -> usize {
        // A path of this length is opened without an allocation.
        let mut path = [0; 32];
        let mut rest = path.as_mut_slice();
        if write!(rest, "/proc/self/task/{number}/comm").is_err() {
            return 0;
        }
        let free = rest.len();
        let path = str::from_utf8(&path[..path.len() - free]);
        let read = path.map(|path| File::open(path).and_then(|mut file| file.read(into)));
        let Ok(Ok(length)) = read else { return 0 };
        length - usize::from(into[..length].ends_with(b"\n"))
    }
}

/// The blocks of a process that are not in the trace file yet.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) staged: Vec<u8>,
    names: HashMap<Box<[u8]>, u32>,
    /// For each node of a graph, its number.
    nodes: HashMap<GraphNode, u32>,
    /// The edges of the graphs of the process.
    pub(crate) edges: KnownEdges,
    /// The graphs whose edges were staged, if they have any.
    graphs: HashSet<u32>,
    /// The number of edges that were staged since the start of the trace.
    edge_count: usize,
    /// For each function that was looked up, the number of its name.
    functions: HashMap<(Api, u32), u32>,
    /// The threads whose names were looked up.
    threads: HashSet<u32>,
    pub(crate) totals: Totals,
    /// The number of activities in the staged blocks.
    staged_activities: u64,
    /// The number of staged allocations, frees, uses of events and samples since the start of the
    /// trace. They count towards [`ACTIVITIES_MAX`], but not as activities in the totals.
    pub(crate) others: u64,
    /// Whether samples of the environment are collected, and there was none yet.
    pub(crate) awaits_samples: bool,
    /// The blocks of all contexts and streams so far. CUPTI reports each once, and the next trace
    /// file of the process needs them too.
    pub(crate) lasting: Vec<u8>,
}

impl Sink {
    /// A sink for another trace file of this process. `lasting` has the contexts and streams of the
    /// files before.
    pub(crate) fn continued(lasting: Vec<u8>) -> Self {
        Self { staged: lasting.clone(), lasting, ..Self::default() }
    }

    /// Reserves memory for the blocks of one record: its name, its node and its activity. Returns
    /// `false` if there is no memory.
    fn has_room(&mut self) -> bool {
        self.staged.try_reserve(3 * BLOCK_BYTES_MAX).is_ok()
            && self.lasting.try_reserve(LASTING_BYTES).is_ok()
            && self.names.try_reserve(1).is_ok()
            && self.nodes.try_reserve(1).is_ok()
            && self.graphs.try_reserve(1).is_ok()
            && self.functions.try_reserve(1).is_ok()
            && self.threads.try_reserve(1).is_ok()
    }

    /// Whether the file has the maximum number of activities and other records.
    pub(crate) fn is_full(&self) -> bool {
        self.totals.activities + self.others >= ACTIVITIES_MAX
    }

    /// Removes the staged blocks after they were written to the file.
    pub(crate) fn written(&mut self) {
        self.staged.clear();
        self.staged_activities = 0;
    }

    /// Discards the staged blocks. Their activities count as dropped, because the totals of a trace
    /// have the number of activities in the file.
    pub(crate) fn discard(&mut self) {
        self.totals.activities -= self.staged_activities;
        self.totals.dropped += self.staged_activities;
        self.written();
    }

    /// Stages one record.
    pub(crate) fn take(&mut self, record: Option<Record>, texts: &impl Texts) {
        if !self.has_room() {
            self.totals.unknown += 1;
            return;
        }
        let out = &mut self.staged;
        let row = match record {
            // The recorder does not make CUPTI collect tags.
            None | Some(Record::Tag { .. }) => {
                self.totals.unknown += 1;
                return;
            }
            Some(Record::Context { context, device, null_stream }) => {
                file::context(&mut self.lasting, context, device, null_stream);
                return file::context(out, context, device, null_stream);
            }
            Some(Record::Stream { context, stream, class }) => {
                file::stream(&mut self.lasting, context, stream, class);
                return file::stream(out, context, stream, class);
            }
            Some(Record::Allocation(one)) => {
                self.others += 1;
                return file::allocation(out, &one);
            }
            Some(Record::Event(one)) => {
                self.others += 1;
                return file::event_use(out, &one);
            }
            Some(Record::Sample(one)) => {
                self.others += 1;
                self.awaits_samples = false;
                return file::sample(out, &one);
            }
            Some(Record::StreamWait(row, one)) => {
                self.others += 1;
                file::event_use(out, &one);
                row
            }
            Some(Record::Plain(row)) => row,
            Some(Record::Transfer(row, node)) => Row { node: self.node(node), ..row },
            Some(Record::Kernel(row, address, node)) => {
                Row { name: self.named(texts.text(address)), node: self.node(node), ..row }
            }
            Some(Record::Graph(row, graph)) => {
                let name = self.named(format!("CUDA graph {graph}").as_bytes());
                Row { name, node: self.node(GraphNode { graph, node: 0 }), ..row }
            }
            Some(Record::Mark { row, name, domain }) => {
                Row { name: self.named_range(texts.text(name), texts.text(domain)), ..row }
            }
            Some(Record::Call(row, api, number)) => {
                Row { name: self.called(api, number, texts), ..row }
            }
        };
        self.thread(row.thread, texts);
        self.totals.activities += 1;
        self.staged_activities += 1;
        file::activity(&mut self.staged, &row);
    }

    /// Stages the name of a thread at its first call.
    fn thread(&mut self, number: u32, texts: &impl Texts) {
        if number == 0 || self.threads.len() >= THREADS_MAX || !self.threads.insert(number) {
            return;
        }
        let mut name = [0; THREAD_NAME_BYTES];
        let length = texts.thread(number, &mut name);
        if length > 0 {
            file::thread(&mut self.staged, number, &name[..length]);
        }
    }

    fn called(&mut self, api: Api, number: u32, texts: &impl Texts) -> u32 {
        if let Some(&known) = self.functions.get(&(api, number)) {
            return known;
        }
        let name = texts.function(api, number).map_or(NO_NAME, |text| self.named(text));
        self.functions.insert((api, number), name);
        name
    }

    /// The number of the name of a range. The name of its domain comes first, if it has one.
    fn named_range(&mut self, name: &[u8], domain: &[u8]) -> u32 {
        if name.is_empty() {
            return NO_NAME;
        }
        if domain.is_empty() {
            return self.named(name);
        }
        let mut both = Vec::new();
        if both.try_reserve_exact(domain.len() + 2 + name.len()).is_err() {
            return NO_NAME;
        }
        both.extend_from_slice(domain);
        both.extend_from_slice(b": ");
        both.extend_from_slice(name);
        self.named(&both)
    }

    /// The number of a node, plus 1. The first call for a node stages the node. 0 for an operation
    /// outside of graphs, and if the maximum number of nodes is reached.
    fn node(&mut self, node: GraphNode) -> u32 {
        if node == GraphNode::default() {
            return 0;
        }
        if let Some(&id) = self.nodes.get(&node) {
            return id + 1;
        }
        let id = u32::try_from(self.nodes.len()).ok().filter(|_| self.nodes.len() < NODES_MAX);
        let Some(id) = id else { return 0 };
        file::node(&mut self.staged, id, node);
        self.nodes.insert(node, id);
        if node.node != 0 && self.graphs.insert(node.graph) {
            self.stage_edges(node.graph);
        }
        id + 1
    }

    /// Stages the edges of a graph, each once: all or none. CUPTI states some edges again when the
    /// driver instantiates a graph.
    fn stage_edges(&mut self, graph: u32) {
        let stated = self.edges.of(graph);
        let mut edges = Vec::new();
        if edges.try_reserve_exact(stated.len()).is_err() {
            return;
        }
        edges.extend_from_slice(stated);
        edges.sort_unstable_by_key(|one| (one.from, one.to));
        edges.dedup();
        let bytes = edges.len().saturating_mul(file::HEAD_BYTES + file::EDGE.1);
        if self.edge_count + edges.len() > EDGES_MAX
            || self.staged.try_reserve(bytes.saturating_add(2 * BLOCK_BYTES_MAX)).is_err()
        {
            return;
        }
        self.edge_count += edges.len();
        edges.iter().for_each(|one| file::edge(&mut self.staged, *one));
    }

    /// The number of a text. The first call for a text stages the text. If there is no memory or
    /// the maximum number of names is reached, the text gets no number.
    fn named(&mut self, text: &[u8]) -> u32 {
        let text = &text[..text.len().min(NAME_BYTES_MAX)];
        if let Some(&id) = self.names.get(text) {
            return id;
        }
        let mut kept = Vec::new();
        let id = u32::try_from(self.names.len()).ok().filter(|_| self.names.len() < NAMES_MAX);
        let (Some(id), Ok(())) = (id, kept.try_reserve_exact(text.len())) else { return NO_NAME };
        kept.extend_from_slice(text);
        file::name(&mut self.staged, id, text);
        self.names.insert(kept.into_boxed_slice(), id);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{GraphEdge, kind};
    use crate::graph_edges::NewEdges;
    use std::cell::Cell;

    const NO_NODE: GraphNode = GraphNode { graph: 0, node: 0 };

    /// Names for tests. The cell counts how often a function was looked up.
    struct Numbers(Cell<u32>);

    impl Texts for Numbers {
        fn text(&self, address: u64) -> &[u8] {
            if address == 1 { b"first" } else { b"second" }
        }

        fn function(&self, _: Api, number: u32) -> Option<&[u8]> {
            self.0.set(self.0.get() + 1);
            (number == 211).then_some(b"cudaLaunchKernel_v7000")
        }

        fn thread(&self, number: u32, into: &mut [u8; THREAD_NAME_BYTES]) -> usize {
            into[..2].copy_from_slice(b"t1");
            if number == 1 { 2 } else { 0 }
        }
    }

    fn row(first: u8) -> Row {
        Row { kind: [first, 0, 0, 0], begin: 1, end: 2, ..Row::default() }
    }

    /// The tag and the payload of each block.
    fn blocks(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let mut found = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
            let (payload, rest) =
                rest.split_at(usize::from(u16::from_le_bytes([head[2], head[3]])));
            found.push((head[0], payload.to_vec()));
            bytes = rest;
        }
        found
    }

    #[test]
    fn a_name_is_written_once_and_looked_up_once() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        for _ in 0..3 {
            sink.take(Some(Record::Kernel(row(kind::KERNEL), 1, NO_NODE)), &texts);
            sink.take(Some(Record::Call(row(kind::CALL), Api::Runtime, 211)), &texts);
            sink.take(Some(Record::Call(row(kind::CALL), Api::Runtime, 9999)), &texts);
            sink.take(Some(Record::Kernel(row(kind::KERNEL), 2, NO_NODE)), &texts);
        }
        sink.take(None, &texts);
        let blocks = blocks(&sink.staged);
        let names: Vec<_> = blocks
            .iter()
            .filter(|block| block.0 == file::NAME)
            .map(|block| String::from_utf8_lossy(&block.1[4..]).into_owned())
            .collect();
        assert_eq!(names, ["first", "cudaLaunchKernel_v7000", "second"]);
        assert_eq!(texts.0.get(), 2);
        let numbers: Vec<_> = blocks
            .iter()
            .filter(|block| block.0 == file::ACTIVITY.0)
            .map(|block| u32::from_le_bytes(block.1[28..32].try_into().unwrap()))
            .collect();
        assert_eq!(numbers[..4], [0, 1, NO_NAME, 2]);
        assert_eq!((sink.totals.activities, sink.totals.unknown), (12, 1));
    }

    /// The activity refers to the block of its node, which comes first.
    #[test]
    fn a_node_of_a_graph_is_written_once() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        let [first, second] = [5, 6].map(|node| GraphNode { graph: 3, node });
        for node in [first, NO_NODE, second, first] {
            sink.take(Some(Record::Transfer(row(kind::FILL), node)), &texts);
        }
        sink.take(Some(Record::Graph(row(kind::KERNEL), 3)), &texts);
        let blocks = blocks(&sink.staged);
        let nodes = blocks.iter().filter(|block| block.0 == file::NODE.0).count();
        let numbers = blocks
            .iter()
            .filter(|block| block.0 == file::ACTIVITY.0)
            .map(|block| u32::from_le_bytes(block.1[4..8].try_into().unwrap()));
        assert_eq!((nodes, numbers.collect::<Vec<_>>()), (3, vec![1, 0, 2, 1, 3]));
        assert_eq!(blocks[0].0, file::NODE.0, "before its first activity");
        let name = blocks.iter().find(|block| block.0 == file::NAME).unwrap();
        assert_eq!(name.1[4..], *b"CUDA graph 3");
    }

    #[test]
    fn the_edges_of_a_graph_are_written_once_with_its_first_operation() {
        let (new, texts) = (NewEdges::default(), Numbers(Cell::new(0)));
        let edge = |graph, from| GraphEdge { graph, from, to: from + 1 };
        [edge(3, 5), edge(4, 8), edge(3, 6), edge(3, 5)].into_iter().for_each(|one| new.add(one));
        let mut sink = Sink::default();
        sink.edges.take(&new);
        let whole = GraphNode { graph: 4, node: 0 };
        let [first, second] = [5, 6].map(|node| GraphNode { graph: 3, node });
        for node in [NO_NODE, first, second, first, whole] {
            sink.take(Some(Record::Transfer(row(kind::FILL), node)), &texts);
        }
        let blocks = blocks(&sink.staged);
        let edges: Vec<_> = blocks.iter().filter(|block| block.0 == file::EDGE.0).collect();
        let mut expected = Vec::new();
        [edge(3, 5), edge(3, 6)].into_iter().for_each(|one| file::edge(&mut expected, one));
        assert_eq!(
            [&edges[0].1[..], &edges[1].1].concat(),
            [&expected[4..24], &expected[28..]].concat()
        );
        assert_eq!(edges.len(), 2, "a graph that runs only as a whole has no edges");
    }

    /// A thread that has ended has no name. Operations have no thread.
    #[test]
    fn the_name_of_a_thread_is_written_once() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        for thread in [1, 1, 0, 2, 1] {
            sink.take(Some(Record::Plain(Row { thread, ..row(kind::CALL) })), &texts);
        }
        let blocks = blocks(&sink.staged);
        let names: Vec<_> = blocks.iter().filter(|block| block.0 == file::THREAD).collect();
        assert_eq!(names, [&(file::THREAD, b"\x01\0\0\0t1".to_vec())]);
        assert_eq!(blocks[0].0, file::THREAD, "before its first call");
    }

    /// The recorder once compared the activities alone with the maximum, and went on without taking
    /// records.
    #[test]
    fn allocations_events_and_samples_fill_a_file_too() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        sink.take(Some(Record::Allocation(file::Allocated::default())), &texts);
        sink.take(Some(Record::Event(file::EventUse::default())), &texts);
        sink.take(Some(Record::Sample(file::Sample::default())), &texts);
        let of_event = file::EventUse::default();
        sink.take(Some(Record::StreamWait(row(kind::SYNC), of_event)), &texts);
        assert_eq!((sink.others, sink.totals.activities), (4, 1));
        let mut sink = Sink { others: 1, ..Sink::default() };
        sink.totals.activities = ACTIVITIES_MAX - 2;
        assert!(!sink.is_full());
        sink.totals.activities += 1;
        assert!(sink.is_full());
    }

    #[test]
    fn the_name_of_a_range_begins_with_its_domain() {
        let (mut sink, texts) = (Sink::default(), Domains);
        struct Domains;
        impl Texts for Domains {
            fn text(&self, address: u64) -> &[u8] {
                [&b""[..], b"step", b"NCCL"][usize::try_from(address).unwrap()]
            }
            fn function(&self, _: Api, _: u32) -> Option<&[u8]> {
                None
            }
            fn thread(&self, _: u32, _: &mut [u8; THREAD_NAME_BYTES]) -> usize {
                0
            }
        }
        for (name, domain) in [(1, 0), (1, 2), (0, 0), (0, 2)] {
            sink.take(Some(Record::Mark { row: row(kind::MARK), name, domain }), &texts);
        }
        let blocks = blocks(&sink.staged);
        let names: Vec<_> = blocks
            .iter()
            .filter(|block| block.0 == file::NAME)
            .map(|block| &block.1[4..])
            .collect();
        assert_eq!(names, [&b"step"[..], b"NCCL: step"], "the ends of ranges have no names");
        assert_eq!(sink.totals.activities, 4);
    }

    /// The reader refuses a trace if the number of activities in its end differs from the actual
    /// number.
    #[test]
    fn the_totals_count_what_is_in_the_file() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        let mut file = Vec::new();
        for round in 0..3 {
            for _ in 0..=round {
                sink.take(Some(Record::Plain(row(kind::FILL))), &texts);
            }
            if round < 2 {
                file.append(&mut sink.staged.clone());
                sink.written();
            }
        }
        sink.discard();
        assert!(sink.staged.is_empty());
        let written = blocks(&file).iter().filter(|block| block.0 == file::ACTIVITY.0).count();
        assert_eq!(sink.totals.activities, written as u64);
        assert_eq!((sink.totals.activities, sink.totals.dropped), (3, 3));
    }

    #[test]
    fn another_file_of_the_process_begins_with_its_contexts_and_streams() {
        let (mut sink, texts) = (Sink::default(), Numbers(Cell::new(0)));
        sink.take(Some(Record::Context { context: 1, device: 0, null_stream: 7 }), &texts);
        sink.take(Some(Record::Kernel(row(kind::KERNEL), 1, NO_NODE)), &texts);
        sink.take(Some(Record::Stream { context: 1, stream: 8, class: 2 }), &texts);
        let next = Sink::continued(sink.lasting);
        let tags: Vec<u8> = blocks(&next.staged).into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, [file::CONTEXT.0, file::STREAM.0]);
        assert_eq!((next.lasting, next.totals.activities), (next.staged, 0));
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let mut sink = Sink::default();
        struct Long;
        impl Texts for Long {
            fn text(&self, _: u64) -> &[u8] {
                &[b'x'; 3 * NAME_BYTES_MAX]
            }
            fn function(&self, _: Api, _: u32) -> Option<&[u8]> {
                None
            }
            fn thread(&self, _: u32, _: &mut [u8; THREAD_NAME_BYTES]) -> usize {
                0
            }
        }
        sink.take(Some(Record::Kernel(row(kind::KERNEL), 1, NO_NODE)), &Long);
        let blocks = blocks(&sink.staged);
        assert_eq!((blocks.len(), blocks[0].1.len()), (2, 4 + NAME_BYTES_MAX));
    }
}
