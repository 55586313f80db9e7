//! Drawn arrays.

use crate::value::{self, Value};
use trijet::Dtype;
use trijet_ops::Typed;

/// Marsaglia's xorshift64.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number from `least` to `most`.
    pub(crate) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + (self.next() >> 11) % (most - least + 1)
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        let last = u64::try_from(all.len()).unwrap() - 1;
        all[usize::try_from(self.between(0, last)).unwrap()]
    }

    /// A real type.
    pub(crate) fn dtype(&mut self) -> Dtype {
        self.one_of(&value::REAL)
    }

    /// A shape of 1 to 4 axes. Some axes have the length 0 or 1.
    pub(crate) fn shape(&mut self, most: u64) -> Vec<u64> {
        let axes = self.between(1, 4);
        (0..axes)
            .map(|_| match self.between(0, 15) {
                0 => 0,
                1..4 => 1,
                _ => self.between(1, most),
            })
            .collect()
    }

    /// The bytes of an array: any bits, small integers, and values at the limits of types.
    pub(crate) fn bytes(&mut self, array: &Typed) -> Vec<u8> {
        const NEAR: [f64; 16] = [
            0.0,
            0.5,
            1.5,
            127.5,
            128.0,
            254.5,
            255.5,
            32767.5,
            65504.0,
            65519.9,
            65520.0,
            65535.5,
            2147483647.5,
            4294967295.5,
            9.3e18,
            1.9e19,
        ];
        let mut bytes = Vec::new();
        for _ in 0..array.shape.iter().product::<u64>() {
            match self.between(0, 3) {
                0 => {
                    let word = self.next().to_le_bytes();
                    bytes.extend(&word[..usize::try_from(array.dtype.bytes()).unwrap()]);
                }
                1 => {
                    let near = self.one_of(&NEAR);
                    let near = if self.between(0, 1) == 0 { near } else { -near };
                    bytes.extend(value::encode(array.dtype, Value::Real(near)));
                }
                _ => {
                    let small = i128::from(self.between(0, 300)) - 50;
                    bytes.extend(value::encode(array.dtype, Value::Whole(small)));
                }
            }
        }
        bytes
    }
}
