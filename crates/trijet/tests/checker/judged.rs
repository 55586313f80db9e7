//! Waits for signals in random programs. The test judges them by reachability: it finds all paths
//! between calls by brute force, while the checker uses vector clocks.

use super::log::{A, C, E, Log, log, r};
use std::collections::{BTreeMap, BTreeSet};
use trijet::check::FindingClass;
use trijet::testing::Prng;
use trijet::trace::Position;
use trijet::trace::Signalled::{Found, Set, Wait};
use trijet::trace::{HostStep, Op, OpKind, SignalStep, Signalled, StreamMark, StreamWork, Waited};

/// The sets and waits that host functions will make: the lane, the number of the host function in
/// the lane, and for each step the signal and whether it is set.
type Planned = Vec<(u32, u64, Vec<(u64, bool)>)>;

/// Appends the entries of the planned host functions.
fn run(mut log: Log, planned: &mut Planned) -> Log {
    for (lane, seq, acts) in planned.drain(..) {
        for (signal, sets) in acts {
            log = log.inside(lane, seq, signal, if sets { Set } else { Wait });
        }
    }
    log
}

/// A random program with three threads, three streams and three signals.
fn draw(prng: &mut Prng) -> Log {
    let (mut log, mut planned, mut seqs) = (log(), Planned::new(), [0; 3]);
    for _ in 0..4 + prng.below(10) {
        let lane = u32::try_from(prng.below(3)).expect("small") + A;
        let signal = 1 + prng.below(3);
        log = log.by(prng.below(3));
        log = match prng.below(12) {
            0..=3 => {
                seqs[lane as usize] += 1;
                let acts = (0..prng.below(3)).map(|_| (1 + prng.below(3), prng.below(2) == 0));
                planned.push((lane, seqs[lane as usize], acts.collect()));
                log.host_fn(lane)
            }
            4 => run(log, &mut planned),
            5 | 6 => run(log, &mut planned).sync(lane),
            7 => log.edge(E + prng.below(90), lane, (lane + 1) % (C + 1)),
            8 | 9 => log.signal(signal, Set),
            10 => log.signal(signal, Wait),
            _ => {
                let set = (signal, Set);
                let is_set = |op: &Op| {
                    let OpKind::Signal(step) = op.kind else { return false };
                    matches!(step, SignalStep::Use { signal, what, .. } if (signal, what) == set)
                };
                let log = run(log, &mut planned);
                if log.ops.iter().any(is_set) {
                    log.signal(signal, Wait).signal(signal, Found)
                } else {
                    log
                }
            }
        };
    }
    // This thread could still set the signals that are not set.
    run(log, &mut planned).by(9).host(r(99))
}

/// Three nodes for each entry: its call, the start of its work, and the end of its work. The graph
/// has all paths between the nodes.
struct Graph<'a> {
    ops: &'a [Op],
    reaches: Vec<BTreeSet<usize>>,
}

fn call(op: usize) -> usize {
    3 * op
}

fn begin(op: usize) -> usize {
    3 * op + 1
}

fn end(op: usize) -> usize {
    3 * op + 2
}

/// For each node, the nodes that it reaches along edges.
fn closure(edges: &[(usize, usize)], nodes: usize) -> Vec<BTreeSet<usize>> {
    let mut reaches: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); nodes];
    // The longest path takes at most this many rounds.
    for _ in 0..reaches.len() {
        for (from, to) in edges {
            let further = reaches[*to].clone();
            reaches[*from].extend(further);
            reaches[*from].insert(*to);
        }
    }
    reaches
}

