//! Regions: groups of tasks that are held back until the last task of the group is submitted. Then
//! the tasks of the group are issued as one graph.
#![forbid(unsafe_code)]

use super::bound::{BoundData, NodeBody};
use super::declared::{AnyDatum, DeclaredUse, StreamBody};
use super::task_state::{New, Number, TaskBody};
use crate::base::error::Result;
use crate::graph::alike;
use crate::stream::Stream;
use crate::workers::{Run, TaskGraph};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::sync::{Arc, PoisonError};

/// Maximum number of data per graph. The launch of a graph is an operation with at most 64
/// accesses, and the memory of the graph itself needs some of these accesses.
const DATA_MAX: usize = 48;

/// A datum of a region. The data of a region are in the order of their first use.
pub(super) struct RegionDatum {
    number: u32,
    pub(super) datum: Arc<dyn AnyDatum>,
    pub(super) writes: bool,
}

/// A region before it is issued.
#[derive(Default)]
pub(super) struct Region {
    pub(super) members: Vec<Number>,
    pub(super) data: Vec<RegionDatum>,
    /// The number of pairs of a member and an earlier task outside of the region that holds the
    /// member back.
    pub(super) blockers: usize,
    /// The hash of the calls, the uses and the memory of the members so far; see
    /// [`RegionIssue::key`].
    pub(super) hasher: DefaultHasher,
    /// The program of the members; `None` if the members are not nodes of a run of workers.
    pub(super) workers: Option<Arc<BoundData>>,
    /// Whether the members are issued one by one, because the region cannot be a graph.
    pub(super) is_loose: bool,
    /// Whether all members have been submitted.
    pub(super) is_closed: bool,
}

/// A member of a region that is being issued.
pub(super) struct Member {
    pub(super) number: Number,
    pub(super) body: StreamBody,
    /// The indices, among the members of the region, of the members that write bytes which this
    /// member reads.
    pub(super) reads: SmallVec<[usize; 4]>,
}

/// A region that is being issued as a graph.
pub(super) struct RegionIssue {
    /// A hash of the calls, the uses and the memory of the region. Regions with equal keys use the
    /// same graph. Where the operations of these regions differ, the graph is changed.
    pub(super) key: u64,
    pub(super) members: Vec<Member>,
    pub(super) data: Vec<RegionDatum>,
    pub(super) lane: usize,
    pub(super) place: usize,
    pub(super) stream: Arc<Stream>,
}

/// A run of workers that is being issued.
pub(super) struct RunIssue {
    pub(super) bound: Arc<BoundData>,
    pub(super) members: Vec<(Number, NodeBody)>,
    /// Edges from an earlier to a later member, by their indices in `members`.
    pub(super) edges: Vec<(usize, usize)>,
    pub(super) lane: usize,
    pub(super) stream: Arc<Stream>,
}

/// A run of workers whose end is not known yet.
pub(super) struct Running {
    pub(super) run: Run,
    /// The tasks that are nodes of the run. The index is the number of the node.
    pub(super) members: Vec<Number>,
}

/// The regions that are not issued yet.
#[derive(Default)]
pub(super) struct Regions {
    pub(super) all: BTreeMap<u64, Region>,
    pub(super) next: u64,
    pub(super) ready: Vec<u64>,
}

impl Region {
    /// Adds a task and its uses to the region.
    pub(super) fn note(&mut self, new: &New, declared: &[DeclaredUse]) {
        let Self { data, hasher, is_loose, members, workers, .. } = self;
        match &new.body {
            TaskBody::Node(node) if members.is_empty() => *workers = Some(Arc::clone(&node.bound)),
            // A run of workers has only one program, and a graph cannot contain a task for workers.
            TaskBody::Node(NodeBody { bound, .. }) => {
                *is_loose |= workers.as_ref().is_none_or(|known| !Arc::ptr_eq(known, bound));
            }
            TaskBody::Stream(_) => *is_loose |= workers.is_some(),
            // A graph cannot contain a task of the host.
            TaskBody::Host(_) => *is_loose = true,
        }
        if workers.is_some() {
            return;
        }
        (new.place, new.site.file(), new.site.line(), new.site.column()).hash(hasher);
        members.len().hash(hasher);
        for one in declared {
            let Some(datum) = &one.datum else { continue };
            let known = data.iter().position(|known| known.number == one.number);
            let index = known.unwrap_or_else(|| {
                let datum = Arc::clone(datum);
                data.push(RegionDatum { number: one.number, datum, writes: false });
                data.len() - 1
            });
            data[index].writes |= one.mode.writes();
            let memory = alike(&data[index].datum.read_all(new.place).span());
            (index, memory, &one.range, one.mode.writes(), one.reduces).hash(hasher);
        }
        *is_loose |= data.len() > DATA_MAX;
    }
}

impl RunIssue {
    /// Makes a graph of the members, and starts a run of the program over this graph.
    pub(super) fn start(&self) -> Result<Run> {
        let mut graph = TaskGraph::new();
        let node = |(_, node): &(Number, NodeBody)| graph.node_with(node.kind, node.fields);
        let nodes: Vec<_> = self.members.iter().map(node).collect();
        for (before, after) in &self.edges {
            graph.edge(nodes[*before], nodes[*after]);
        }
        let mut start = self.bound.start.lock().unwrap_or_else(PoisonError::into_inner);
        start(&self.stream, &graph)
    }
}
