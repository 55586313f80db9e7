//! A histogram of a window, from which the median of the window is found. It has two levels of
//! counts. Counts fit in a byte, because a window has at most 225 pixels. The fine level counts
//! each value. The coarse level counts blocks of values. In addition, `below` is the number of
//! pixels in the blocks before the current block. All counts are updated while the window slides,
//! so the search starts at the last median. Inside a block, sixteen counts are summed at a time,
//! which is one instruction on common processors.
#![forbid(unsafe_code)]

use super::pixel::Pixel;

/// The number of counts that are summed at a time inside a block.
const GROUP: usize = 16;

/// The numbers of pixels of a window: `fine` for each value, `coarse` for each block of
/// `1 << shift` values. `block` is the number of the current block.
#[derive(Debug)]
pub(super) struct Histogram {
    fine: Vec<u8>,
    coarse: Vec<u8>,
    shift: u32,
    block: usize,
    /// The number of pixels in the blocks before `block`. This number may wrap around while only
    /// some pixels of a column have been exchanged.
    below: u32,
}

impl Histogram {
    /// An empty histogram for pixels of type `T`.
    pub(super) fn new<T: Pixel>() -> Self {
        let shift = T::BITS / 2;
        Self {
            fine: vec![0; 1 << T::BITS],
            coarse: vec![0; 1 << (T::BITS - shift)],
            shift,
            block: 0,
            below: 0,
        }
    }

    /// Adds one pixel.
    pub(super) fn add<T: Pixel>(&mut self, pixel: T) {
        let value = pixel.bin();
        let block = value >> self.shift;
        self.fine[value] += 1;
        self.coarse[block] += 1;
        self.below = self.below.wrapping_add(u32::from(block < self.block));
    }

    /// Removes one pixel that was added.
    pub(super) fn remove<T: Pixel>(&mut self, pixel: T) {
        let value = pixel.bin();
        let block = value >> self.shift;
        self.fine[value] -= 1;
        self.coarse[block] -= 1;
        self.below = self.below.wrapping_sub(u32::from(block < self.block));
    }

    /// The pixel of rank `rank`, counted from 0. The histogram must have at least `rank + 1`
    /// pixels.
    pub(super) fn select<T: Pixel>(&mut self, rank: u32) -> T {
        while self.below > rank {
            self.block -= 1;
            self.below -= u32::from(self.coarse[self.block]);
        }
        loop {
            let here = u32::from(self.coarse[self.block]);
            if self.below + here > rank {
                break;
            }
            self.below += here;
            self.block += 1;
        }
        let mut left = rank - self.below;
        let mut value = self.block << self.shift;
        let (groups, _) = self.fine[value..].as_chunks::<GROUP>();
        for group in groups {
            let here: u32 = group.iter().map(|&count| u32::from(count)).sum();
            if here > left {
                break;
            }
            left -= here;
            value += GROUP;
        }
        for &count in &self.fine[value..] {
            if u32::from(count) > left {
                break;
            }
            left -= u32::from(count);
            value += 1;
        }
        T::from_bin(value)
    }
}
