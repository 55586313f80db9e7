//! The pixel types of the median filter.
#![forbid(unsafe_code)]

/// A pixel of 8 or 16 bits: `u8` or `u16`.
pub trait Pixel: Copy + Ord + Default + sealed::Sealed {
    /// The number of bits of a pixel.
    const BITS: u32;

    /// The value as an index below `1 << BITS`.
    #[doc(hidden)]
    fn bin(self) -> usize;

    /// The pixel whose [`bin`](Self::bin) is `bin`.
    #[doc(hidden)]
    fn from_bin(bin: usize) -> Self;
}

/// Seals [`Pixel`], because `BITS` must be correct: the filter counts pixels by their bins.
mod sealed {
    #[expect(unnameable_types, reason = "no other crate may implement it")]
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u16 {}
}

macro_rules! pixels {
    ($($type:ty),*) => {$(
        impl Pixel for $type {
            const BITS: u32 = <$type>::BITS;

            fn bin(self) -> usize {
                usize::from(self)
            }

            fn from_bin(bin: usize) -> Self {
                Self::try_from(bin).expect("a bin is below 1 << BITS")
            }
        }
    )*};
}

pixels!(u8, u16);
