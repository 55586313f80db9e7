//! A model of an allocator that caches segments. It has the rules of PyTorch's
//! `CUDACachingAllocator` without expandable segments. A segment is memory that one call of the
//! driver returns. The blocks of one stream lie in segments of this stream. Blocks are split and
//! joined within their segment. A segment returns to the driver only when all of it is free.
//!
//! The model computes sizes and addresses, and has no memory. The replay of a trace over the model
//! shows where free memory cannot be used.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

/// The sizes of blocks in bytes are multiples of this number.
const UNIT: u64 = 512;
/// The maximum size of a small block in bytes, and the size of a segment for small blocks.
const SMALL_MAX: u64 = 1 << 20;
const SMALL_SEGMENT: u64 = 2 << 20;
/// Blocks that are not small, but smaller than `LARGE_MIN`, come from segments of `LARGE_SEGMENT`
/// bytes. A larger block has its own segment.
const LARGE_MIN: u64 = 10 << 20;
const LARGE_SEGMENT: u64 = 20 << 20;
/// The size of a segment for one large block is a multiple of this number of bytes.
const SEGMENT_UNIT: u64 = 2 << 20;

/// The address of a block or of a segment.
pub type Address = u64;

/// A block of a segment.
#[derive(Debug, Clone, Copy)]
struct Block {
    bytes: u64,
    segment: Address,
    is_free: bool,
}

/// Memory that one call of the driver returned.
#[derive(Debug, Clone, Copy)]
struct Segment {
    bytes: u64,
    stream: u16,
    is_small: bool,
}

/// An allocator that caches segments, with a limit for the memory that it gets from the driver.
#[derive(Debug)]
pub struct Caching {
    limit: u64,
    blocks: BTreeMap<Address, Block>,
    /// The free blocks. Each entry has the stream of the block, whether the segment is for small
    /// blocks, the size of the block in bytes, and its address.
    free: BTreeSet<(u16, bool, u64, Address)>,
    segments: BTreeMap<Address, Segment>,
    /// The total number of bytes of all segments.
    held: u64,
    /// The number of calls of the driver so far.
    calls: u64,
    /// The address after the last segment, where a new segment starts if no gap is large enough for
    /// it. A gap is the address range of a segment that was returned to the driver. `gaps` has the
    /// size of each gap in bytes. The key is the address of the gap.
    end: Address,
    gaps: BTreeMap<Address, u64>,
}

