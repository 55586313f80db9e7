//! Fractal heaps: the links of large groups, and the attributes of objects with many of them.
//!
//! Objects lie in direct blocks. The heap is a table of blocks: the first two rows have blocks of
//! the smallest size, and each following row has blocks twice as large. Blocks above a limit are
//! tables of the same kind.

use super::btree2::BTree;
use super::fault::{Fault, Outcome};
use super::storage::Structure;
use std::collections::BTreeMap;

/// The number of the type of records of large objects.
const HUGE: u8 = 1;
/// The bytes that a large object counts as, beside its record.
const LARGE_BYTES: u64 = 24;
/// The flag of a heap whose direct blocks have checksums.
const HAS_SUMS: u8 = 2;
/// The bytes that a level on the way to an object counts as. A damaged heap may have many levels.
const LEVEL_BYTES: u64 = 16;

/// A heap, whose header is read.
#[derive(Debug)]
pub(super) struct FractalHeap {
    id_bytes: u16,
    /// The bytes of an offset, and of a length, in the number of an object.
    offset_bytes: usize,
    length_bytes: usize,
    has_sums: bool,
    table: BlockSizes,
    root: Option<u64>,
    /// The rows of the root. 0 if it is a direct block.
    root_rows: u16,
    /// The index of large objects.
    huge: Option<u64>,
    /// The objects in this index, after it was read.
    large: Option<LargeObjects>,
    /// The blocks that were read, by their addresses.
    blocks: BTreeMap<u64, Vec<u8>>,
}

/// The sizes of the blocks of a heap.
#[derive(Debug, Clone, Copy)]
struct BlockSizes {
    width: u64,
    smallest: u64,
    /// The number of rows of direct blocks.
    direct_rows: u32,
}

/// A block within a table: its number, its row, and the offset of its first byte in the heap.
#[derive(Debug, Clone, Copy)]
struct Slot {
    number: u64,
    row: u32,
    start: u64,
    bytes: u64,
}

impl BlockSizes {
    /// The block of a table at the offset `start` that has the byte at `offset`.
    fn slot(&self, start: u64, offset: u64, rows: u32) -> Option<Slot> {
        let mut row_start = start;
        for row in 0..rows {
            let bytes = self.smallest.checked_mul(1_u64.checked_shl(row.saturating_sub(1))?)?;
            let row_bytes = bytes.checked_mul(self.width)?;
            let within = offset.checked_sub(row_start)?;
            if within < row_bytes {
                let column = within / bytes;
                let number = u64::from(row) * self.width + column;
                return Some(Slot { number, row, start: row_start + column * bytes, bytes });
            }
            row_start = row_start.checked_add(row_bytes)?;
        }
        None
    }

    /// The rows of a table that takes the space of a block.
    fn rows_of(&self, bytes: u64) -> Option<u32> {
        let first = self.smallest.checked_mul(self.width)?;
        bytes.ilog2().checked_sub(first.ilog2()).map(|more| more + 1)
    }
}

impl FractalHeap {
    pub(super) fn read(structure: &Structure, address: u64) -> Outcome<Self> {
        let widths = structure.widths;
        let length = 22 + 12 * widths.length as u64 + 3 * widths.address as u64 + 4;
        heap(structure, address, length).map_err(|fault| fault.within("a heap"))
    }

    /// Checks the size of the records of an index, which have the number of an object and `others`
    /// bytes.
    pub(super) fn check_index(&self, index: &BTree, others: u16) -> Outcome<()> {
        if Some(index.record_bytes) != self.id_bytes.checked_add(others) {
            let (found, id) = (index.record_bytes, self.id_bytes);
            let cause = format!(
                "the index of names has records of {found} bytes, but the numbers of objects have \
                 {id}"
            );
            return Err(Fault::damaged(cause));
        }
        Ok(())
    }

