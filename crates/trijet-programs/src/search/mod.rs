//! Breadth-first search in a graph whose vertices have very different numbers of neighbours.

use crate::mix::mix;
use crate::part::part;
use std::collections::VecDeque;
use trijet::kernels::{ArgBlock, Read, Update};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker, WorkerTask};

/// The kinds of tasks of [`SEARCH`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Visits;

impl Kinds for Visits {
    const KINDS: &'static [(&'static str, Body)] = &[("visit", visit)];
}

/// A directed graph, given by the neighbours of each vertex.
#[derive(Debug, Clone)]
pub struct Neighbours {
    /// The edges of vertex `v` are `neighbours[ends[v]..ends[v + 1]]`.
    pub ends: Vec<u32>,
    /// The vertex to which each edge leads, vertex by vertex.
    pub neighbours: Vec<u32>,
}

impl Neighbours {
    /// Makes a graph of `vertices` vertices. The numbers of neighbours are powers of two up to 1024
    /// and follow a power law: about half as many vertices have twice as many neighbours.
    #[must_use]
    pub fn power_law(vertices: u32, seed: u32) -> Self {
        let (mut ends, mut neighbours) = (vec![0], Vec::new());
        for vertex in 0..vertices {
            let hash = mix(vertex ^ mix(seed));
            let degree = 1_u32 << hash.leading_zeros().min(10);
            neighbours.extend((0..degree).map(|at| mix(hash.wrapping_add(at)) % vertices));
            ends.push(neighbours.len() as u32);
        }
        Self { ends, neighbours }
    }

    /// The distance of each vertex from `first`; `u32::MAX` if there is no path.
    #[must_use]
    pub fn distances(&self, first: u32) -> Vec<u32> {
        let mut distances = vec![u32::MAX; self.ends.len() - 1];
        distances[first as usize] = 0;
        let mut queue = VecDeque::from([first]);
        while let Some(vertex) = queue.pop_front() {
            let (at, next) = (vertex as usize, distances[vertex as usize] + 1);
            for other in &self.neighbours[self.ends[at] as usize..self.ends[at + 1] as usize] {
                if distances[*other as usize] == u32::MAX {
                    distances[*other as usize] = next;
                    queue.push_back(*other);
                }
            }
        }
        distances
    }
}

/// The initial task, which starts the search at a vertex. Set the distance of this vertex to 0
/// before the run.
#[must_use]
pub const fn first(vertex: u32) -> WorkerTask {
    WorkerTask::new(0, vertex as u64)
}

fn visit(w: &mut Worker<'_>, payload: u64) {
    let (vertex, distance) = (payload as u32 as usize, (payload >> 32) as u32);
    let (ends, neighbours) = (w.read::<u32>(0), w.read::<u32>(2));
    let distances = w.shared::<u32>(4);
    let (Some(begin), Some(end)) = (ends.get(vertex), ends.get(vertex + 1)) else { return };
    if vertex >= distances.len() {
        return;
    }
    for next in part(neighbours, *begin, *end) {
        if *next as usize >= distances.len() {
            continue;
        }
        let before = distances.update(*next as usize, |is| is.min(distance + 1));
        if before > distance + 1 {
            w.must_spawn(0, u64::from(distance + 1) << 32 | u64::from(*next));
        }
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let [ends, _, distances] = [0, 1, 2].map(|at| args.spans()[at].elements);
    if ends != distances + 1 {
        return Err(format!(
            "{ends} ends for {distances} vertices; one end more than vertices is needed"
        ));
    }
    Ok(())
}

/// The parameters of [`SEARCH`].
pub type SearchParams = (Read<u32>, Read<u32>, Update<u32>);

/// Lowers the distances of vertices. Its arguments are `(&ends, &neighbours, &mut distances)`; the
/// first two are from [`Neighbours`]. At the start, the distance of the first vertex is 0, and all
/// other distances are `u32::MAX`. Its initial task is [`first`].
pub static SEARCH: Program<Visits, SearchParams> = {
    let bodies = concat!(include_str!("../mix.cu"), include_str!("search.cu"));
    let parameters =
        "const u32* ends, u64 marks, const u32* neighbours, u64 edges, u32* distances, u64 length";
    let spec = ProgramSpec::new("search", bodies, parameters);
    // SAFETY: every index is compared with the length of its span, in 64 bits, and distances are
    // changed atomically.
    unsafe { Program::declare(spec.check(check)) }
};
