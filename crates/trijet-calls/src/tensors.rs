//! The tensors of tensor maps: a kernel that reads or writes by a map names the first byte only.

use crate::memory::Memory;
use std::collections::HashMap;
use std::ops::Range;

/// The number of bytes of tensors, by their first byte.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tensors {
    bytes: HashMap<u64, u64>,
}

impl Tensors {
    /// Adds the tensor of a map. Several maps may have the same first byte, and which of them a
    /// kernel uses is not known.
    pub(crate) fn add(&mut self, first: u64, bytes: u64) {
        let known = self.bytes.entry(first).or_default();
        *known = bytes.max(*known);
    }

    /// The bytes that a kernel may access by a map: of one tensor, within one allocation.
    pub(crate) fn range(&self, first: u64, memory: &Memory) -> Range<u64> {
        let bytes = self.bytes.get(&first).map_or(1, |bytes| (*bytes).max(1));
        let end = first.saturating_add(bytes);
        let holder = memory.holder(first);
        first..holder.map_or(first.saturating_add(1), |holder| end.min(holder.range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet_ledger::base::ledger::Place;

    #[test]
    fn a_tensor_ends_with_its_allocation_and_has_a_byte_at_least() {
        let mut memory = Memory::new();
        memory.allocate(4096..8192, Place::Device);
        let mut tensors = Tensors::default();
        assert_eq!(tensors.range(4096, &memory), 4096..4097, "no map of it was recorded");
        tensors.add(4096, 1024);
        tensors.add(4096, 512);
        assert_eq!(tensors.range(4096, &memory), 4096..5120);
        tensors.add(8000, u64::MAX);
        assert_eq!(tensors.range(8000, &memory), 8000..8192);
        tensors.add(1 << 40, 4096);
        assert_eq!(tensors.range(1 << 40, &memory), 1 << 40..(1 << 40) + 1, "unknown memory");
    }
}
