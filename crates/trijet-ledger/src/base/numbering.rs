//! Replaces numbers that are unique in the process by numbers that depend only on the run. The
//! match over the kinds of entries is in this crate, because only here the compiler demands that
//! the match is exhaustive. So a new kind with a number cannot be forgotten.
#![forbid(unsafe_code)]

use super::id::BlockId;
use super::ledger::{LedgerNote, Named, Op, OpKind, SignalStep};
use std::collections::BTreeMap;

/// Numbers threads, allocations and signals from 1 in the order in which they appear. The original
/// numbers are unique in the process, so with them a second run in the same process would give
/// another trace.
pub fn number_by_appearance(ops: &mut [Op]) {
    let (mut threads, mut blocks) = (BTreeMap::new(), BTreeMap::new());
    let mut signals = BTreeMap::new();
    for op in ops {
        let next = threads.len() as u64 + 1;
        op.thread = *threads.entry(op.thread).or_insert(next);
        let mut number = |block: &mut BlockId| {
            let next = BlockId(blocks.len() as u64 + 1);
            *block = *blocks.entry(*block).or_insert(next);
        };
        match &mut op.kind {
            OpKind::Signal(SignalStep::Use { signal, .. } | SignalStep::Handle { signal, .. }) => {
                let next = signals.len() as u64 + 1;
                *signal = *signals.entry(*signal).or_insert(next);
            }
            OpKind::Note(LedgerNote::Name { of: Named::Block(block) }) => number(block),
            OpKind::Work(_)
            | OpKind::Mark(_)
            | OpKind::Memory(_)
            | OpKind::Host(_)
            | OpKind::Note(LedgerNote::Name { of: Named::Stream | Named::Event(_) })
            | OpKind::Note(LedgerNote::Gone { .. } | LedgerNote::Settled { .. })
            | OpKind::Note(LedgerNote::Ran | LedgerNote::ThreadGone) => {}
        }
        op.accesses.iter_mut().for_each(|access| number(&mut access.block));
    }
}
