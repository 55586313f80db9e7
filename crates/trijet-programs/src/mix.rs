//! A hash of a word.
#![forbid(unsafe_code)]

/// Hashes a word. Several programs use this hash.
#[must_use]
pub const fn mix(mut x: u32) -> u32 {
    x ^= x >> 16;
    x = x.wrapping_mul(0x7feb_352d);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846c_a68b);
    x ^ x >> 16
}
