//! Element types, by the names that numpy gives them.
//!
//! The header of an `.npy` file names a type in a form that `numpy.dtype` accepts. The form is a
//! name, such as `uint16`, or a code, such as `u2`. A character for the byte order may precede the
//! code, as in `<u2`. The number in a code is a number of bytes.

use crate::byte_order::ByteOrder;
use trijet::Dtype;

/// The element type that the header of a file names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// The elements can be read. An element of one byte is [`ByteOrder::Little`].
    Read(Dtype, ByteOrder),
    /// The elements are numbers of a type that cannot be read. This Python text, appended to the
    /// expression of the array, converts the elements.
    Converted(&'static str),
    /// The elements are not numbers, or their type is not known.
    Unknown,
}

/// The codes and the names of a type of numpy.
type Names = (&'static [&'static str], &'static [&'static str]);

/// For each element type that is read: its codes and its names. A bool of numpy is a byte, 0 or 1.
/// The package ml_dtypes writes elements of bf16 as voids of two bytes with a byte order (`<V2`).
/// Voids without a byte order (`|V2`) may be anything.
const READ: [(Names, Dtype); 15] = [
    ((&["u1", "B"], &["uint8", "ubyte"]), Dtype::U8),
    ((&["b1", "?"], &["bool"]), Dtype::U8),
    ((&["i1", "b"], &["int8", "byte"]), Dtype::I8),
    ((&["u2", "H"], &["uint16", "ushort"]), Dtype::U16),
    ((&["i2", "h"], &["int16", "short"]), Dtype::I16),
    ((&["u4", "I"], &["uint32", "uintc"]), Dtype::U32),
    ((&["i4", "i"], &["int32", "intc"]), Dtype::I32),
    ((&["u8", "L", "Q"], &["uint64", "uint", "ulong", "ulonglong"]), Dtype::U64),
    ((&["i8", "l", "q"], &["int64", "int", "long", "longlong"]), Dtype::I64),
    ((&["f2", "e"], &["float16", "half"]), Dtype::F16),
    ((&[], &["<V2", ">V2", "bfloat16"]), Dtype::BF16),
    ((&["f4", "f"], &["float32", "single"]), Dtype::F32),
    ((&["f8", "d"], &["float64", "float", "double"]), Dtype::F64),
    ((&["c8", "F"], &["complex64", "csingle"]), Dtype::C64),
    ((&["c16", "D"], &["complex128", "complex", "cdouble"]), Dtype::C128),
];

/// The types that are converted, each with its Python text.
const CONVERTED: [(Names, &str); 2] = [
    ((&["f16", "g"], &["float128", "longdouble"]), ".astype('<f8')"),
    ((&["c32", "G"], &["complex256", "clongdouble"]), ".astype('<c16')"),
];

impl Elements {
    /// The element type that the text `descr` of a header names.
    pub(super) fn of(descr: &str) -> Self {
        let code = descr.trim_start_matches(['<', '>', '=', '|']);
        let prefix = &descr[..descr.len() - code.len()];
        let is_named = |(codes, names): &Names| {
            (prefix.len() < 2 && codes.contains(&code)) || names.contains(&descr)
        };
        if let Some((_, dtype)) = READ.iter().find(|(names, _)| is_named(names)) {
            let is_big = prefix == ">" && dtype.bytes() > 1;
            let order = if is_big { ByteOrder::Big } else { ByteOrder::Little };
            return Self::Read(*dtype, order);
        }
        let converted = CONVERTED.iter().find(|(names, _)| is_named(names));
        converted.map_or(Self::Unknown, |(_, expression)| Self::Converted(expression))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ByteOrder::{Big, Little};

    /// The lists below have the names that `numpy.dtype` of numpy 2.4 accepts.
    #[test]
    fn a_type_has_every_name_that_numpy_takes() {
        let read = |dtype, order, names: &[&str]| {
            for name in names {
                assert_eq!(Elements::of(name), Elements::Read(dtype, order), "{name}");
            }
        };
        read(Dtype::U8, Little, &["|u1", "<u1", ">u1", "=u1", "u1", "B", ">B", "uint8", "ubyte"]);
        read(Dtype::U8, Little, &["|b1", "<b1", ">b1", "?", "bool"]);
        read(Dtype::U16, Little, &["<u2", "=u2", "|u2", "u2", "H", "<H", "uint16", "ushort"]);
        read(Dtype::F32, Little, &["<f4", "=f4", "|f4", "f4", "f", "=f", "float32", "single"]);
        // The 8 in a code such as `u8` is a number of bytes.
        read(Dtype::U64, Little, &["u8", "<L", "Q", "uint64", "uint"]);
        read(Dtype::F64, Little, &["f8", "float", "d", "double"]);
        read(Dtype::C64, Little, &["c8", "F", "complex64"]);
        read(Dtype::C128, Little, &["c16", "D", "complex", "complex128"]);
        read(Dtype::BF16, Little, &["<V2", "bfloat16"]);
        read(Dtype::U16, Big, &[">u2", ">H"]);
        read(Dtype::F32, Big, &[">f", ">f4"]);
        read(Dtype::C128, Big, &[">c16", ">D"]);
        read(Dtype::BF16, Big, &[">V2"]);
        for name in ["float128", "<f16", ">g"] {
            assert_eq!(Elements::of(name), Elements::Converted(".astype('<f8')"), "{name}");
        }
        assert_eq!(Elements::of("<c32"), Elements::Converted(".astype('<c16')"));
        for name in ["", "<", "=uint16", "|>u2", "(2,)u2", "u2,u2", "S4", "O", "<M8[s]", "UInt16"] {
            assert_eq!(Elements::of(name), Elements::Unknown, "{name}");
        }
        for name in ["V2", "|V2", "=V2", "<V4", "<bfloat16"] {
            assert_eq!(Elements::of(name), Elements::Unknown, "{name}");
        }
    }

    #[test]
    fn every_type_is_read_by_its_own_name_and_code() {
        for dtype in Dtype::ALL {
            let code = format!("<{}", dtype.numpy_code());
            for name in [dtype.numpy_name(), &code] {
                assert_eq!(Elements::of(name), Elements::Read(dtype, Little), "{name}");
            }
        }
    }
}
