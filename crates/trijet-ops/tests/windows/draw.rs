//! Drawn numbers, shapes and arrays.

use trijet::Dtype;
use trijet_ops::Typed;

/// Marsaglia's xorshift64.
#[derive(Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        let mut draw = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        draw.next();
        draw
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 3
    }

    /// A number from 0 to `most`.
    pub(crate) fn to(&mut self, most: u64) -> u64 {
        self.next() % (most + 1)
    }

    pub(crate) fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.to(items.len() as u64 - 1) as usize]
    }

    /// A real type.
    pub(crate) fn dtype(&mut self) -> Dtype {
        const REAL: [&str; 12] =
            ["u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "f32", "f64", "bf16"];
        self.pick(&REAL).parse().unwrap()
    }

    /// A shape of one to four axes. One shape in eight has no elements.
    pub(crate) fn shape(&mut self) -> Vec<u64> {
        let axes = 1 + self.to(3);
        let mut shape: Vec<u64> = (0..axes)
            .map(|axis| if axis + 1 == axes { 1 + self.to(40) } else { 1 + self.to(6) })
            .collect();
        if self.to(7) == 0 {
            let axis = self.to(axes - 1) as usize;
            shape[axis] = 0;
        }
        shape
    }

    /// Elements of which some are equal. Floats have zeros of both signs, infinities and NaN.
    pub(crate) fn elements(&mut self, array: &Typed) -> Vec<u8> {
        let size = array.dtype.bytes() as usize;
        let count = array.shape.iter().product::<u64>();
        let narrow = self.to(1) == 0;
        let mut bytes = Vec::new();
        for _ in 0..count {
            let bits = match self.to(9) {
                0 => 0,
                1 => 1 << (8 * size - 1),
                2 if narrow => u64::MAX,
                _ if narrow => self.to(5),
                _ => self.next() << 3 ^ self.next(),
            };
            bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
        }
        bytes
    }
}
