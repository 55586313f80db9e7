//! The types of elements.

use super::place::DataSetFile;
use super::structure::{CompoundMember, Datatype, FloatForm, IntegerForm};
use crate::byte_order::ByteOrder;
use trijet::{Dtype, Result};

/// The type of the elements of a data set, and their byte order.
///
/// # Errors
/// `InvalidValue` for elements that are not supported, and `Io` for a damaged type.
pub(super) fn elements_of(place: &DataSetFile<'_>, found: &Datatype) -> Result<(Dtype, ByteOrder)> {
    number(found).ok_or_else(|| {
        let cause = format!("the elements are {}, which is not supported", name_of(found));
        place.refused(&cause)
    })
}

/// The type and byte order of numbers.
pub(super) fn number(found: &Datatype) -> Option<(Dtype, ByteOrder)> {
    match found {
        Datatype::Integer(form) => integer(form),
        Datatype::Float(form) => float(form),
        // A bool of h5py is an enumeration of bytes, and numpy reads it as bytes of 0 and 1.
        Datatype::Enumeration { base, names } => {
            let (dtype, order) = match &**base {
                Datatype::Integer(form) => integer(form)?,
                _ => return None,
            };
            let is_bool = dtype == Dtype::I8 && names == &["FALSE", "TRUE"];
            Some((if is_bool { Dtype::U8 } else { dtype }, order))
        }
        Datatype::Compound { bytes, members } => complex(*bytes, members),
        Datatype::Complex { bytes, part } => complex_of(*bytes, number(part)?),
        _ => None,
    }
}

fn integer(form: &IntegerForm) -> Option<(Dtype, ByteOrder)> {
    let is_whole = form.first_bit == 0 && u64::from(form.bits) == u64::from(form.bytes) * 8;
    let dtype = match (is_whole, form.bytes, form.is_signed) {
        (true, 1, false) => Dtype::U8,
        (true, 1, true) => Dtype::I8,
        (true, 2, false) => Dtype::U16,
        (true, 2, true) => Dtype::I16,
        (true, 4, false) => Dtype::U32,
        (true, 4, true) => Dtype::I32,
        (true, 8, false) => Dtype::U64,
        (true, 8, true) => Dtype::I64,
        _ => return None,
    };
    Some((dtype, order(dtype, form.is_big)))
}

fn order(dtype: Dtype, is_big: bool) -> ByteOrder {
    if is_big && dtype.bytes() > 1 { ByteOrder::Big } else { ByteOrder::Little }
}

/// The type of a floating-point number with this form.
fn float(form: &FloatForm) -> Option<(Dtype, ByteOrder)> {
    let forms =
        [(Dtype::F16, 5, 10), (Dtype::BF16, 8, 7), (Dtype::F32, 8, 23), (Dtype::F64, 11, 52)];
    let dtype = forms.into_iter().find_map(|(dtype, exponent, fraction)| {
        let bits = exponent + fraction + 1;
        let is_same = !form.is_vax
            && form.has_implied_bit
            && u64::from(form.bytes) == dtype.bytes()
            && (form.first_bit, form.bits) == (0, u16::from(bits))
            && form.sign == bits - 1
            && (form.exponent.first, form.exponent.bits) == (fraction, exponent)
            && (form.fraction.first, form.fraction.bits) == (0, fraction)
            && form.bias == (1 << (exponent - 1)) - 1;
        is_same.then_some(dtype)
    })?;
    Some((dtype, order(dtype, form.is_big)))
}

/// The type of a complex number, which h5py writes as a record of the members `r` and `i`.
fn complex(bytes: u32, members: &[CompoundMember]) -> Option<(Dtype, ByteOrder)> {
    let [real, imaginary] = members else { return None };
    let part = number(&real.datatype)?;
    let is_complex = (real.name.as_str(), imaginary.name.as_str()) == ("r", "i")
        && number(&imaginary.datatype) == Some(part)
        && (real.offset, imaginary.offset) == (0, part.0.bytes());
    if is_complex { complex_of(bytes, part) } else { None }
}

/// The type of a complex number of `bytes` bytes with two parts.
fn complex_of(bytes: u32, part: (Dtype, ByteOrder)) -> Option<(Dtype, ByteOrder)> {
    let dtype = match part.0 {
        Dtype::F32 => Dtype::C64,
        Dtype::F64 => Dtype::C128,
        _ => return None,
    };
    (u64::from(bytes) == dtype.bytes()).then_some((dtype, part.1))
}

/// The name of a type, for a message.
fn name_of(found: &Datatype) -> String {
    match found {
        Datatype::Integer(form) => {
            format!("integers of {} bits in {} bytes", form.bits, form.bytes)
        }
        Datatype::Float(form) if !form.has_implied_bit => format!(
            "floating-point numbers of {} bytes whose fraction has no implied first bit",
            form.bytes
        ),
        Datatype::Float(form) => {
            format!("floating-point numbers of {} bytes in an unusual form", form.bytes)
        }
        Datatype::Text { .. } | Datatype::TextOfAnyLength => "strings".to_owned(),
        Datatype::Compound { .. } => "records with several members (a compound type)".to_owned(),
        Datatype::Complex { bytes, .. } => {
            format!("complex numbers of {bytes} bytes in an unusual form")
        }
        Datatype::References => "references".to_owned(),
        Datatype::Enumeration { .. } => "enumerations".to_owned(),
        Datatype::Other(name) => (*name).to_owned(),
    }
}
