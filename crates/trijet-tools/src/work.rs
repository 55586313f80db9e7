//! The function that the kernel [`WORK`](trijet::testing::WORK) computes, so that its results can
//! be verified.
#![forbid(unsafe_code)]

/// The value that the kernel computes from `x` in `rounds` rounds. This code is independent of the
/// code of the kernel.
///
/// ```
/// use trijet_tools::work::hash;
/// assert_eq!(hash(0, 7), 7);
/// assert_eq!(hash(2, 7), hash(1, hash(1, 7)));
/// ```
#[must_use]
pub fn hash(rounds: u32, x: u32) -> u32 {
    (0..rounds).fold(x, |v, _| {
        let v = v ^ (v << 13);
        let v = v ^ (v >> 17);
        let v = v ^ (v << 5);
        v.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)
    })
}
