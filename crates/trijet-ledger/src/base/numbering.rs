//! Numbers that depend on a run only, in place of numbers that are unique in the process.
#![forbid(unsafe_code)]

use super::id::BlockId;
use super::ledger::{Named, Op, OpKind};
use std::collections::BTreeMap;

/// Numbers threads, allocations and signals from 1 in the order in which they appear. Their own
/// numbers are unique in the process, so a second run in the same process would give another trace.
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
            OpKind::Signal { signal, .. } | OpKind::Handle { signal, .. } => {
                let next = signals.len() as u64 + 1;
                *signal = *signals.entry(*signal).or_insert(next);
            }
            OpKind::Name { of: Named::Block(block) } => number(block),
            OpKind::Name { of: Named::Stream | Named::Event(_) }
            | OpKind::Alloc
            | OpKind::Free
            | OpKind::Copy
            | OpKind::CopyNow
            | OpKind::Batch(_)
            | OpKind::Fill
            | OpKind::FillNow
            | OpKind::Kernel
            | OpKind::HostFn
            | OpKind::AllocNow
            | OpKind::FreeNow
            | OpKind::FromHeap { .. }
            | OpKind::ToHeap
            | OpKind::Fault { .. }
            | OpKind::Record { .. }
            | OpKind::Wait { .. }
            | OpKind::Sync { .. }
            | OpKind::Host
            | OpKind::Call(_)
            | OpKind::Gone { .. }
            | OpKind::Open
            | OpKind::Begin
            | OpKind::Ran
            | OpKind::Settled { .. }
            | OpKind::ThreadGone
            | OpKind::Lent => {}
        }
        op.accesses.iter_mut().for_each(|access| number(&mut access.block));
    }
}
