//! A small pseudorandom number generator (SplitMix64, with the public domain constants of S.
//! Vigna). A seeded run uses a generator for every choice that the laws leave open, so an equal
//! seed repeats the run.
#![forbid(unsafe_code)]

/// A seeded generator of numbers.
#[derive(Debug, Clone)]
pub struct Prng(u64);

impl Prng {
    /// A generator. Equal seeds give equal numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`; 0 if `bound` is 0. The bias is less than `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
