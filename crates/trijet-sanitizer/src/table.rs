//! The table in which the patches mark what launches access, as in `accesses.cu`.
//!
//! Memory is cut into granules of 256 bytes, because no allocator gives out smaller parts of memory
//! to different owners, and 512 granules are a chunk. A hash table finds, for the number of a
//! launch and a chunk, a slot with a bit for each granule that is read and for each that is
//! written. Slots are taken one after another, so what is read back is what was touched.

use std::ops::Range;

/// The number of bytes of a granule.
pub const GRANULE: u64 = 1 << 8;
/// The number of bytes of a chunk.
pub const CHUNK: u64 = GRANULE << 9;
/// The number of slots of a table: 32 GiB of touched memory at most.
pub const SLOTS: usize = 1 << 18;
/// Maximum number of launches of a table; their numbers begin at 1.
pub const LAUNCHES: usize = 4095;
/// The number of bytes of the header: 64 bytes of counters, and from 1024 on a byte for each
/// launch that states whether accesses of the launch are missing.
pub const HEADER_BYTES: usize = 8192;
/// The offset of these bytes.
pub const FULL_AT: usize = 1024;
/// Maximum number of uses of tensor maps.
pub const MAPS: usize = 4096;

const ENTRIES: usize = 2 * SLOTS;
/// The number of bytes of a slot: 16 words of reads, and 16 of writes.
pub const SLOT_BYTES: usize = 128;
const MAP_TABLE_BYTES: usize = 8192 * 8;
/// The number of bytes of a use of a tensor map.
pub const MAP_BYTES: usize = 24;

/// The offset of the slots.
pub const BITS_AT: usize = HEADER_BYTES + ENTRIES * 8;
/// The offset of the keys of the slots.
pub const KEYS_AT: usize = BITS_AT + (SLOTS + 1) * SLOT_BYTES;
/// The offset of the table of tensor maps.
pub const MAP_TABLE_AT: usize = KEYS_AT + (SLOTS + 2) * 8;
/// The offset of the uses of tensor maps.
pub const MAPS_AT: usize = MAP_TABLE_AT + MAP_TABLE_BYTES;
/// The number of bytes of a table.
pub const BYTES: usize = MAPS_AT + MAPS * MAP_BYTES;
/// The alignment of a table, so that an address has room for the number of a launch.
pub const ALIGNMENT: usize = LAUNCHES + 1;

/// The word that the patches get for a launch.
#[must_use]
pub fn launch_data(table: usize, launch: u32) -> usize {
    table + launch as usize
}

/// The accesses of a launch: sorted ranges of whole granules. At least one byte of each granule was
/// accessed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// The granules that were read.
    pub reads: Vec<Range<u64>>,
    /// The granules that were written.
    pub writes: Vec<Range<u64>>,
    /// The first word of each tensor map that was read through, which is the address of its tensor.
    pub maps_read: Vec<u64>,
    /// The same for maps that were written through.
    pub maps_written: Vec<u64>,
    /// Whether accesses are missing, because the table was full.
    pub is_cut: bool,
}

/// The content of a table.
#[derive(Debug, Clone, Default)]
pub struct TableContent {
    /// The key of each slot.
    pub keys: Vec<u64>,
    /// The words of each slot.
    pub words: Vec<u32>,
    /// The uses of tensor maps: key, and the first two words.
    pub maps: Vec<[u64; 3]>,
    /// The byte of each launch that states whether accesses are missing. Empty if none are.
    pub full: Vec<u8>,
}

/// The number of slots, and the number of uses of tensor maps, from the header.
#[must_use]
pub fn counters(header: &[u8]) -> [usize; 2] {
    let count = |at: usize, most: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, |bytes| (u32::from_le_bytes(bytes) as usize).min(most))
    };
    [count(0, SLOTS), count(4, MAPS)]
}

/// The accesses of the launches 1 to `launches`.
#[must_use]
pub fn touched(content: &TableContent, launches: usize) -> Vec<Touched> {
    let mut all = vec![Touched::default(); launches];
    // By launch and chunk, so that the ranges of a launch are in order.
    let mut order: Vec<(u32, u32, usize)> = content
        .keys
        .iter()
        .enumerate()
        .map(|(slot, key)| (((key >> 20) & 0xfff) as u32, (key >> 32) as u32, slot))
        // The first chunk has the null pointers of lanes that copy nothing.
        .filter(|(launch, chunk, _)| *chunk != 0 && (1..=launches).contains(&(*launch as usize)))
        .collect();
    order.sort_unstable();
    for (launch, chunk, slot) in order {
        let Some(words) = content.words.get(slot * 32..slot * 32 + 32) else { continue };
        let one = &mut all[launch as usize - 1];
        let base = u64::from(chunk) * CHUNK;
        add(&words[..16], base, &mut one.reads);
        add(&words[16..], base, &mut one.writes);
    }
    for [key, first, _] in &content.maps {
        let (launch, mode) = ((key >> 52) as usize, (key >> 50) & 3);
        if let Some(one) = launch.checked_sub(1).and_then(|at| all.get_mut(at)) {
            let list = if mode & 2 != 0 { &mut one.maps_written } else { &mut one.maps_read };
            list.push(*first);
        }
    }
    for (one, byte) in all.iter_mut().zip(content.full.iter().skip(1)) {
        one.is_cut = *byte != 0;
    }
    all
}

