//! Changes of a ledger itself, so that tests ask the checker about the changed run.
#![forbid(unsafe_code)]

use crate::base::edges::may_wait;
use crate::base::id::{BlockId, LaneId};
use crate::base::ledger::{HostStep, Op, OpKind, Place, StreamClass};
use std::collections::{BTreeMap, BTreeSet};

/// A change of a ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LedgerChange {
    /// The wait of a stream or of the host at this index is not made.
    DropWait(usize),
    /// The pageable block is page-locked, so an asynchronous copy of it does not wait.
    PageLock(BlockId),
    /// The operation at the index `entry` is enqueued in another stream of its device. The start
    /// of its call, if the ledger has it, moves with it.
    MoveTo {
        /// The index of the operation.
        entry: usize,
        /// The lane of the other stream.
        lane: LaneId,
        /// The class of the other stream.
        class: StreamClass,
    },
}

/// The ledger with the changes, and for each of its entries the index before the changes. The calls
/// of the host keep their order.
pub(super) fn changed(ops: &[Op], changes: &[LedgerChange]) -> (Vec<Op>, Vec<usize>) {
    let (mut dropped, mut locked, mut moves) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let begins = begins(ops);
    for change in changes {
        match *change {
            LedgerChange::DropWait(entry) => drop(dropped.insert(entry)),
            LedgerChange::PageLock(block) => drop(locked.insert(block)),
            LedgerChange::MoveTo { entry, lane, class } => {
                moves.extend(
                    [Some(&entry), begins.get(&entry)]
                        .into_iter()
                        .flatten()
                        .map(|at| (*at, (lane, class))),
                );
            }
        }
    }
    let is_left_out = |work: usize| {
        let mut op = ops[work].clone();
        let waited = may_wait(&op);
        page_lock(&mut op, &locked);
        waited && !may_wait(&op)
    };
    dropped.extend(begins.iter().filter(|(work, _)| is_left_out(**work)).map(|(_, begin)| *begin));
    let kept = ops.iter().enumerate().filter(|(index, _)| !dropped.contains(index));
    let kept = kept.map(|(index, op)| {
        let mut op = op.clone();
        page_lock(&mut op, &locked);
        if let Some((lane, class)) = moves.get(&index) {
            (op.position.lane, op.stream) = (*lane, *class);
        }
        (op, index)
    });
    kept.unzip()
}

fn page_lock(op: &mut Op, locked: &BTreeSet<BlockId>) {
    for access in &mut op.accesses {
        if access.place == Place::Pageable && locked.contains(&access.block) {
            access.place = Place::Pinned;
        }
    }
}

/// For each operation whose call may wait, the entry of the start of the call.
fn begins(ops: &[Op]) -> BTreeMap<usize, usize> {
    let mut begun: BTreeMap<u64, usize> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for (index, op) in ops.iter().enumerate() {
        if op.kind == OpKind::Host(HostStep::Begin) {
            begun.insert(op.thread, index);
        } else if op.kind == OpKind::Host(HostStep::Failed) {
            begun.remove(&op.thread);
        } else if op.kind.is_work()
            && let Some(begin) = begun.remove(&op.thread)
        {
            found.insert(index, begin);
        }
    }
    found
}