    /// The bytes of the object with this number.
    pub(super) fn object(&mut self, structure: &Structure, id: &[u8]) -> Outcome<Vec<u8>> {
        let id = id.get(..usize::from(self.id_bytes));
        let id = id.ok_or_else(|| Fault::damaged("the number of an object is too short"))?;
        let mut fields = structure.cursor(id);
        let first = fields.u8()?;
        let found = match (first >> 6, first >> 4 & 3) {
            (0, 0) => {
                let offset = fields.number(self.offset_bytes)?;
                let bytes = fields.count(self.length_bytes)?;
                self.managed(structure, offset, bytes)
            }
            (0, 1) => self.large(structure, fields.rest()),
            (0, 2) => tiny(first & 0xf, self.id_bytes, fields.rest()),
            _ => Err(Fault::damaged("the number of an object is of an unknown kind")),
        };
        found.map_err(|fault| fault.within("a heap"))
    }

    /// An object in a direct block.
    fn managed(&mut self, structure: &Structure, offset: u64, bytes: usize) -> Outcome<Vec<u8>> {
        let outside = || Fault::damaged("an object is outside of its heap");
        let (mut address, mut start) = (self.root.ok_or_else(outside)?, 0);
        let mut rows = u32::from(self.root_rows);
        let mut direct_bytes = self.table.smallest;
        while rows > 0 {
            structure.charge(LEVEL_BYTES)?;
            let slot = self.table.slot(start, offset, rows).ok_or_else(outside)?;
            let block = self.indirect(structure, address, rows)?;
            let at = slot.number.saturating_mul(structure.widths.address as u64);
            let entry = usize::try_from(at).ok().and_then(|at| block.get(at..));
            address = structure.cursor(entry.ok_or_else(outside)?).defined_address()?;
            (start, direct_bytes) = (slot.start, slot.bytes);
            rows = match slot.row < self.table.direct_rows {
                true => 0,
                false => self.table.rows_of(slot.bytes).ok_or_else(outside)?,
            };
        }
        let at = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok());
        let block = self.direct(structure, address, direct_bytes)?;
        structure.charge(bytes as u64)?;
        let found = at.and_then(|at| block.get(at..at.checked_add(bytes)?));
        found.map(<[u8]>::to_vec).ok_or_else(outside)
    }

    /// The bytes of an indirect block from its first entry on.
    fn indirect(&mut self, structure: &Structure, address: u64, rows: u32) -> Outcome<&[u8]> {
        let prefix = 1 + structure.widths.address + self.offset_bytes;
        if !self.blocks.contains_key(&address) {
            let entries = u64::from(rows).saturating_mul(self.table.width);
            let bytes = entries.saturating_mul(structure.widths.address as u64);
            let whole = bytes.saturating_add(prefix as u64 + 8);
            self.blocks.insert(address, structure.checked(address, whole, "FHIB")?);
        }
        let block = self.blocks.get(&address).and_then(|block| block.get(prefix..));
        Ok(block.unwrap_or_default())
    }

    /// The bytes of a direct block, with its start.
    fn direct(&mut self, structure: &Structure, address: u64, bytes: u64) -> Outcome<&[u8]> {
        if !self.blocks.contains_key(&address) {
            let read = structure.read(address, bytes)?;
            if !read.starts_with(b"FHDB") {
                return Err(Fault::damaged(format!("there is no FHDB at {address}")));
            }
            if self.has_sums {
                self.compare_sum(structure, &read)?;
            }
            self.blocks.insert(address, read);
        }
        Ok(self.blocks.get(&address).map_or(&[], Vec::as_slice))
    }

    /// Compares the checksum at the start of a direct block, which counts as zeros.
    fn compare_sum(&self, structure: &Structure, read: &[u8]) -> Outcome<()> {
        let mut fields = structure.cursor(read);
        let at = 5 + structure.widths.address + self.offset_bytes;
        fields.skip(at)?;
        let sum = fields.u32()?;
        let mut bytes = read.to_vec();
        bytes[at..at + 4].fill(0);
        structure.compare(sum, &bytes, "FHDB")
    }

    /// An object with a block of its own.
    fn large(&mut self, structure: &Structure, key: &[u8]) -> Outcome<Vec<u8>> {
        let widths = structure.widths;
        if key.len() >= widths.address + widths.length {
            let mut fields = structure.cursor(key);
            return structure.read(fields.defined_address()?, fields.length()?);
        }
        let wanted = structure.cursor(key).number(key.len().min(widths.length))?;
        if self.large.is_none() {
            // If the index has damage, it is not read again.
            self.large = Some(BTreeMap::new());
            self.large = Some(large_objects(structure, self.huge)?);
        }
        let found = self.large.as_ref().and_then(|all| all.get(&wanted));
        let (address, bytes) =
            found.ok_or_else(|| Fault::damaged("a large object is not in its heap"))?;
        structure.read(*address, *bytes)
    }
}

