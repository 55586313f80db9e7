//! Element types, by the names that numpy gives them.
//!
//! The header of an `.npy` file names a type in a form that `numpy.dtype` accepts. The form is a
//! name, such as `uint16`, or a code, such as `u2`. A character for the byte order may precede the
//! code, as in `<u2`. The number in a code is a number of bytes.

use trijet::Dtype;

/// The element type that the header of a file names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// The elements can be read without conversion.
    Read(Dtype),
    /// The elements are numbers of another type or byte order. This Python text, appended to the
    /// expression of the array, converts the elements.
    Converted(&'static str),
    /// The elements are not numbers, or their type is not known.
    Unknown,
}

/// For each element type: its codes, its names, and whether its elements are read or converted.
const TYPES: [(&[&str], &[&str], Elements); 16] = [
    (&["u1", "B"], &["uint8", "ubyte"], Elements::Read(Dtype::U8)),
    (&["u2", "H"], &["uint16", "ushort"], Elements::Read(Dtype::U16)),
    (&["f4", "f"], &["float32", "single"], Elements::Read(Dtype::F32)),
    (&["b1", "?"], &["bool"], Elements::Converted(".astype('u1')")),
    (&["i1", "b"], &["int8", "byte"], TO_F32),
    (&["i2", "h"], &["int16", "short"], TO_F32),
    (&["i4", "i"], &["int32", "intc"], TO_F32),
    (&["i8", "l", "q"], &["int64", "int", "long", "longlong"], TO_F32),
    (&["u4", "I"], &["uint32", "uintc"], TO_F32),
    (&["u8", "L", "Q"], &["uint64", "uint", "ulong", "ulonglong"], TO_F32),
    (&["f2", "e"], &["float16", "half"], TO_F32),
    (&["f8", "d"], &["float64", "float", "double"], TO_F32),
    (&["f16", "g"], &["float128", "longdouble"], TO_F32),
    (&["c8", "F"], &["complex64", "csingle"], Elements::Converted(".real.astype('<f4')")),
    (
        &["c16", "D"],
        &["complex128", "complex", "cdouble"],
        Elements::Converted(".real.astype('<f4')"),
    ),
    (&["c32", "G"], &["complex256", "clongdouble"], Elements::Converted(".real.astype('<f4')")),
];

const TO_F32: Elements = Elements::Converted(".astype('<f4')");

impl Elements {
    /// The element type that the text `descr` of a header names.
    pub(super) fn of(descr: &str) -> Self {
        let code = descr.trim_start_matches(['<', '>', '=', '|']);
        let prefix = &descr[..descr.len() - code.len()];
        let is_named = |(codes, names, _): &&(&[&str], &[&str], Self)| {
            (prefix.len() < 2 && codes.contains(&code)) || names.contains(&descr)
        };
        match TYPES.iter().find(is_named) {
            Some((_, _, Self::Read(Dtype::U16))) if prefix == ">" => {
                Self::Converted(".astype('<u2')")
            }
            Some((_, _, Self::Read(Dtype::F32))) if prefix == ">" => TO_F32,
            Some((_, _, Self::Read(dtype))) => Self::Read(*dtype),
            Some((_, _, Self::Converted(expression))) => Self::Converted(expression),
            Some((_, _, Self::Unknown)) | None => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lists below have the names that `numpy.dtype` of numpy 2.4 accepts.
    #[test]
    fn a_type_has_every_name_that_numpy_takes() {
        let read = |dtype, names: &[&str]| {
            for name in names {
                assert_eq!(Elements::of(name), Elements::Read(dtype), "{name}");
            }
        };
        read(Dtype::U8, &["|u1", "<u1", ">u1", "=u1", "u1", "B", ">B", "uint8", "ubyte"]);
        read(Dtype::U16, &["<u2", "=u2", "|u2", "u2", "H", "<H", "uint16", "ushort"]);
        read(Dtype::F32, &["<f4", "=f4", "|f4", "f4", "f", "=f", "float32", "single"]);
        // The 8 in a code such as `u8` is a number of bytes.
        for name in ["u8", "f8", "float", "<i2", "int16", "L", "e", "half"] {
            assert_eq!(Elements::of(name), TO_F32, "{name}");
        }
        for name in ["", "<", "=uint16", "|>u2", "(2,)u2", "u2,u2", "S4", "O", "<M8[s]", "UInt16"] {
            assert_eq!(Elements::of(name), Elements::Unknown, "{name}");
        }
        assert_eq!(Elements::of(">u2"), Elements::Converted(".astype('<u2')"));
        assert_eq!(Elements::of(">f"), TO_F32);
    }
}
