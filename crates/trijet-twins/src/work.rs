//! Rounds of integer arithmetic: a kernel with a selectable time.
#![forbid(unsafe_code)]

/// `y[i]` is `x[i]` after `rounds` rounds of xorshift32 and an odd multiply, over the shorter of
/// `x` and `y`. Zero rounds make a copy.
pub fn work(rounds: u32, x: &[u32], y: &mut [u32]) {
    for (y, x) in y.iter_mut().zip(x) {
        let mut v = *x;
        for _ in 0..rounds {
            v ^= v << 13;
            v ^= v >> 17;
            v ^= v << 5;
            v = v.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        }
        *y = v;
    }
}

#[cfg(test)]
mod tests {
    use super::work;

    #[test]
    fn zero_rounds_make_a_copy() {
        let mut y = [0; 3];
        work(0, &[1, 2, 3], &mut y);
        assert_eq!(y, [1, 2, 3]);
    }

    #[test]
    fn rounds_compose() {
        let x = [0, 1, u32::MAX];
        let (mut two, mut half, mut whole) = ([0; 3], [0; 3], [0; 3]);
        work(2, &x, &mut two);
        work(3, &two, &mut half);
        work(5, &x, &mut whole);
        assert_eq!(half, whole);
        assert_ne!(two, half);
    }

    #[test]
    fn the_device_source_gives_the_same_words() {
        // From work.cu, compiled for a CPU and run as one thread.
        let mut y = [0; 4];
        work(10, &[0, 1, u32::MAX, 1 << 31], &mut y);
        assert_eq!(y, [0x326c_9373, 0x9815_2b6f, 0xa112_ee85, 0x5c0c_7cb3]);
    }

    #[test]
    fn one_round_by_hand() {
        // xorshift32 of 1 is 270369 (Marsaglia 2003).
        let mut y = [0];
        work(1, &[1], &mut y);
        assert_eq!(y, [270_369_u32.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)]);
    }
}