/// The addresses and the lengths of large objects, by their numbers.
type LargeObjects = BTreeMap<u64, (u64, u64)>;

/// The objects in the index of large objects.
fn large_objects(structure: &Structure, index: Option<u64>) -> Outcome<LargeObjects> {
    let Some(index) = index else { return Ok(LargeObjects::new()) };
    let tree = BTree::read(structure, index)?;
    if tree.kind != HUGE {
        return Err(Fault::damaged(format!(
            "the index of large objects has the type {}",
            tree.kind
        )));
    }
    let mut all = LargeObjects::new();
    tree.each_record(structure, &mut |record| {
        structure.charge(LARGE_BYTES)?;
        let mut fields = structure.cursor(record);
        let (address, bytes) = (fields.defined_address()?, fields.length()?);
        all.insert(fields.length()?, (address, bytes));
        Ok(())
    })?;
    Ok(all)
}

/// An object within its number. A long number has the length in 12 bits.
fn tiny(low: u8, id_bytes: u16, rest: &[u8]) -> Outcome<Vec<u8>> {
    let is_long = id_bytes > 18;
    let (length, rest) = match rest.split_first() {
        Some((more, rest)) if is_long => (usize::from(low) << 8 | usize::from(*more), rest),
        _ => (usize::from(low), rest),
    };
    let found = rest.get(..=length).map(<[u8]>::to_vec);
    found.ok_or_else(|| Fault::damaged("a small object ends early"))
}

