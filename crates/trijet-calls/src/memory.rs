//! The memory of the program: which allocation an address belongs to.

use std::collections::BTreeMap;
use std::ops::Range;
use trijet_ledger::base::id::BlockId;
use trijet_ledger::base::ledger::{Access, Mode, OrderedBy, Place};

/// An allocation of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allocated {
    pub(crate) block: BlockId,
    pub(crate) range: Range<u64>,
    pub(crate) place: Place,
    /// Whether it was freed. Its addresses are kept until other memory has them.
    pub(crate) is_freed: bool,
}

/// The allocations by address.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    by_start: BTreeMap<u64, Allocated>,
    next: u64,
}

/// Memory of the host that the driver did not allocate, as one allocation: an offset in it is an
/// address.
const HOST: BlockId = BlockId(1);
/// Memory of devices whose allocation was not recorded.
const UNKNOWN: BlockId = BlockId(2);

impl Memory {
    pub(crate) fn new() -> Self {
        Self { by_start: BTreeMap::new(), next: 3 }
    }

    /// Adds an allocation, which takes the addresses of freed ones. Returns it.
    pub(crate) fn allocate(&mut self, range: Range<u64>, place: Place) -> Allocated {
        let former: Vec<u64> = self.at(&range).map(|one| one.range.start).collect();
        for start in former {
            self.by_start.remove(&start);
        }
        let block = BlockId(self.next);
        self.next += 1;
        let made = Allocated { block, range, place, is_freed: false };
        self.by_start.insert(made.range.start, made.clone());
        made
    }

    /// Gives later allocations other numbers than the allocations of a copy have.
    pub(crate) fn number_after(&mut self, copy: &Self) {
        self.next = copy.next.max(self.next);
    }

    /// Marks the allocation that begins at an address as freed, and returns it. `None` for an
    /// address that is not the start of an allocation.
    pub(crate) fn free(&mut self, address: u64) -> Option<Allocated> {
        let one = self.by_start.get_mut(&address)?;
        let before = one.clone();
        one.is_freed = true;
        Some(before)
    }

    /// The allocations within a range.
    pub(crate) fn within(&self, range: &Range<u64>) -> Vec<u64> {
        self.by_start.range(range.clone()).map(|(start, _)| *start).collect()
    }

    /// Forgets the allocation that begins at an address, whose bytes stay memory of the host.
    pub(crate) fn forget(&mut self, address: u64) {
        self.by_start.remove(&address);
    }

    /// The allocations that share bytes with a range, by address.
    fn at(&self, range: &Range<u64>) -> impl Iterator<Item = &Allocated> {
        let before = self.by_start.range(..range.start).next_back();
        let before = before.filter(|(_, one)| one.range.end > range.start);
        before.into_iter().chain(self.by_start.range(range.clone())).map(|(_, one)| one)
    }

    /// The live allocation that has the byte at an address.
    pub(crate) fn holder(&self, address: u64) -> Option<&Allocated> {
        let range = address..address.saturating_add(1);
        self.at(&range).next().filter(|one| !one.is_freed)
    }

    /// The accesses of a range of addresses: one for each allocation, and one for each part that
    /// belongs to none. Such a part is memory of `elsewhere`. If `elsewhere` is memory of the host,
    /// no part belongs to a freed allocation: the system gives addresses out again, which is no
    /// call of the driver.
    pub(crate) fn accesses(
        &self,
        range: &Range<u64>,
        mode: Mode,
        elsewhere: Place,
        add: &mut impl FnMut(Access),
    ) {
        let access =
            |block, place, range| Access { block, place, range, mode, ordered: OrderedBy::Program };
        let is_of_device = elsewhere == Place::Device;
        let unknown = if is_of_device { UNKNOWN } else { HOST };
        let mut at = range.start;
        for one in self.at(range).filter(|one| is_of_device || !one.is_freed) {
            let (from, to) = (one.range.start.max(range.start), one.range.end.min(range.end));
            if at < from {
                add(access(unknown, elsewhere, at..from));
            }
            let start = one.range.start;
            add(access(one.block, one.place, from - start..to - start));
            at = to;
        }
        if at < range.end {
            add(access(unknown, elsewhere, at..range.end));
        }
    }
}
