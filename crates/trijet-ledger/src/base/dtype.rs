//! The types of elements, as values.
//!
//! Other modules have tables from these types to the numbers that CUDA and NCCL use for them.
#![forbid(unsafe_code)]

use super::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;

/// A type of elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Dtype {
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
    /// A complex number: the real part, then the imaginary part, each an `f32`.
    C64,
    /// A complex number: the real part, then the imaginary part, each an `f64`.
    C128,
}

/// The facts about a type.
struct DtypeFacts {
    name: &'static str,
    bytes: u64,
    numpy_code: &'static str,
    numpy_name: &'static str,
}

const fn facts(
    name: &'static str,
    bytes: u64,
    numpy_code: &'static str,
    numpy_name: &'static str,
) -> DtypeFacts {
    DtypeFacts { name, bytes, numpy_code, numpy_name }
}

impl Dtype {
    /// All types.
    pub const ALL: [Self; 14] = [
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
        Self::C64,
        Self::C128,
    ];

    const fn facts(self) -> DtypeFacts {
        match self {
            Self::U8 => facts("u8", 1, "u1", "uint8"),
            Self::I8 => facts("i8", 1, "i1", "int8"),
            Self::U16 => facts("u16", 2, "u2", "uint16"),
            Self::I16 => facts("i16", 2, "i2", "int16"),
            Self::U32 => facts("u32", 4, "u4", "uint32"),
            Self::I32 => facts("i32", 4, "i4", "int32"),
            Self::U64 => facts("u64", 8, "u8", "uint64"),
            Self::I64 => facts("i64", 8, "i8", "int64"),
            Self::F16 => facts("f16", 2, "f2", "float16"),
            // NumPy has no bf16. The package ml_dtypes writes the code `V2` for bf16: two bytes.
            Self::BF16 => facts("bf16", 2, "V2", "bfloat16"),
            Self::F32 => facts("f32", 4, "f4", "float32"),
            Self::F64 => facts("f64", 8, "f8", "float64"),
            Self::C64 => facts("c64", 8, "c8", "complex64"),
            Self::C128 => facts("c128", 16, "c16", "complex128"),
        }
    }

    /// The size of an element in bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.facts().bytes
    }

    /// The size of a part of an element in bytes. A complex number has two parts. Any other element
    /// is one part. The order of the bytes in a file is the order within each part.
    #[must_use]
    pub const fn part_bytes(self) -> u64 {
        match self {
            Self::C64 | Self::C128 => self.bytes() / 2,
            _ => self.bytes(),
        }
    }

    /// The name, as in Rust: `u8`, `bf16`. Complex numbers have the names `c64` and `c128`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// The name in NumPy: `uint16`.
    #[must_use]
    pub const fn numpy_name(self) -> &'static str {
        self.facts().numpy_name
    }

    /// The code of NumPy, without the order of the bytes: `u2`.
    #[must_use]
    pub const fn numpy_code(self) -> &'static str {
        self.facts().numpy_code
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = Error;

    /// Parses the names of Rust and the names of NumPy.
    fn from_str(name: &str) -> Result<Self> {
        let is_named = |one: &Self| [one.name(), one.numpy_name()].contains(&name);
        Self::ALL.into_iter().find(is_named).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            let cause = format!("unknown dtype `{name}`: use one of {names}");
            Error::new(ErrorKind::InvalidValue, "dtype", cause)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_numbers_have_two_parts() {
        let parts = |one: &Dtype| one.bytes() / one.part_bytes();
        let complex = Dtype::ALL.into_iter().filter(|one| parts(one) == 2);
        assert_eq!(complex.collect::<Vec<_>>(), [Dtype::C64, Dtype::C128]);
        assert!(Dtype::ALL.iter().all(|one| parts(one) <= 2));
    }

    #[test]
    fn each_type_is_parsed_from_both_of_its_names() {
        for one in Dtype::ALL {
            for name in [one.name(), one.numpy_name()] {
                assert_eq!(name.parse::<Dtype>().unwrap(), one);
            }
        }
        let told = "i24".parse::<Dtype>().unwrap_err().to_string();
        assert!(told.contains("unknown dtype `i24`: use one of u8, i8, u16, "), "{told}");
    }

    #[test]
    fn the_code_of_numpy_has_the_size_of_an_element() {
        for one in Dtype::ALL {
            assert_eq!(one.numpy_code()[1..].parse::<u64>().unwrap(), one.bytes(), "{one}");
        }
    }
}
