//! The twins of `dependent`: the same computations on the host, over slices.
#![forbid(unsafe_code)]

use trijet_twins::work;

/// The hash of one word, with `rounds` rounds.
fn hashed(rounds: u32, v: u32) -> u32 {
    let mut y = [0];
    work(rounds, &[v], &mut y);
    y[0]
}

/// Fills `y` with elements of a sequence, starting at index `first`. Element `i` is the hash of
/// `seed + i`.
#[expect(clippy::cast_possible_truncation, reason = "the device too adds the low 32 bits of i")]
pub(crate) fn produce(seed: u32, rounds: u32, first: usize, y: &mut [u32]) {
    for (i, y) in (first..).zip(y) {
        *y = hashed(rounds, seed.wrapping_add(i as u32));
    }
}

/// Fills `y` with elements of a sequence, starting at index `first`. Element `i` is the hash, with
/// a key, of the element of `x` at index `i` from the end.
pub(crate) fn consume(salt: u32, rounds: u32, first: usize, x: &[u32], y: &mut [u32]) {
    let key = hashed(rounds, salt);
    for (y, x) in y.iter_mut().zip(x.iter().rev().skip(first)) {
        *y = hashed(1, x ^ key);
    }
}

#[cfg(test)]
mod tests {
    use super::{consume, produce};

    #[test]
    fn a_part_is_that_of_the_whole() {
        let mut whole = [0; 10];
        produce(u32::MAX - 3, 5, 0, &mut whole);
        let mut part = [0; 4];
        produce(u32::MAX - 3, 5, 3, &mut part);
        assert_eq!(part, whole[3..7]);
        let mut other = [0; 10];
        consume(9, 2, 0, &whole, &mut other);
        consume(9, 2, 6, &whole, &mut part);
        assert_eq!(part, other[6..]);
    }

    #[test]
    fn the_device_source_gives_the_same_words() {
        // The expected words come from dependent.cu, compiled for a CPU and run as one thread.
        let (mut x, mut y) = ([0; 5], [0; 5]);
        produce(u32::MAX - 1, 10, 0, &mut x);
        assert_eq!(x, [0x09e2_56f2, 0xa112_ee85, 0x326c_9373, 0x9815_2b6f, 0xfd87_5415]);
        consume(7, 3, 0, &x, &mut y);
        assert_eq!(y, [0x7762_bffe, 0xd880_b882, 0xda2f_d951, 0x7c6d_0d9f, 0x132a_f997]);
    }

    #[test]
    fn the_consumer_reads_from_the_end() {
        let mut y = [0; 3];
        consume(0, 0, 0, &[0, 0, 1], &mut y);
        // The expected words come from one round of the hash. Another test checks more rounds.
        assert_eq!(
            y,
            [270_369_u32.wrapping_mul(0x9e37_79b1), 0, 0].map(|v| v.wrapping_add(0x7f4a_7c15))
        );
    }
}
