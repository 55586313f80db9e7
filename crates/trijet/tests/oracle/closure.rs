//! Happens-before as an explicit relation over the ledger's entries: every pair is stored, nothing
//! is derived from clocks. The edges are those of the laws, for one enqueuing thread.

use std::collections::{BTreeMap, BTreeSet};
use trijet::base::id::{LaneId, Position};
use trijet::base::ledger::{Op, OpKind};

/// `before[later][earlier]`: the earlier entry is complete before the later one begins.
struct Closure {
    before: Vec<Vec<bool>>,
}

impl Closure {
    fn new(ops: &[Op]) -> Self {
        let mut before: Vec<Vec<bool>> = Vec::with_capacity(ops.len());
        let mut last_of_lane: BTreeMap<LaneId, usize> = BTreeMap::new();
        let mut record_of_event: BTreeMap<u64, usize> = BTreeMap::new();
        let mut by_position: BTreeMap<Position, usize> = BTreeMap::new();
        for (index, op) in ops.iter().enumerate() {
            let mut edges = Vec::new();
            // Law A1: a stream executes in the order of its calls.
            edges.extend(last_of_lane.insert(op.position.lane, index));
            match &op.kind {
                // Law A4: a second record overwrites.
                OpKind::Record { event } => {
                    record_of_event.insert(*event, index);
                }
                // Laws A5 and A7: what the event stands for at this call, if anything.
                OpKind::Wait { event, on } => {
                    let record = record_of_event.get(event).copied();
                    if let Some(record) = record {
                        assert_eq!(ops[record].position, *on, "the wait names its record");
                    }
                    edges.extend(record);
                }
                _ => {
                    by_position.insert(op.position, index);
                }
            }
            // Laws A2, A8 and A9: what the thread saw complete comes before what it enqueues.
            edges.extend(op.thread_known.iter().filter_map(|known| by_position.get(known)));
            let mut row = vec![false; index];
            for edge in edges {
                row[edge] = true;
                for (mine, theirs) in row.iter_mut().zip(&before[edge]) {
                    *mine |= theirs;
                }
            }
            before.push(row);
        }
        Self { before }
    }

    fn orders(&self, earlier: usize, later: usize) -> bool {
        earlier == later || self.before[later].get(earlier) == Some(&true)
    }
}

fn conflict(a: &Op, b: &Op) -> bool {
    a.accesses.iter().any(|x| {
        b.accesses.iter().any(|y| {
            x.block == y.block
                && x.range.start < y.range.end
                && y.range.start < x.range.end
                && (x.mode.writes() || y.mode.writes())
        })
    })
}

/// What `check` saw, so that a test can demand that there was something to see.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) conflicts: usize,
    pub(crate) waits: usize,
}

/// Demands that every conflict is ordered and that no wait of the library was implied before it.
/// The first `user_events` records are those of events whose waits the user asked for.
pub(crate) fn check(ops: &[Op], user_events: usize) -> Result<Seen, String> {
    let closure = Closure::new(ops);
    let mut seen = Seen::default();
    for (later, b) in ops.iter().enumerate() {
        for (earlier, a) in ops[..later].iter().enumerate() {
            if conflict(a, b) {
                seen.conflicts += 1;
                if !closure.orders(earlier, later) {
                    let (a, b) = (line(a), line(b));
                    return Err(format!("entries {earlier} and {later} race: {a} and {b}"));
                }
            }
        }
    }
    let records = ops.iter().filter_map(|op| match op.kind {
        OpKind::Record { event } => Some(event),
        _ => None,
    });
    let asked: BTreeSet<u64> = records.take(user_events).collect();
    for (index, op) in ops.iter().enumerate() {
        let OpKind::Wait { event, on } = op.kind else { continue };
        if asked.contains(&event) {
            continue;
        }
        seen.waits += 1;
        let target = ops.iter().position(|o| o.position == on && is_work(o));
        let target = target.ok_or_else(|| format!("entry {index} waits for nothing: {on}"))?;
        let before = ops[..index].iter().rposition(|o| o.position.lane == op.position.lane);
        let by_lane = before.is_some_and(|before| closure.orders(target, before));
        let next = ops[index..].iter().find(|o| o.position == op.position && is_work(o));
        let by_thread = next.is_some_and(|o| {
            let index_of = |p: &Position| ops.iter().position(|o| o.position == *p && is_work(o));
            o.thread_known.iter().filter_map(index_of).any(|known| closure.orders(target, known))
        });
        if by_lane || by_thread {
            return Err(format!("the wait at entry {index} for {on} was implied: {}", line(op)));
        }
    }
    Ok(seen)
}

fn is_work(op: &Op) -> bool {
    !matches!(op.kind, OpKind::Record { .. } | OpKind::Wait { .. })
}

fn line(op: &Op) -> String {
    format!("`{}` at {} ({})", op.label, op.position, op.site)
}
