//! Random words, and a second implementation of the kernel that the tests use.

use trijet::testing::Prng;

/// `len` words, the same for the same seed.
pub(crate) fn words(seed: u64, len: usize) -> Vec<u64> {
    let mut prng = Prng::new(seed);
    (0..len).map(|_| prng.next_u64()).collect()
}

/// Computes the same values as `MIX`, written from the documentation of `MIX`: the finaliser of
/// splitmix64 as a keyed hash.
pub(crate) fn mix(salt: u64, x: &[u64], y: &mut [u64]) {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let finalise = |z: u64| {
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let offset = (salt.wrapping_add(1)).wrapping_mul(GOLDEN);
    for (y, x) in y.iter_mut().zip(x) {
        *y = finalise((*y ^ finalise(x.wrapping_add(offset))).wrapping_add(GOLDEN));
    }
}