fn heap(structure: &Structure, address: u64, length: u64) -> Outcome<FractalHeap> {
    let read = structure.checked(address, length, "FRHP")?;
    let mut fields = structure.cursor(&read);
    let (version, id_bytes, filter_bytes) = (fields.u8()?, fields.u16()?, fields.u16()?);
    let flags = fields.u8()?;
    if version != 0 {
        return Err(Fault::damaged(format!("it has the version {version}")));
    }
    if filter_bytes > 0 {
        return Err(Fault::Unsupported("the names are in a compressed heap".to_owned()));
    }
    let managed_max = fields.u32()?;
    fields.length()?;
    let huge = fields.address()?;
    fields.length()?;
    fields.address()?;
    // The space of the heap, and the sizes and numbers of its objects.
    for _ in 0..8 {
        fields.length()?;
    }
    let (width, smallest, direct_max) = (fields.u16()?, fields.length()?, fields.length()?);
    let (heap_bits, _first_rows) = (fields.u16()?, fields.u16()?);
    let (root, root_rows) = (fields.address()?, fields.u16()?);
    let is_sound = width.is_power_of_two()
        && smallest.is_power_of_two()
        && direct_max.is_power_of_two()
        && smallest <= direct_max
        && (1..=64).contains(&heap_bits);
    if !is_sound {
        return Err(Fault::damaged("the sizes of its blocks are no powers of two"));
    }
    // The bytes of an offset in the largest block, and of the largest length.
    let offset_bytes = direct_max.ilog2().div_ceil(8);
    let length_bytes = offset_bytes.min(managed_max.max(1).ilog2() / 8 + 1);
    Ok(FractalHeap {
        id_bytes,
        offset_bytes: usize::from(heap_bits.div_ceil(8)),
        length_bytes: usize::try_from(length_bytes).unwrap_or(8),
        has_sums: flags & HAS_SUMS != 0,
        table: BlockSizes {
            width: u64::from(width),
            smallest,
            direct_rows: direct_max.ilog2() - smallest.ilog2() + 2,
        },
        root,
        root_rows,
        huge,
        large: None,
        blocks: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// A golden file, and the address of its first heap.
    fn golden(name: &str, change: impl Fn(&mut [u8], usize)) -> (Structure, u64) {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hdf5");
        let mut bytes = std::fs::read(folder.join(name)).unwrap();
        let at = bytes.windows(4).position(|part| part == b"FRHP").unwrap();
        change(&mut bytes, at);
        (Structure::of_bytes(&bytes).without_checksums(), at as u64)
    }

    /// The number of an object of one byte after the start of the first block.
    const FIRST: [u8; 7] = [0, 21, 0, 0, 0, 1, 0];

    /// The library takes the bytes of an offset in the largest block. It writes no other limits,
    /// but the format has them.
    #[test]
    fn a_length_has_the_bytes_of_an_offset_in_a_block() {
        for (limit, direct, bytes) in [
            (4096, 1 << 16, 2),
            (1 << 20, 1 << 16, 2),
            (1 << 20, 1 << 17, 3),
            (200, 1 << 16, 1),
            (256, 1 << 16, 2),
            (1 << 20, 1 << 8, 1),
        ] {
            let (structure, at) = golden("links-dense.h5", |bytes, at| {
                bytes[at + 10..at + 14].copy_from_slice(&u32::to_le_bytes(limit));
                // After 12 lengths and addresses, the width and the smallest block.
                let size = &mut bytes[at + 14 + 12 * 8 + 2..][..16];
                assert_eq!(u64::from_le_bytes(size[8..].try_into().unwrap()), 1 << 16);
                size[..8].copy_from_slice(&u64::to_le_bytes(256));
                size[8..].copy_from_slice(&u64::to_le_bytes(direct));
            });
            let heap = FractalHeap::read(&structure, at).unwrap();
            assert_eq!(heap.length_bytes, bytes, "{limit} {direct}");
        }
    }

    /// Once, the index of large objects was read again for each of them.
    #[test]
    fn the_index_of_large_objects_is_read_once() {
        let (structure, at) = golden("attributes-dense.h5", |_, _| {});
        let mut heap = FractalHeap::read(&structure, at).unwrap();
        // The kind, and the first number that the library gives.
        let id = [0x10, 1, 0, 0, 0, 0, 0, 0];
        let first = heap.object(&structure, &id).unwrap();
        assert!(first.len() > 600 * 8);
        let left = structure.left();
        assert_eq!(heap.object(&structure, &id).unwrap(), first);
        assert_eq!(left - structure.left(), first.len() as u64);
        let left = structure.left();
        assert!(heap.object(&structure, &[0x10, 9, 0, 0, 0, 0, 0, 0]).is_err());
        assert_eq!(left, structure.left());
    }

    /// Blocks that were read cost no bytes, but a damaged heap has many levels.
    #[test]
    fn each_level_of_a_heap_counts() {
        let (structure, at) = golden("links-dense.h5", |_, _| {});
        let mut heap = FractalHeap::read(&structure, at).unwrap();
        assert!(heap.root_rows > 0);
        let first = heap.object(&structure, &FIRST).unwrap();
        let left = structure.left();
        assert_eq!(heap.object(&structure, &FIRST).unwrap(), first);
        assert_eq!(left - structure.left(), LEVEL_BYTES + 1);
    }
}
