//! The shapes of the chunks and of the shard of an output.
//!
//! The rows of the array must be one run of bytes in the shard. So a chunk has one index of some
//! first axes, some indices of the next axis, and all indices of the last axes. Chunks at the end
//! of an axis are padded, and padding is possible only at the end of the shard.

use crate::array::Array;

/// The size of a chunk. Readers fetch and decode whole chunks.
const CHUNK_BYTES: u64 = 4 << 20;
/// The number of chunks above which chunks become larger. The index has 16 bytes for each chunk,
/// and some readers read the index for each access.
const CHUNKS_MANY: u64 = 1 << 16;
/// If the lengths of the axes have no suitable divisors, chunks are larger than `LARGE_BYTES` only
/// if there would be more than `CHUNKS_MAX` chunks otherwise.
const LARGE_BYTES: u64 = 64 << 20;
const CHUNKS_MAX: u64 = 1 << 18;

/// The chunks of an output, which are all in one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShardShape {
    pub(super) chunk: Vec<u64>,
    pub(super) shard: Vec<u64>,
    pub(super) chunk_bytes: u64,
    pub(super) chunks: u64,
}

impl ShardShape {
    /// The chunks of `array`. `None` if the shard would have more bytes than a file can have.
    pub(super) fn of(array: &Array) -> Option<Self> {
        let shape = array.shape();
        let element = array.dtype().bytes();
        if array.bytes() == 0 {
            let ones = vec![1; shape.len()];
            return Some(Self {
                chunk: ones.clone(),
                shard: ones,
                chunk_bytes: element,
                chunks: 1,
            });
        }
        let target = CHUNK_BYTES.max(array.bytes() / CHUNKS_MANY);
        // The bytes of one index of the axis.
        let bytes_of = |axis: usize| shape[axis + 1..].iter().product::<u64>() * element;
        // The axis of a row is not split, but an array with one axis has rows of one element.
        let last = shape.len().saturating_sub(2);
        let axis = (0..=last).find(|&axis| bytes_of(axis) <= target).unwrap_or(last);
        let before = shape[..axis].iter().product::<u64>();
        let most = (target / bytes_of(axis)).clamp(1, shape[axis]);
        let length = match (before, divisors(shape[axis], most)) {
            (1, _) => most,
            (_, (below, above)) => {
                let is_small = below * bytes_of(axis) < target / 8;
                let is_large = above.saturating_mul(bytes_of(axis)) > LARGE_BYTES;
                let has_room = before.saturating_mul(shape[axis] / below) <= CHUNKS_MAX;
                if is_small && !(is_large && has_room) { above } else { below }
            }
        };
        let mut chunk = shape.to_vec();
        chunk[..axis].fill(1);
        chunk[axis] = length;
        let along = shape[axis].div_ceil(length);
        let mut shard = shape.to_vec();
        shard[axis] = along.checked_mul(length)?;
        let (chunk_bytes, chunks) = (bytes_of(axis) * length, before * along);
        let all = chunk_bytes.checked_mul(chunks)?;
        (all < i64::MAX as u64 / 2).then_some(Self { chunk, shard, chunk_bytes, chunks })
    }

    /// The total size of all chunks.
    pub(super) fn bytes(&self) -> u64 {
        self.chunk_bytes * self.chunks
    }
}

/// The largest divisor of `number` that is at most `most`, and the smallest divisor above `most`.
/// If no divisor is above `most`, the number itself. `most` is at least 1.
fn divisors(number: u64, most: u64) -> (u64, u64) {
    let (mut below, mut above) = (1, number);
    for small in (1..=number.isqrt()).filter(|small| number.is_multiple_of(*small)) {
        for divisor in [small, number / small] {
            if divisor <= most {
                below = below.max(divisor);
            } else {
                above = above.min(divisor);
            }
        }
    }
    (below, above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};
    use trijet::Dtype;

    fn chunk(shape: &[u64]) -> Vec<u64> {
        let array = Array::new(Dtype::U16, shape.to_vec()).unwrap();
        ShardShape::of(&array).unwrap().chunk
    }

    #[test]
    fn chunks_have_about_four_mebibytes_of_whole_rows() {
        assert_eq!(chunk(&[1000, 2048, 2048]), [1, 1024, 2048]);
        assert_eq!(chunk(&[1000, 512, 512]), [8, 512, 512]);
        assert_eq!(chunk(&[1001, 512, 512]), [8, 512, 512]);
        // 2039 and 16,381 are prime numbers, so an image cannot be cut into equal parts.
        assert_eq!(chunk(&[1000, 2039, 2048]), [1, 2039, 2048]);
        assert_eq!(chunk(&[1000, 16_381, 16_384]), [1, 16_381, 16_384]);
        assert_eq!(chunk(&[10, 16_381, 16_384]), [1, 1, 16_384]);
        assert_eq!(chunk(&[3000, 2039]), [1028, 2039]);
        assert_eq!(chunk(&[3, 4, 5]), [3, 4, 5]);
        assert_eq!(chunk(&[20_000_000]), [2_097_152]);
        assert_eq!(chunk(&[2, 50_000_000]), [1, 50_000_000]);
        assert_eq!(chunk(&[2, 40, 1024, 1024]), [1, 2, 1024, 1024]);
        assert_eq!(chunk(&[0, 1 << 40, 1 << 40]), [1, 1, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        /// The chunks in the order of the shard are the rows in the order of the array, and the
        /// padding follows the last row.
        #[test]
        fn the_rows_are_one_run_of_bytes(
            shape in prop::collection::vec(1u64..3000, 1..5),
        ) {
            let array = Array::new(Dtype::F32, shape.clone()).unwrap();
            let found = ShardShape::of(&array).unwrap();
            let split = found.chunk.iter().zip(&shape).position(|(chunk, axis)| chunk != axis);
            if let Some(split) = split {
                prop_assert!(found.chunk[..split].iter().all(|length| *length == 1));
                let is_whole = shape[split].is_multiple_of(found.chunk[split]);
                let next = (split + 1..shape.len()).find(|&axis| found.chunk[axis] != shape[axis]);
                if let Some(next) = next {
                    prop_assert_eq!(found.chunk[split], 1);
                    prop_assert!(shape[next].is_multiple_of(found.chunk[next]) || split == next);
                } else {
                    prop_assert!(is_whole || shape[..split].iter().product::<u64>() == 1);
                }
            }
            prop_assert!(found.bytes() >= array.bytes());
            prop_assert!(found.bytes() - array.bytes() < found.chunk_bytes);
            let elements: u64 = found.shard.iter().product();
            prop_assert_eq!(found.bytes(), elements * 4);
        }
    }
}
