//! Elements as unsigned keys of the same size, whose order is the order of the elements.
//!
//! Integers are in their order. Floats are in the order of their values, -0 is below 0, and every
//! NaN has the largest key. The NaN of the largest key has all bits but the sign, like a NaN that a
//! device computes.
#![forbid(unsafe_code)]

use crate::elements::RealType;

/// How the bits of an element become a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keys {
    /// The size of an element in bits.
    pub(crate) bits: u32,
    /// The bit of the sign; 0 for unsigned integers.
    sign: u64,
    /// The bits of infinity; 0 for integers.
    infinity: u64,
}

impl Keys {
    /// The keys of elements of this type.
    pub(crate) fn of(real: RealType) -> Self {
        let bits = match real.bytes() {
            1 => 8,
            2 => 16,
            4 => 32,
            _ => 64,
        };
        let infinity = match real {
            RealType::F16 => 0x7c00,
            RealType::BF16 => 0x7f80,
            RealType::F32 => 0x7f80_0000,
            RealType::F64 => 0x7ff0_0000_0000_0000,
            _ => 0,
        };
        let is_unsigned = real.limits().is_some_and(|[least, _]| least == 0);
        let sign = if is_unsigned { 0 } else { 1 << (bits - 1) };
        Self { bits, sign, infinity }
    }

    /// The parameters of the kernels: `Keys` of keys.cuh.
    pub(crate) fn words(self) -> [u64; 2] {
        [self.sign, self.infinity]
    }

    /// The keys with these parameters, of elements of `bits` bits.
    pub(crate) fn from_words(bits: u32, words: [u64; 2]) -> Self {
        let [sign, infinity] = words;
        Self { bits, sign, infinity }
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The key of the element with these bits.
    pub(crate) fn key_of(self, bits: u64) -> u64 {
        let Self { sign, infinity, .. } = self;
        if infinity == 0 {
            bits ^ sign
        } else if bits & !sign > infinity {
            self.mask()
        } else if bits & sign != 0 {
            !bits & self.mask()
        } else {
            bits | sign
        }
    }

    /// The bits of the element with this key.
    pub(crate) fn element_of(self, key: u64) -> u64 {
        if self.infinity == 0 || key & self.sign != 0 {
            key ^ self.sign
        } else {
            !key & self.mask()
        }
    }

    /// The keys of a row of elements, or of zeros, at the indices `columns`. `None` stands for a
    /// zero.
    pub(crate) fn line(self, row: Option<&[u8]>, columns: &[Option<usize>]) -> Vec<u64> {
        let zero = self.key_of(0);
        let Some(row) = row else { return vec![zero; columns.len()] };
        let row = self.read(row);
        columns.iter().map(|at| at.map_or(zero, |at| row[at])).collect()
    }

    /// The keys of the elements in `bytes`.
    fn read(self, bytes: &[u8]) -> Vec<u64> {
        let size = self.bits as usize / 8;
        bytes.chunks_exact(size).map(|element| self.key_of(unsigned_of(element))).collect()
    }

    /// Writes the elements with these keys to `bytes`.
    pub(crate) fn write(self, keys: &[u64], bytes: &mut [u8]) {
        let size = self.bits as usize / 8;
        for (element, key) in bytes.chunks_exact_mut(size).zip(keys) {
            element.copy_from_slice(&self.element_of(*key).to_le_bytes()[..size]);
        }
    }
}

/// The bits of a little-endian element.
fn unsigned_of(element: &[u8]) -> u64 {
    element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::Keys;
    use crate::elements::RealType;

    #[test]
    fn keys_of_floats_are_in_the_order_of_the_values_with_every_nan_above() {
        let keys = Keys::of(RealType::F32);
        let ascending = [f32::NEG_INFINITY, -1.0, -1e-45, -0.0, 0.0, 1e-45, 1.0, f32::INFINITY];
        let of = |value: f32| keys.key_of(u64::from(value.to_bits()));
        assert!(ascending.windows(2).all(|pair| of(pair[0]) < of(pair[1])));
        for nan in [0x7fc0_0000, 0xffc0_0000, 0x7f80_0001, 0xff80_0001_u32] {
            assert_eq!(keys.key_of(u64::from(nan)), u64::from(u32::MAX));
        }
        assert_eq!(keys.element_of(u64::from(u32::MAX)), 0x7fff_ffff);
    }

    #[test]
    fn every_element_but_a_nan_returns_from_its_key() {
        for real in RealType::ALL {
            let keys = Keys::of(real);
            assert_eq!(u64::from(keys.bits), real.bytes() * 8);
            let draws = (0..1000_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & keys.mask());
            for bits in draws {
                let is_nan = keys.infinity != 0 && bits & !keys.sign > keys.infinity;
                let expected = if is_nan { keys.mask() & !keys.sign } else { bits };
                assert_eq!(keys.element_of(keys.key_of(bits)), expected, "{real:?} {bits:x}");
            }
        }
    }

    #[test]
    fn keys_of_signed_integers_are_in_their_order() {
        let keys = Keys::of(RealType::I64);
        let ascending = [i64::MIN, -1, 0, 1, i64::MAX].map(|v| keys.key_of(v.cast_unsigned()));
        assert!(ascending.is_sorted_by(|a, b| a < b));
    }
}
