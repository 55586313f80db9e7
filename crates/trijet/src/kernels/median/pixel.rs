//! The pixel types of the median filter.
#![forbid(unsafe_code)]

/// A pixel of 8 or 16 bits.
pub(crate) trait Pixel: Copy + Ord + Default {
    /// The bits of a pixel.
    const BITS: u32;

    /// The value as an index below `1 << BITS`.
    fn bin(self) -> usize;

    /// The pixel whose [`bin`](Self::bin) is `bin`.
    fn from_bin(bin: usize) -> Self;
}

impl Pixel for u8 {
    const BITS: u32 = 8;

    fn bin(self) -> usize {
        usize::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a bin is below 1 << BITS")]
    fn from_bin(bin: usize) -> Self {
        bin as Self
    }
}

impl Pixel for u16 {
    const BITS: u32 = 16;

    fn bin(self) -> usize {
        usize::from(self)
    }

    #[expect(clippy::cast_possible_truncation, reason = "a bin is below 1 << BITS")]
    fn from_bin(bin: usize) -> Self {
        bin as Self
    }
}