impl Caching {
    /// Makes an allocator without segments. It gets at most `limit` bytes from the driver.
    #[must_use]
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            blocks: BTreeMap::new(),
            free: BTreeSet::new(),
            segments: BTreeMap::new(),
            held: 0,
            calls: 0,
            end: 0,
            gaps: BTreeMap::new(),
        }
    }

    /// The number of bytes that the allocator has from the driver.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// The number of calls of the driver so far.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// The segments, each as its address and its size in bytes.
    pub fn segments(&self) -> impl Iterator<Item = (Address, u64)> + '_ {
        self.segments.iter().map(|(address, segment)| (*address, segment.bytes))
    }

    /// The total number of bytes of all free blocks, and the size of the largest free block in
    /// bytes.
    #[must_use]
    pub fn free_bytes(&self) -> (u64, u64) {
        let sizes = self.free.iter().map(|(_, _, bytes, _)| *bytes);
        sizes.fold((0, 0), |(sum, largest), bytes| (sum + bytes, largest.max(bytes)))
    }

    /// Allocates a block of at least `bytes` bytes for a stream, and returns its address. `None` if
    /// the limit is reached, even after all segments without a live block were returned to the
    /// driver.
    pub fn allocate(&mut self, bytes: u64, stream: u16) -> Option<Address> {
        let bytes = bytes.max(1).checked_next_multiple_of(UNIT)?;
        let found = self.find(bytes, stream).or_else(|| {
            self.grow(bytes, stream).or_else(|| {
                self.release();
                self.grow(bytes, stream)
            })
        });
        let address = found?;
        let block = self.take(address)?;
        let rest = block.bytes - bytes;
        let is_small = self.segments[&block.segment].is_small;
        let is_split = if is_small { rest >= UNIT } else { rest > SMALL_MAX };
        let bytes = if is_split { bytes } else { block.bytes };
        self.put(address, Block { bytes, is_free: false, ..block });
        if is_split {
            self.put(address + bytes, Block { bytes: rest, ..block });
        }
        Some(address)
    }

    /// Frees the block at `address`.
    ///
    /// # Panics
    /// If no live block starts at the address.
    pub fn free_block(&mut self, address: Address) {
        let mut block = self.take(address).expect("it is live");
        assert!(!block.is_free, "it is live");
        block.is_free = true;
        let joins = |other: &Block| other.is_free && other.segment == block.segment;
        let after = address + block.bytes;
        let before = self.blocks.range(..address).next_back();
        let start = before.filter(|(_, other)| joins(other)).map_or(address, |(at, _)| *at);
        if self.blocks.get(&after).is_some_and(joins) {
            block.bytes += self.take(after).map_or(0, |after| after.bytes);
        }
        if start != address {
            block.bytes += self.take(start).map_or(0, |before| before.bytes);
        }
        self.put(start, block);
    }

    fn put(&mut self, address: Address, block: Block) {
        let Segment { stream, is_small, .. } = self.segments[&block.segment];
        if block.is_free {
            self.free.insert((stream, is_small, block.bytes, address));
        }
        self.blocks.insert(address, block);
    }

    fn take(&mut self, address: Address) -> Option<Block> {
        let block = self.blocks.remove(&address)?;
        let Segment { stream, is_small, .. } = self.segments[&block.segment];
        self.free.remove(&(stream, is_small, block.bytes, address));
        Some(block)
    }

    /// The address of the smallest free block that can be used for `bytes` bytes on this stream.
    fn find(&self, bytes: u64, stream: u16) -> Option<Address> {
        let is_small = bytes <= SMALL_MAX;
        let fitting = self.free.range((stream, is_small, bytes, 0)..);
        let mut fitting = fitting.take_while(|found| (found.0, found.1) == (stream, is_small));
        fitting.next().map(|(_, _, _, address)| *address)
    }

    /// Gets a segment for a block of `bytes` bytes from the driver, and returns the address of the
    /// segment. `None` if the limit does not allow this.
    fn grow(&mut self, bytes: u64, stream: u16) -> Option<Address> {
        let is_small = bytes <= SMALL_MAX;
        let size = match bytes {
            _ if is_small => SMALL_SEGMENT,
            _ if bytes < LARGE_MIN => LARGE_SEGMENT,
            _ => bytes.checked_next_multiple_of(SEGMENT_UNIT)?,
        };
        self.calls += 1;
        if self.held.checked_add(size)? > self.limit {
            return None;
        }
        self.held += size;
        let gap = self.gaps.iter().find(|(_, gap)| **gap >= size).map(|(at, gap)| (*at, *gap));
        let address = match gap {
            Some((at, gap)) => {
                self.gaps.remove(&at);
                if gap > size {
                    self.gaps.insert(at + size, gap - size);
                }
                at
            }
            None => {
                self.end += size;
                self.end - size
            }
        };
        self.segments.insert(address, Segment { bytes: size, stream, is_small });
        self.put(address, Block { bytes: size, segment: address, is_free: true });
        Some(address)
    }

    /// Returns all segments without a live block to the driver.
    fn release(&mut self) {
        let whole = |(address, segment): (&Address, &Segment)| {
            let block = self.blocks[address];
            (block.is_free && block.bytes == segment.bytes).then_some((*address, segment.bytes))
        };
        let all: Vec<(Address, u64)> = self.segments.iter().filter_map(whole).collect();
        for (address, bytes) in all {
            self.calls += 1;
            self.held -= bytes;
            self.take(address);
            self.segments.remove(&address);
            self.gaps.insert(address, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::testing::Prng;

    const MIB: u64 = 1 << 20;

    /// The usual textbook example of fragmentation.
    #[test]
    fn a_hundred_megabytes_are_free_and_fifty_are_refused() {
        let mut caching = Caching::new(200 * MIB);
        let all: Vec<_> = (0..10).map(|_| caching.allocate(20 * MIB, 0).expect("room")).collect();
        assert_eq!(caching.held(), 200 * MIB);
        all.iter().step_by(2).for_each(|address| caching.free_block(*address));
        assert_eq!(caching.free_bytes(), (100 * MIB, 20 * MIB));
        // The five free segments return to the driver. The driver serves 50 MiB although these
        // segments are not adjacent.
        assert!(caching.allocate(50 * MIB, 0).is_some());

        // Within one segment, 50 MiB need free blocks that are adjacent.
        let mut caching = Caching::new(200 * MIB);
        let whole = caching.allocate(200 * MIB, 0).expect("room");
        caching.free_block(whole);
        let all: Vec<_> = (0..10).map(|_| caching.allocate(20 * MIB, 0).expect("room")).collect();
        all.iter().step_by(2).for_each(|address| caching.free_block(*address));
        assert_eq!(caching.free_bytes(), (100 * MIB, 20 * MIB));
        assert_eq!(caching.allocate(50 * MIB, 0), None);
    }

    #[test]
    fn a_stream_does_not_get_the_blocks_of_another_one() {
        let mut caching = Caching::new(2 * MIB);
        let block = caching.allocate(1000, 0).expect("room");
        caching.free_block(block);
        assert!(caching.allocate(1000, 0).is_some());
        assert_eq!(caching.allocate(1000, 1), None);
    }

    #[test]
    fn live_blocks_share_no_bytes_and_join_again() {
        let mut caching = Caching::new(1 << 40);
        let (mut draw, mut live) = (Prng::new(3), Vec::<(Address, u64)>::new());
        for _ in 0..3000 {
            if live.is_empty() || draw.below(100) < 55 {
                let bytes = 1 + draw.below(30 * MIB);
                let address = caching.allocate(bytes, 0).expect("room");
                assert!(
                    live.iter().all(|(at, size)| at + size <= address || address + bytes <= *at)
                );
                live.push((address, bytes));
            } else {
                let at = usize::try_from(draw.below(live.len() as u64)).expect("few");
                caching.free_block(live.swap_remove(at).0);
            }
        }
        live.drain(..).for_each(|(address, _)| caching.free_block(address));
        caching.release();
        assert_eq!((caching.held(), caching.segments.len(), caching.blocks.len()), (0, 0, 0));
    }
}
