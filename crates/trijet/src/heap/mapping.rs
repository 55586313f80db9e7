//! A range of addresses, and the memory that is mapped there.
#![forbid(unsafe_code)]

use super::space::nodes::GRANULE;
use crate::device::memory::Memory;
use std::collections::BTreeMap;

/// A range of addresses, and the memory that is mapped there.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// The addresses. `None` after they were taken out.
    range: Option<Memory>,
    /// The length of each piece of memory, in granules. The key is the start of the piece, in
    /// granules from the start of the range. A piece is unmapped as a whole.
    pub(super) pieces: BTreeMap<u64, u64>,
}

impl Mapping {
    /// A range without memory.
    pub(super) fn new(range: Memory) -> Self {
        Self { range: Some(range), pieces: BTreeMap::new() }
    }

    /// Takes the addresses. The caller ensures that no block uses them.
    pub(super) fn take_range(&mut self) -> Option<Memory> {
        self.range.take()
    }

    pub(super) fn range(&self) -> &Memory {
        self.range.as_ref().expect("a range with blocks keeps its addresses")
    }

    /// The addresses of each mapped piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = std::ops::Range<u64>> + '_ {
        let piece = |(start, granules): (&u64, &u64)| {
            let begin = self.range().span(0..0).address() + start * GRANULE;
            begin..begin + granules * GRANULE
        };
        self.pieces.iter().map(piece)
    }

    pub(super) fn granules(&self) -> u64 {
        self.range.as_ref().map_or(0, Memory::bytes) / GRANULE
    }
}