/// Appends the granules whose bits are set, and joins them with a range that ends where they begin.
fn add(words: &[u32], base: u64, out: &mut Vec<Range<u64>>) {
    for (at, word) in (0_u64..).zip(words) {
        let (mut rest, mut bit) = (*word, 0_u64);
        while rest != 0 {
            let skipped = rest.trailing_zeros();
            rest = rest.checked_shr(skipped).unwrap_or(0);
            let count = rest.trailing_ones();
            rest = rest.checked_shr(count).unwrap_or(0);
            bit += u64::from(skipped);
            let begin = base + (at * 32 + bit) * GRANULE;
            let end = begin + u64::from(count) * GRANULE;
            bit += u64::from(count);
            match out.last_mut() {
                Some(last) if last.end == begin => last.end = end,
                _ => out.push(begin..end),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(launch: u64, chunk: u64) -> u64 {
        chunk << 32 | launch << 20
    }

    /// The patches and the reader have the same table. The rest of its layout follows from these.
    #[test]
    fn the_layout_is_the_one_of_the_patches() {
        let source = include_str!("accesses.cu");
        let has = |name: &str, value: String| {
            let line = format!("#define {name} {value}");
            let is_there = |one: &str| one.split("//").next().is_some_and(|one| one.trim() == line);
            assert!(source.lines().any(is_there), "{line}");
        };
        has("GRANULE_LOG2", GRANULE.trailing_zeros().to_string());
        has("CHUNK_LOG2", (CHUNK / GRANULE).trailing_zeros().to_string());
        has("SLOTS", format!("(1u << {})", SLOTS.trailing_zeros()));
        has("WORDS_OF_SLOT", (SLOT_BYTES / 4).to_string());
        has("HEADER_BYTES", HEADER_BYTES.to_string());
        has("FULL_AT", FULL_AT.to_string());
        has("MAPS_MAX", MAPS.to_string());
        has("MAP_TABLE", (MAP_TABLE_BYTES / 8).to_string());
        has("MAP_BYTES", MAP_BYTES.to_string());
        assert!(ALIGNMENT.is_power_of_two() && source.contains("& 0xfff}"), "{ALIGNMENT}");
    }

    /// Slots are in the order in which warps came, and ranges in the order of addresses.
    #[test]
    fn granules_that_touch_are_one_range_across_chunks() {
        let mut words = vec![0_u32; 96];
        words[16 + 15] = 0x8000_0000; // the last granule of chunk 8, written
        words[32 + 16] = 0b1011; // the first granules of chunk 9, written
        words[64] = u32::MAX; // 32 granules of chunk 8, read by another launch
        let content = TableContent {
            keys: vec![key(1, 8), key(1, 9), key(2, 8)],
            words,
            ..TableContent::default()
        };
        let all = touched(&content, 2);
        let start = 9 * CHUNK;
        let expected =
            vec![start - GRANULE..start + 2 * GRANULE, start + 3 * GRANULE..start + 4 * GRANULE];
        assert_eq!(all[0].writes, expected);
        assert!(all[0].reads.is_empty());
        assert_eq!(all[1].reads, vec![8 * CHUNK..8 * CHUNK + 32 * GRANULE]);
    }

    /// The table is memory that any kernel of the program may have overwritten.
    #[test]
    fn damaged_words_are_left_out() {
        let content = TableContent {
            keys: vec![u64::MAX, 0, key(3, 1), key(1, u64::from(u32::MAX))],
            words: vec![u32::MAX; 3 * 32],
            maps: vec![[u64::MAX; 3], [0; 3]],
            full: vec![1; 2],
        };
        let all = touched(&content, 2);
        assert!(all.iter().all(|one| one.reads.is_empty() && one.maps_written.is_empty()));
        assert_eq!([all[0].is_cut, all[1].is_cut], [true, false]);
    }

    #[test]
    fn the_first_chunk_and_counters_beyond_the_table_are_left_out() {
        let content = TableContent {
            keys: vec![key(1, 0)],
            words: vec![u32::MAX; 32],
            ..TableContent::default()
        };
        assert_eq!(touched(&content, 1), vec![Touched::default()]);
        assert_eq!(counters(&[0xff; 8]), [SLOTS, MAPS]);
        assert_eq!(counters(&[]), [0, 0]);
    }

    #[test]
    fn a_use_of_a_tensor_map_belongs_to_its_launch() {
        let maps = vec![[2 << 52 | 1 << 50, 4096, 0], [1 << 52 | 2 << 50, 8192, 0]];
        let all = touched(&TableContent { maps, ..TableContent::default() }, 2);
        assert_eq!(all[1].maps_read, [4096]);
        assert_eq!(all[0].maps_written, [8192]);
    }
}
