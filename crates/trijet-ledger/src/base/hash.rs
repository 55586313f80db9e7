//! A fast hasher for numbers that the library itself assigned. It needs one multiplication. Unlike
//! the standard hasher, it does not guard against keys that were chosen to collide.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// 2^64 divided by the golden ratio, which spreads neighbouring numbers (Knuth, volume 3, section
/// 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A map whose keys are numbers, or types with one number in them.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<Spread>>;

/// The hasher of a [`NumberMap`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let spread = (self.0 ^ number).wrapping_mul(SPREAD);
        self.0 = spread ^ (spread >> 32);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
