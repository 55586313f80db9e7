//! The accesses of entries: of ranges of bytes, of addresses, of allocations and of graphs.

use crate::accesses::Touched;
use crate::memory::{Allocated, Memory};
use std::collections::{BTreeMap, HashMap};
use trijet_ledger::base::ledger::{Access, Accesses, Engine, Mode, OrderedBy, Place, StreamWork};

/// The accesses of the ranges that are exact, or of those that are not.
pub(super) fn accesses_of(memory: &Memory, touched: &[Touched], exact: bool) -> Accesses {
    let mut all = Accesses::new();
    for one in touched.iter().filter(|one| one.is_exact == exact) {
        memory.accesses(&one.range, one.mode, one.elsewhere, &mut |access| all.push(access));
    }
    all
}

/// The accesses that a kernel may make: of the first byte at each address. The number of bytes is
/// not known, and frameworks cut an allocation into many tensors.
pub(super) fn possible_accesses(memory: &Memory, addresses: &[u64], mode: Mode) -> Accesses {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let access = |address: &u64| {
        let holder = memory.holder(*address)?;
        let at = address - holder.range.start;
        let (block, place) = (holder.block, holder.place);
        let ordered = OrderedBy::Program;
        Some(Access { block, place, range: at..at + 1, mode, ordered })
    };
    sorted.iter().filter_map(access).collect()
}

/// The access of a whole allocation, for its birth and its end.
pub(super) fn whole(of: &Allocated) -> Access {
    Access {
        block: of.block,
        place: of.place,
        range: 0..of.range.end - of.range.start,
        mode: Mode::Write,
        ordered: OrderedBy::Program,
    }
}

pub(super) fn engine_of(kind: StreamWork, accesses: &[Access]) -> Engine {
    let place = |writes| {
        let found = accesses.iter().find(|access| access.mode.writes() == writes);
        found.map_or(Place::Device, |access| access.place)
    };
    match (kind, place(false), place(true)) {
        (
            StreamWork::Copy | StreamWork::CopyNow,
            Place::Pinned | Place::Pageable,
            Place::Device,
        ) => Engine::Upload,
        (
            StreamWork::Copy | StreamWork::CopyNow,
            Place::Device,
            Place::Pinned | Place::Pageable,
        ) => Engine::Download,
        (StreamWork::HostFn, ..) => Engine::Host,
        _ => Engine::Compute,
    }
}

/// The accesses of a graph, with one access for the bytes that several nodes use. Their order is
/// examined apart (`inside`).
pub(super) fn merged(accesses: Accesses) -> Accesses {
    let mut by_block: HashMap<(u64, Place), Vec<Access>> = HashMap::new();
    for access in accesses {
        by_block.entry((access.block.0, access.place)).or_default().push(access);
    }
    let mut all = Accesses::new();
    let mut blocks: Vec<_> = by_block.into_values().collect();
    blocks.sort_by_key(|uses| uses[0].block);
    for uses in blocks {
        // The reads and writes that begin, less those that end, at each byte.
        let mut changes: BTreeMap<u64, [i64; 2]> = BTreeMap::new();
        for one in &uses {
            let reads = i64::from(one.mode != Mode::Write);
            let writes = i64::from(one.mode.writes());
            for (at, sign) in [(one.range.start, 1), (one.range.end, -1)] {
                let [r, w] = changes.entry(at).or_default();
                (*r, *w) = (*r + sign * reads, *w + sign * writes);
            }
        }
        let (mut open, mut from) = ([0, 0], 0);
        for (at, [reads, writes]) in changes {
            let mode = match open {
                [0, 0] => None,
                [_, 0] => Some(Mode::Read),
                [0, _] => Some(Mode::Write),
                _ => Some(Mode::Update),
            };
            if let Some(mode) = mode.filter(|_| from < at) {
                all.push(Access { range: from..at, mode, ..uses[0].clone() });
            }
            (open, from) = ([open[0] + reads, open[1] + writes], at);
        }
    }
    all
}