impl<'a> Graph<'a> {
    fn new(ops: &'a [Op]) -> Self {
        let mut edges: Vec<(usize, usize)> = Vec::new();
        let (mut tails, mut threads) = (BTreeMap::new(), BTreeMap::new());
        let (mut events, mut sets, mut inside) =
            (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut host_fns: BTreeMap<Position, usize> = BTreeMap::new();
        for (n, op) in ops.iter().enumerate() {
            let of_host_fn =
                matches!(op.kind, OpKind::Signal(SignalStep::Use { inside: Some(_), .. }));
            if !of_host_fn {
                edges.extend(threads.insert(op.thread, call(n)).map(|before| (before, call(n))));
            }
            if op.kind.is_in_stream() {
                edges.extend([(call(n), begin(n)), (begin(n), end(n))]);
                let tail = tails.insert(op.position.lane, end(n));
                edges.extend(tail.map(|tail| (tail, begin(n))));
            }
            match op.kind {
                OpKind::Work(StreamWork::HostFn) => {
                    host_fns.insert(op.position, n);
                }
                OpKind::Mark(StreamMark::Record { event, .. }) => {
                    events.insert(event, end(n));
                }
                OpKind::Mark(StreamMark::Wait { event, .. }) => {
                    edges.push((events[&event], end(n)))
                }
                OpKind::Host(HostStep::Sync { what: Waited::Stream, .. }) => {
                    edges.extend(tails.get(&op.position.lane).map(|tail| (*tail, call(n))));
                }
                OpKind::Signal(SignalStep::Use { signal, what, inside: at }) => {
                    if let Some(host_fn) = at.map(|at| host_fns[&at]) {
                        let before = inside.insert(host_fn, call(n)).unwrap_or(begin(host_fn));
                        edges.extend([(before, call(n)), (call(n), end(host_fn))]);
                    }
                    match what {
                        Set => {
                            sets.entry(signal).or_insert(call(n));
                        }
                        Found => edges.push((sets[&signal], call(n))),
                        Wait | Signalled::Gone => {}
                        new => panic!("{new:?}: say what it orders"),
                    }
                }
                OpKind::Work(_)
                | OpKind::Memory(_)
                | OpKind::Host(_)
                | OpKind::Signal(SignalStep::Handle { .. })
                | OpKind::Note(_) => {}
                ref new => panic!("{new:?}: say what it orders"),
            }
        }
        Self { ops, reaches: closure(&edges, 3 * ops.len()) }
    }

    fn does(&self, what: Signalled) -> Vec<(usize, u64)> {
        let all = self.ops.iter().enumerate();
        let done = all.filter_map(|(n, op)| {
            let OpKind::Signal(SignalStep::Use { signal, what: did, .. }) = op.kind else {
                return None;
            };
            (did == what).then_some((n, signal))
        });
        done.collect()
    }

    fn host_fns(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.ops.len()).filter(|n| self.ops[*n].kind == OpKind::Work(StreamWork::HostFn))
    }

    /// The host function that made the entry, as an index; `None` if a thread made it.
    fn host_fn(&self, op: usize) -> Option<usize> {
        let OpKind::Signal(SignalStep::Use { inside: Some(at), .. }) = self.ops[op].kind else {
            return None;
        };
        self.host_fns().find(|n| self.ops[*n].position == at)
    }

    /// Whether the set follows the start of another host function that need not end before the
    /// waiting host function starts.
    fn is_risky(&self, wait: usize, set: usize) -> bool {
        let Some(waiter) = self.host_fn(wait) else { return false };
        self.host_fns().any(|other| {
            other != waiter
                && self.reaches[begin(other)].contains(&call(set))
                && !self.reaches[end(other)].contains(&begin(waiter))
        })
    }

    /// Returns two answers: whether some waits are never answered, and whether some are answered
    /// only if host functions run in a certain order.
    fn verdict(&self) -> (bool, bool) {
        let found = self.does(Found);
        let is_answered = |wait: usize| found.iter().any(|(n, _)| *n == wait + 1);
        let needs: Vec<_> =
            self.does(Wait).into_iter().filter(|(wait, _)| !is_answered(*wait)).collect();
        let sets = self.does(Set);
        let of = |signal: u64| sets.iter().filter(move |(_, of)| *of == signal).map(|(n, _)| *n);
        let mut open: BTreeSet<usize> = needs.iter().map(|(wait, _)| *wait).collect();
        let comes = |open: &BTreeSet<usize>, set: usize| {
            !open.iter().any(|wait| self.reaches[call(*wait)].contains(&call(set)))
        };
        loop {
            let before = open.clone();
            for (wait, signal) in &needs {
                if of(*signal).next().is_none() || of(*signal).any(|set| comes(&before, set)) {
                    open.remove(wait);
                }
            }
            if open == before {
                break;
            }
        }
        let by_luck = needs.iter().any(|(wait, signal)| {
            let itself = BTreeSet::from([*wait]);
            let sets = of(*signal).filter(|set| comes(&open, *set) && comes(&itself, *set));
            let mut sets = sets.peekable();
            !open.contains(wait)
                && sets.peek().is_some()
                && sets.all(|set| self.is_risky(*wait, set))
        });
        (!open.is_empty(), by_luck)
    }
}

#[test]
fn the_checker_agrees_with_all_paths() {
    let mut seen = BTreeMap::new();
    for seed in 0..4000 {
        let log = draw(&mut Prng::new(seed));
        let verdict = log.verdict();
        let has = |class| verdict.findings.iter().any(|finding| finding.class == class);
        let found = (has(FindingClass::Deadlock), has(FindingClass::DeadlockRisk));
        let judged = Graph::new(&log.ops).verdict();
        let kinds = || {
            log.ops
                .iter()
                .enumerate()
                .map(|(n, op)| format!("#{n} t{} {:?} {}\n", op.thread, op.kind, op.position))
        };
        assert_eq!(found, judged, "seed {seed}\n{}\n{verdict}", kinds().collect::<String>());
        *seen.entry(found).or_insert(0) += 1;
    }
    assert!(seen.len() == 4 && seen.values().all(|count| *count > 20), "{seen:?}");
}
