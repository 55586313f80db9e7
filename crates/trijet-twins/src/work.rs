//! Rounds of integer arithmetic: a kernel whose running time can be chosen.
#![forbid(unsafe_code)]

/// The number of words whose rounds are computed together. A round of a word needs the result of
/// the previous round. With one word at a time, the processor would wait for each round.
const TOGETHER: usize = 32;

/// `y[i]` is `x[i]` after `rounds` rounds of xorshift32 and an odd multiply, over the shorter of
/// `x` and `y`. Zero rounds make a copy.
pub fn work(rounds: u32, x: &[u32], y: &mut [u32]) {
    let count = x.len().min(y.len());
    let (x, x_rest) = x[..count].as_chunks::<TOGETHER>();
    let (y, y_rest) = y[..count].as_chunks_mut::<TOGETHER>();
    for (y, x) in y.iter_mut().zip(x) {
        *y = after(rounds, *x);
    }
    for (y, x) in y_rest.iter_mut().zip(x_rest) {
        [*y] = after(rounds, [*x]);
    }
}

/// The words after `rounds` rounds.
fn after<const N: usize>(rounds: u32, mut words: [u32; N]) -> [u32; N] {
    for _ in 0..rounds {
        for v in &mut words {
            *v ^= *v << 13;
            *v ^= *v >> 17;
            *v ^= *v << 5;
            *v = v.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
        }
    }
    words
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
        // The words are from work.cu, compiled for a CPU and run as one thread.
        let mut y = [0; 4];
        work(10, &[0, 1, u32::MAX, 1 << 31], &mut y);
        assert_eq!(y, [0x326c_9373, 0x9815_2b6f, 0xa112_ee85, 0x5c0c_7cb3]);
    }

    /// Tries lengths around multiples of `TOGETHER`, with `x` or `y` as the shorter slice.
    #[test]
    fn each_word_is_computed_alone_and_none_beyond_the_shorter_slice() {
        let x: Vec<u32> = (0..100).map(|n| n * 0x0123_4567).collect();
        for given in [0, 1, 31, 32, 33, 64, 100] {
            for taken in [0, 1, 31, 32, 33, 64, 100] {
                let mut y = vec![7; taken];
                work(3, &x[..given], &mut y);
                for (at, word) in y.iter().enumerate() {
                    let mut alone = [7];
                    work(3, &x[at.min(given)..given.min(at + 1)], &mut alone);
                    assert_eq!(*word, alone[0], "word {at} of {given} and {taken}");
                }
            }
        }
    }

    #[test]
    fn one_round_by_hand() {
        // xorshift32 of 1 is 270369 (Marsaglia 2003).
        let mut y = [0];
        work(1, &[1], &mut y);
        assert_eq!(y, [270_369_u32.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15)]);
    }
}
