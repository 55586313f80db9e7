//! The real types of elements, with the numbers that kernels use for them.
#![forbid(unsafe_code)]

use trijet::{Dtype, Error, ErrorKind, Result};

/// A real type of elements. Kernels get its [number](Self::number).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RealType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    U64,
    I64,
    F16,
    BF16,
    F32,
    F64,
}

impl RealType {
    /// All types, in the order of their numbers.
    pub(crate) const ALL: [Self; 12] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F16,
        Self::BF16,
        Self::F32,
        Self::F64,
    ];

    /// The types of arrays.
    const TYPES: [(Dtype, Self); 12] = [
        (Dtype::U8, Self::U8),
        (Dtype::I8, Self::I8),
        (Dtype::U16, Self::U16),
        (Dtype::I16, Self::I16),
        (Dtype::U32, Self::U32),
        (Dtype::I32, Self::I32),
        (Dtype::U64, Self::U64),
        (Dtype::I64, Self::I64),
        (Dtype::F16, Self::F16),
        (Dtype::BF16, Self::BF16),
        (Dtype::F32, Self::F32),
        (Dtype::F64, Self::F64),
    ];

    /// The real type of an array's elements.
    pub(crate) fn of(operation: &'static str, dtype: Dtype) -> Result<Self> {
        let found = Self::TYPES.iter().find(|(one, _)| *one == dtype);
        found.map(|(_, real)| *real).ok_or_else(|| {
            let names = Self::TYPES.map(|(one, _)| one.name()).join(", ");
            let cause = format!("no elements of the type {dtype}; the types are {names}");
            Error::new(ErrorKind::InvalidValue, operation, cause)
        })
    }

    /// The number that kernels use for the type: the constants of `elements.cuh`.
    pub(crate) const fn number(self) -> u32 {
        self as u32
    }

    /// The type with a number.
    pub(crate) fn numbered(number: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// The type with a number that the check of a kernel has accepted.
    ///
    /// # Panics
    /// If no type has the number.
    pub(crate) fn known(number: u32) -> Self {
        Self::numbered(number).expect("the check refuses an unknown number")
    }

    /// The size of an element in bytes.
    pub(crate) const fn bytes(self) -> u64 {
        self.size() as u64
    }

    /// The size of an element in bytes, to index.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 | Self::BF16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    /// Whether `affine` computes in `f32`: elements of at most 16 bits, and `f32`.
    pub(crate) const fn is_short(self) -> bool {
        self.bytes() <= 2 || matches!(self, Self::F32)
    }

    /// The integer `v`, held to the range of the type, in 64 bits that are extended with the sign.
    /// `v` has no fraction. For a float, the bits of `v`.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "casts of floats saturate, and an integer of the type has at most 64 bits"
    )]
    pub(crate) fn word(self, v: f64) -> u64 {
        match self.limits() {
            Some([least, most]) => (v as i128).clamp(least, most) as u64,
            None => v.to_bits(),
        }
    }

    /// The smallest and the largest integer of the type. `None` for floats.
    pub(crate) fn limits(self) -> Option<[i128; 2]> {
        let (bits, unsigned) = (8 * self.bytes(), [0, (1 << (8 * self.bytes())) - 1]);
        match self {
            Self::U8 | Self::U16 | Self::U32 | Self::U64 => Some(unsigned),
            Self::I8 | Self::I16 | Self::I32 | Self::I64 => {
                Some([-(1 << (bits - 1)), (1 << (bits - 1)) - 1])
            }
            Self::F16 | Self::BF16 | Self::F32 | Self::F64 => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trijet::Dtype;

    #[test]
    fn the_numbers_are_the_numbers_of_the_kernels() {
        let header = include_str!("../elements.cuh").replace('\n', " ");
        for (index, real) in RealType::ALL.into_iter().enumerate() {
            assert_eq!(RealType::numbered(real.number()), Some(real));
            assert!(header.contains(&format!(" {real:?} = {index}")), "{real:?}");
        }
        assert_eq!(RealType::numbered(12), None);
    }

    #[test]
    fn sizes_and_limits_are_of_the_type_of_the_array() {
        for (dtype, real) in RealType::TYPES {
            assert_eq!(RealType::of("test", dtype).unwrap(), real);
            assert_eq!(real.bytes(), dtype.bytes());
            assert_eq!(dtype.name().to_uppercase(), format!("{real:?}"));
            assert_eq!(real.limits().is_none(), dtype.name().contains('f'));
        }
        assert_eq!(RealType::I64.limits(), Some([i64::MIN.into(), i64::MAX.into()]));
        assert_eq!(RealType::U64.limits(), Some([0, u64::MAX.into()]));
        assert_eq!(RealType::of("test", Dtype::U8).unwrap(), RealType::U8);
    }
}
