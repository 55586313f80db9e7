//! The twin of `mix`: the same computation on the host, over slices.
#![forbid(unsafe_code)]

/// 2^64 divided by the golden ratio, the increment of splitmix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of splitmix64: a bijection of 64 bit words.
fn finalise(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// `y[i] = hash(y[i], x[i], salt)` over the shorter of `x` and `y`.
pub(crate) fn mix(salt: u64, x: &[u64], y: &mut [u64]) {
    let offset = salt.wrapping_add(1).wrapping_mul(GOLDEN);
    for (y, x) in y.iter_mut().zip(x) {
        let key = finalise(x.wrapping_add(offset));
        *y = finalise((*y ^ key).wrapping_add(GOLDEN));
    }
}

#[cfg(test)]
mod tests {
    use super::{GOLDEN, finalise, mix};

    #[test]
    fn the_finaliser_is_that_of_splitmix64() {
        // This is the first output of the reference generator for the seed 1234567.
        assert_eq!(finalise(1_234_567_u64.wrapping_add(GOLDEN)), 6_457_827_717_110_365_317);
    }

    #[test]
    fn the_device_source_gives_the_same_words() {
        // The expected words come from mix.cu, compiled for a CPU and run as one thread.
        let mut y = [5, 0, u64::MAX, 7];
        mix(3, &[0, 1, u64::MAX, 1 << 63], &mut y);
        let expected = [
            0xec5d_3796_bed3_ce33,
            0x3edf_fcdc_1f87_7be0,
            0x40e0_3477_6dc6_68fa,
            0x684c_c203_7a59_53f2,
        ];
        assert_eq!(y, expected);
    }

    #[test]
    fn order_input_salt_and_repetition_all_show() {
        let after = |steps: &[(u64, u64)]| {
            let mut y = [7];
            for &(salt, x) in steps {
                mix(salt, &[x], &mut y);
            }
            y[0]
        };
        let reference = after(&[(1, 5), (2, 5)]);
        assert_ne!(reference, after(&[(2, 5), (1, 5)]));
        assert_ne!(reference, after(&[(1, 5), (2, 6)]));
        assert_ne!(reference, after(&[(1, 5)]));
        assert_ne!(reference, after(&[(1, 5), (2, 5), (2, 5)]));
        assert_ne!(after(&[(0, 0)]), 7);
    }

    #[test]
    fn elements_beyond_the_shorter_slice_stay() {
        let mut y = [3, 3];
        mix(0, &[1], &mut y);
        assert_ne!(y[0], 3);
        assert_eq!(y[1], 3);
    }
}
