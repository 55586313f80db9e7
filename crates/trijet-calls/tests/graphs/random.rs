//! Random graphs: the conflicts between their nodes are those of the pairs that no path joins.

use crate::calls::*;
use std::collections::BTreeSet;
use trijet_ledger::base::prng::Prng;

/// An operation of a random graph: the cells that it reads and writes, and the operations that it
/// follows by any path.
struct Operation {
    reads: Option<u64>,
    writes: u64,
    past: BTreeSet<usize>,
}

impl Operation {
    fn conflicts(&self, other: &Self) -> bool {
        self.writes == other.writes
            || self.reads == Some(other.writes)
            || other.reads == Some(self.writes)
    }
}

fn cell(number: u64) -> u64 {
    DATA + 4096 * number
}

fn draw_usize(draw: &mut Prng, below: usize) -> usize {
    usize::try_from(draw.below(below as u64)).unwrap()
}

fn operation(draw: &mut Prng, past: BTreeSet<usize>) -> Operation {
    let writes = draw.below(6);
    let reads = Some(draw.below(6)).filter(|cell| *cell != writes && draw.below(2) == 0);
    Operation { reads, writes, past }
}

/// Compares the verdict with the pairs of operations that conflict and have no path.
fn compare(calls: &Calls, operations: &[Operation], name: &str) {
    let mut unordered = BTreeSet::new();
    for (later, two) in operations.iter().enumerate() {
        for (earlier, one) in operations[..later].iter().enumerate() {
            let has_path = two.past.contains(&earlier) || one.past.contains(&later);
            if one.conflicts(two) && !has_path {
                unordered.insert([earlier, later].map(|number| format!("op{number}")));
            }
        }
    }
    let found = calls.judged();
    assert_eq!(found.merged_graphs, 0, "{name}");
    let pairs: BTreeSet<_> = { pairs(&found, found.errors.iter()) }
        .into_iter()
        .map(|[one, two]| if number(&one) < number(&two) { [one, two] } else { [two, one] })
        .collect();
    assert!(pairs.is_subset(&unordered), "{name}: {pairs:?} {unordered:?}");
    assert_eq!(pairs.is_empty(), unordered.is_empty(), "{name}: {unordered:?}");
}

fn number(mark: &str) -> usize {
    mark.trim_start_matches("op").parse().unwrap()
}

/// Nodes in a drawn order of calls, with edges that were given at once or later.
#[test]
fn random_graphs_of_nodes_conflict_where_no_path_leads() {
    for seed in 0..400 {
        let mut draw = Prng::new(seed);
        let count = 2 + draw_usize(&mut draw, 14);
        let density = 1 + draw.below(8);
        let mut operations: Vec<Operation> = Vec::new();
        let (mut calls, mut late) = (Calls::new(), Vec::new());
        for node in 0..count {
            let before: Vec<usize> = (0..node).filter(|_| draw.below(8) < density).collect();
            let mut past: BTreeSet<usize> = before.iter().copied().collect();
            before.iter().for_each(|one| past.extend(&operations[*one].past));
            let one = operation(&mut draw, past);
            let (now, later): (Vec<usize>, Vec<usize>) =
                before.iter().partition(|_| draw.below(3) > 0);
            let now: Vec<u64> = now.iter().map(|one| 0x100 + *one as u64).collect();
            late.extend(later.iter().map(|one| [0x100 + *one as u64, 0x100 + node as u64]));
            calls.mark(&format!("op{node}"));
            match one.reads {
                Some(from) => {
                    calls.copy_node(0x100 + node as u64, &now, cell(from), cell(one.writes));
                }
                None => calls.fill_node(0x100 + node as u64, &now, cell(one.writes)),
            }
            operations.push(one);
        }
        let (from, to): (Vec<u64>, Vec<u64>) = late.iter().map(|[from, to]| (*from, *to)).unzip();
        let first = [GRAPH, 0x77, 0x78, late.len() as u64];
        calls.mark("").call("cuGraphAddDependencies", &[&first[..], &from, &to].concat());
        calls.launch();
        compare(&calls, &operations, &format!("seed {seed}"));
    }
}

/// Operations on streams of a capture, with records and waits of events.
#[test]
fn random_captures_conflict_where_no_path_leads() {
    const STREAMS: [u64; 3] = [ONE, TWO, THREE];
    const EVENTS: [u64; 3] = [EVENT, OTHER_EVENT, OTHER_EVENT + 8];
    for seed in 0..400 {
        let mut draw = Prng::new(seed);
        let mut calls = Calls::new();
        calls.begin(ONE);
        calls.follow(ONE, TWO, EVENT);
        calls.follow(ONE, THREE, EVENT);
        let mut streams = [const { BTreeSet::new() }; 3];
        let mut events: [Option<BTreeSet<usize>>; 3] = [Some(BTreeSet::new()), None, None];
        let mut operations: Vec<Operation> = Vec::new();
        for _ in 0..30 {
            let (stream, event) = (draw_usize(&mut draw, 3), draw_usize(&mut draw, 3));
            match draw.below(4) {
                0 => {
                    calls.mark("").call("cuEventRecord", &[EVENTS[event], STREAMS[stream]]);
                    events[event] = Some(streams[stream].clone());
                }
                1 => {
                    let Some(past) = &events[event] else { continue };
                    calls.mark("").call("cuStreamWaitEvent", &[STREAMS[stream], EVENTS[event], 0]);
                    streams[stream].extend(past);
                }
                _ => {
                    let one = operation(&mut draw, streams[stream].clone());
                    let handle = STREAMS[stream];
                    calls.mark(&format!("op{}", operations.len()));
                    match one.reads {
                        Some(from) => calls.copy(handle, cell(from), cell(one.writes)),
                        None => calls.fill(handle, cell(one.writes)),
                    }
                    streams[stream].insert(operations.len());
                    operations.push(one);
                }
            }
        }
        calls.mark("").end_and_launch(ONE);
        compare(&calls, &operations, &format!("seed {seed}"));
    }
}
