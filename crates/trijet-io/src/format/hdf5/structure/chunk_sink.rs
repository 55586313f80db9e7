//! The chunks that an index finds, in one form.

use super::dataspace::Dataspace;
use super::fault::{Fault, Outcome};
use super::layout::ChunkLayout;
use super::storage::Structure;

/// A stored chunk of a data set.
#[derive(Debug)]
pub(in crate::format::hdf5) struct ChunkEntry<'a> {
    /// The index in the grid of chunks.
    pub(in crate::format::hdf5) index: &'a [u64],
    pub(in crate::format::hdf5) place: ChunkPlace,
}

/// The place of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::hdf5) struct ChunkPlace {
    /// The address in an index. After the index was read, this is the offset in the file.
    pub(in crate::format::hdf5) start: u64,
    pub(in crate::format::hdf5) bytes: u64,
    /// Bit n is set if the filter n was not applied.
    pub(in crate::format::hdf5) mask: u32,
}

/// The bytes that a chunk counts as. A caller keeps it, but the smallest entry of an index is
/// shorter.
const CHUNK_BYTES: u64 = 24;

/// A function that is called with every stored chunk.
pub(super) type Visit<'a> = dyn FnMut(ChunkEntry<'_>) -> Outcome<()> + 'a;

/// Takes the chunks of an index.
pub(super) struct ChunkSink<'a> {
    structure: &'a Structure,
    order: ChunkOrder,
    /// The bytes of a chunk without filters.
    pub(super) chunk_bytes: u64,
    visit: &'a mut Visit<'a>,
    index: Vec<u64>,
}

impl<'a> ChunkSink<'a> {
    pub(super) fn new(
        structure: &'a Structure,
        order: ChunkOrder,
        chunk_bytes: u64,
        visit: &'a mut Visit<'a>,
    ) -> Self {
        let index = vec![0; order.counts.len()];
        Self { structure, order, chunk_bytes, visit, index }
    }

    /// Takes the chunk with a number in the order of an array.
    pub(super) fn numbered(&mut self, number: u64, place: ChunkPlace) -> Outcome<()> {
        self.order.index_of(number, &mut self.index)?;
        self.structure.charge(CHUNK_BYTES)?;
        let offset = self.structure.offset(place.start, place.bytes)?;
        let place = ChunkPlace { start: offset, ..place };
        (self.visit)(ChunkEntry { index: &self.index, place })
    }

    /// Takes the chunk with an index.
    pub(super) fn indexed(&mut self, index: &[u64], place: ChunkPlace) -> Outcome<()> {
        self.structure.charge(CHUNK_BYTES)?;
        let offset = self.structure.offset(place.start, place.bytes)?;
        (self.visit)(ChunkEntry { index, place: ChunkPlace { start: offset, ..place } })
    }
}

/// The order of the chunks in an array of them: C order of the chunks that the data set can have
/// when it has grown. An axis without a limit is the slowest one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChunkOrder {
    /// The largest number of chunks along each axis. `None` for an axis without a limit.
    counts: Vec<Option<u64>>,
}

impl ChunkOrder {
    pub(super) fn new(layout: &ChunkLayout, space: &Dataspace) -> Outcome<Self> {
        if layout.shape.len() != space.limits.len() || layout.shape.contains(&0) {
            let cause = format!("{} axes have chunks of {:?}", space.limits.len(), layout.shape);
            return Err(Fault::damaged(cause));
        }
        let axes = space.limits.iter().zip(&layout.shape);
        let counts = axes.map(|(limit, chunk)| limit.map(|limit| limit.div_ceil(*chunk)));
        Ok(Self { counts: counts.collect() })
    }

    /// The axes without a limit.
    pub(super) fn unlimited(&self) -> usize {
        self.counts.iter().filter(|count| count.is_none()).count()
    }

    /// Sets the index of the chunk with a number.
    fn index_of(&self, number: u64, index: &mut [u64]) -> Outcome<()> {
        let mut rest = number;
        let mut take = |count: &Option<u64>, at: &mut u64| {
            let Some(count) = count else { return Some(()) };
            (*at, rest) = (rest.checked_rem(*count)?, rest.checked_div(*count)?);
            Some(())
        };
        let axes = self.counts.iter().zip(index.iter_mut()).rev();
        let found: Option<()> = axes.into_iter().try_for_each(|(count, at)| take(count, at));
        let slowest = self.counts.iter().position(Option::is_none);
        match (found, slowest.and_then(|axis| index.get_mut(axis))) {
            (Some(()), Some(at)) => *at = rest,
            (Some(()), None) if rest == 0 => {}
            _ => return Err(Fault::damaged(format!("there is no chunk {number}"))),
        }
        Ok(())
    }

    /// The number of the chunk with an index. `None` if no axis may have it.
    pub(super) fn number_of(&self, index: &[u64]) -> Option<u64> {
        self.counts.iter().zip(index).try_fold(0_u64, |number, (count, at)| {
            let count = (*count)?;
            (*at < count).then_some(())?;
            number.checked_mul(count)?.checked_add(*at)
        })
    }

    /// The number of all chunks.
    pub(super) fn chunks(&self) -> Option<u64> {
        self.counts.iter().try_fold(1_u64, |all, count| all.checked_mul((*count)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The callers keep each chunk.
    #[test]
    fn each_chunk_counts_its_memory() {
        let structure = Structure::of_bytes(&[0; 100]);
        let left = structure.left();
        let mut found = 0;
        let mut visit = |_: ChunkEntry<'_>| {
            found += 1;
            Ok(())
        };
        let order = ChunkOrder { counts: vec![Some(9)] };
        let mut sink = ChunkSink::new(&structure, order, 1, &mut visit);
        let place = ChunkPlace { start: 0, bytes: 1, mask: 0 };
        sink.numbered(3, place).unwrap();
        sink.indexed(&[4], place).unwrap();
        assert_eq!((found, left - structure.left()), (2, 2 * CHUNK_BYTES));
    }

    #[test]
    fn an_axis_without_a_limit_is_the_slowest_one() {
        let order = ChunkOrder { counts: vec![Some(2), None, Some(3)] };
        let mut index = [0; 3];
        order.index_of(6 * 7 + 5, &mut index).unwrap();
        assert_eq!(index, [1, 7, 2]);
        let order = ChunkOrder { counts: vec![Some(2), Some(3)] };
        let mut index = [0; 2];
        order.index_of(5, &mut index).unwrap();
        assert_eq!((&index[..], order.number_of(&index)), (&[1, 2][..], Some(5)));
        assert!(order.index_of(6, &mut index).is_err());
        assert!(ChunkOrder { counts: vec![Some(0)] }.index_of(0, &mut index[..1]).is_err());
    }
}
