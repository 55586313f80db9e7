//! The types of elements.

use super::place::DataSetFile;
use crate::byte_order::ByteOrder;
use hdf5_pure::{CompoundMember, Dataset, Datatype, DatatypeByteOrder, FloatingPointLayout};
use trijet::{Dtype, Result};

/// The type of the elements of a data set, and their byte order.
///
/// # Errors
/// `InvalidValue` for elements that are not supported, and `Io` for a damaged type.
pub(super) fn elements_of(
    place: &DataSetFile<'_>,
    data_set: &Dataset,
) -> Result<(Dtype, ByteOrder)> {
    let found = data_set.datatype().map_err(|error| place.damaged(error))?;
    number(&found).ok_or_else(|| {
        let cause = format!("the elements are {}, which is not supported", name_of(&found));
        place.refused(&cause)
    })
}

/// The type and byte order of numbers.
fn number(found: &Datatype) -> Option<(Dtype, ByteOrder)> {
    match found {
        Datatype::FixedPoint { size, byte_order, layout } => {
            let bits = u64::from(*size) * 8;
            let is_whole = layout.bit_offset == 0 && u64::from(layout.bit_precision) == bits;
            let dtype = match (is_whole, size, layout.signed) {
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
            Some((dtype, order(dtype, byte_order)?))
        }
        Datatype::FloatingPoint { size, byte_order, layout } => {
            let dtype = float(*size, layout)?;
            Some((dtype, order(dtype, byte_order)?))
        }
        // A bool of h5py is an enumeration of bytes, and numpy reads it as bytes of 0 and 1.
        Datatype::Enumeration { base_type, members, .. } => {
            let names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
            let (dtype, order) = match &**base_type {
                Datatype::FixedPoint { .. } => number(base_type)?,
                _ => return None,
            };
            let is_bool = dtype == Dtype::I8 && names == ["FALSE", "TRUE"];
            Some((if is_bool { Dtype::U8 } else { dtype }, order))
        }
        Datatype::Compound { size, members } => complex(*size, members),
        _ => None,
    }
}

fn order(dtype: Dtype, found: &DatatypeByteOrder) -> Option<ByteOrder> {
    match found {
        _ if dtype.bytes() == 1 => Some(ByteOrder::Little),
        DatatypeByteOrder::LittleEndian => Some(ByteOrder::Little),
        DatatypeByteOrder::BigEndian => Some(ByteOrder::Big),
        DatatypeByteOrder::Vax => None,
    }
}

/// The type of a floating-point number with this form.
fn float(size: u32, layout: &FloatingPointLayout) -> Option<Dtype> {
    let forms =
        [(Dtype::F16, 5, 10), (Dtype::BF16, 8, 7), (Dtype::F32, 8, 23), (Dtype::F64, 11, 52)];
    forms.into_iter().find_map(|(dtype, exponent, fraction)| {
        let wanted = FloatingPointLayout {
            bit_offset: 0,
            bit_precision: u16::try_from(dtype.bytes() * 8).ok()?,
            exponent_location: fraction,
            exponent_size: exponent,
            mantissa_location: 0,
            mantissa_size: fraction,
            exponent_bias: (1 << (exponent - 1)) - 1,
        };
        (u64::from(size) == dtype.bytes() && *layout == wanted).then_some(dtype)
    })
}

/// The type of a complex number, which h5py writes as a record of the members `r` and `i`.
fn complex(size: u32, members: &[CompoundMember]) -> Option<(Dtype, ByteOrder)> {
    let [real, imaginary] = members else { return None };
    let (part, order) = number(&real.datatype)?;
    let dtype = match part {
        Dtype::F32 => Dtype::C64,
        Dtype::F64 => Dtype::C128,
        _ => return None,
    };
    let is_complex = (real.name.as_str(), imaginary.name.as_str()) == ("r", "i")
        && number(&imaginary.datatype) == Some((part, order))
        && (real.byte_offset, imaginary.byte_offset) == (0, part.bytes())
        && u64::from(size) == dtype.bytes();
    is_complex.then_some((dtype, order))
}

/// The name of a type, for a message.
fn name_of(found: &Datatype) -> String {
    match found {
        Datatype::FixedPoint { size, layout, .. } => {
            format!("integers of {} bits in {size} bytes", layout.bit_precision)
        }
        Datatype::FloatingPoint { size, .. } => {
            format!("floating-point numbers of {size} bytes in an unusual form")
        }
        Datatype::Time { .. } => "times".to_owned(),
        Datatype::String { .. } => "strings".to_owned(),
        Datatype::BitField { .. } => "bit fields".to_owned(),
        Datatype::Opaque { .. } => "opaque bytes".to_owned(),
        Datatype::Compound { .. } => "records with several members (a compound type)".to_owned(),
        Datatype::Reference { .. } => "references".to_owned(),
        Datatype::Enumeration { .. } => "enumerations".to_owned(),
        Datatype::VariableLength { is_string: true, .. } => "strings".to_owned(),
        Datatype::VariableLength { .. } => "lists of any length".to_owned(),
        Datatype::Array { .. } => "arrays".to_owned(),
        _ => "of an unknown type".to_owned(),
    }
}
