//! The arguments of a kernel of the user.
#![forbid(unsafe_code)]

use std::fmt;
use std::str::FromStr;

/// An argument of a kernel of the user: a name for messages, and a value with its type.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelArg {
    /// The name, which the kernel itself need not have.
    pub name: String,
    /// The value.
    pub value: Scalar,
}

/// A number with its type in a kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// A `float`.
    F32(f32),
    /// A `double`.
    F64(f64),
    /// An `int`.
    I32(i32),
    /// A `long long`.
    I64(i64),
    /// An `unsigned int`.
    U32(u32),
    /// An `unsigned long long`.
    U64(u64),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32(v) => write!(f, "{v}f32"),
            Self::F64(v) => write!(f, "{v}f64"),
            Self::I32(v) => write!(f, "{v}i32"),
            Self::I64(v) => write!(f, "{v}i64"),
            Self::U32(v) => write!(f, "{v}u32"),
            Self::U64(v) => write!(f, "{v}u64"),
        }
    }
}

impl FromStr for KernelArg {
    type Err = String;

    /// Reads `NAME=VALUE`. `2.5` is a `float`, `3` an `int`, and `3u64` has the type that it names.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("`{text}` is not an argument: write it like gain=2.5, n=3, n=3u64 or x=1f64")
        };
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let kinds = ["f32", "f64", "i32", "i64", "u32", "u64"];
        let kind = kinds.into_iter().find(|kind| value.ends_with(kind));
        let number = &value[..value.len() - kind.map_or(0, str::len)];
        let plain = if number.contains(['.', 'e']) { "f32" } else { "i32" };
        let value = match kind.unwrap_or(plain) {
            "f32" => number.parse().ok().map(Scalar::F32),
            "f64" => number.parse().ok().map(Scalar::F64),
            "i32" => number.parse().ok().map(Scalar::I32),
            "i64" => number.parse().ok().map(Scalar::I64),
            "u32" => number.parse().ok().map(Scalar::U32),
            _ => number.parse().ok().map(Scalar::U64),
        };
        Ok(Self { name: name.to_owned(), value: value.ok_or_else(wrong)? })
    }
}
