//! Datatypes: the form of the elements of a data set or an attribute.

use super::cursor::{FieldCursor, text_of};
use super::fault::{Fault, Outcome};

/// The highest version of a datatype of the specification.
const VERSION_MAX: u8 = 5;
/// The number of names of an enumeration that are kept: one more than a bool of h5py has.
const NAMES_MAX: u32 = 3;

/// The number of the norm of fractions in which the first bit is set and not stored.
const IMPLIED_BIT: u32 = 2;

/// The form of elements. Only numbers, pairs of numbers and texts are described in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) enum Datatype {
    Integer(IntegerForm),
    Float(FloatForm),
    Text {
        bytes: u32,
        padding: u8,
    },
    TextOfAnyLength,
    /// The first names are enough to know a bool of h5py.
    Enumeration {
        base: Box<Datatype>,
        names: Vec<String>,
    },
    /// The members are empty if there are other members than two numbers.
    Compound {
        bytes: u32,
        members: Vec<CompoundMember>,
    },
    /// A complex number of HDF5 2.0.
    Complex {
        bytes: u32,
        part: Box<Datatype>,
    },
    References,
    /// Elements that are not described, by their name for messages.
    Other(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::hdf5) struct IntegerForm {
    pub(in crate::format::hdf5) bytes: u32,
    pub(in crate::format::hdf5) is_big: bool,
    pub(in crate::format::hdf5) is_signed: bool,
    pub(in crate::format::hdf5) first_bit: u16,
    pub(in crate::format::hdf5) bits: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::hdf5) struct FloatForm {
    pub(in crate::format::hdf5) bytes: u32,
    pub(in crate::format::hdf5) is_big: bool,
    /// Whether the bytes are in the order of a VAX.
    pub(in crate::format::hdf5) is_vax: bool,
    /// Whether a bit before the fraction is set and not stored.
    pub(in crate::format::hdf5) has_implied_bit: bool,
    pub(in crate::format::hdf5) first_bit: u16,
    pub(in crate::format::hdf5) bits: u16,
    pub(in crate::format::hdf5) sign: u8,
    pub(in crate::format::hdf5) exponent: BitField,
    pub(in crate::format::hdf5) fraction: BitField,
    pub(in crate::format::hdf5) bias: u32,
}

/// Bits of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::format::hdf5) struct BitField {
    pub(in crate::format::hdf5) first: u8,
    pub(in crate::format::hdf5) bits: u8,
}

/// A member of a compound type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::format::hdf5) struct CompoundMember {
    pub(in crate::format::hdf5) name: String,
    pub(in crate::format::hdf5) offset: u64,
    pub(in crate::format::hdf5) datatype: Datatype,
}

/// The part of a datatype that all classes have.
#[derive(Debug, Clone, Copy)]
struct TypeStart {
    class: u8,
    version: u8,
    /// The bits of the class, in three bytes.
    flags: u32,
    bytes: u32,
}

impl Datatype {
    pub(super) fn parse(mut fields: FieldCursor<'_>) -> Outcome<Self> {
        datatype(&mut fields).map_err(|fault| fault.within("the datatype"))
    }
}

fn start(fields: &mut FieldCursor<'_>) -> Outcome<TypeStart> {
    let first = fields.u8()?;
    let flags = u32::try_from(fields.number(3)?).unwrap_or_default();
    let start = TypeStart { class: first & 0xf, version: first >> 4, flags, bytes: fields.u32()? };
    if !(1..=VERSION_MAX).contains(&start.version) {
        return Err(Fault::damaged(format!("it has the version {}", start.version)));
    }
    Ok(start)
}

fn datatype(fields: &mut FieldCursor<'_>) -> Outcome<Datatype> {
    let start = start(fields)?;
    Ok(match start.class {
        0 | 1 => number(start, fields)?,
        2 => Datatype::Other("times"),
        3 => Datatype::Text { bytes: start.bytes, padding: low_byte(start.flags) & 0xf },
        4 => Datatype::Other("bit fields"),
        5 => Datatype::Other("opaque bytes"),
        6 => Datatype::Compound { bytes: start.bytes, members: pair(start, fields) },
        7 => Datatype::References,
        8 => enumeration(start, fields)?,
        9 => of_any_length(start, fields)?,
        10 => Datatype::Other("arrays"),
        11 => Datatype::Complex { bytes: start.bytes, part: Box::new(part(fields)?) },
        _ => Datatype::Other("of an unknown type"),
    })
}

/// A number within another type. No other type is looked at, so types are not nested deeply.
fn part(fields: &mut FieldCursor<'_>) -> Outcome<Datatype> {
    let start = start(fields)?;
    number(start, fields)
}

fn number(start: TypeStart, fields: &mut FieldCursor<'_>) -> Outcome<Datatype> {
    let TypeStart { class, flags, bytes, .. } = start;
    let is_big = flags & 1 != 0;
    match class {
        0 => {
            let (first_bit, bits) = (fields.u16()?, fields.u16()?);
            let is_signed = flags & 8 != 0;
            Ok(Datatype::Integer(IntegerForm { bytes, is_big, is_signed, first_bit, bits }))
        }
        1 => {
            let (first_bit, bits) = (fields.u16()?, fields.u16()?);
            let exponent = BitField { first: fields.u8()?, bits: fields.u8()? };
            let fraction = BitField { first: fields.u8()?, bits: fields.u8()? };
            let (sign, is_vax) = (low_byte(flags >> 8), flags & 0x40 != 0);
            let has_implied_bit = flags >> 4 & 3 == IMPLIED_BIT;
            let bias = fields.u32()?;
            Ok(Datatype::Float(FloatForm {
                bytes,
                is_big,
                is_vax,
                has_implied_bit,
                first_bit,
                bits,
                sign,
                exponent,
                fraction,
                bias,
            }))
        }
        _ => Ok(Datatype::Other("of an unknown type")),
    }
}

fn low_byte(number: u32) -> u8 {
    number.to_le_bytes()[0]
}

/// The two members of a compound type, or nothing if it has others.
fn pair(start: TypeStart, fields: &mut FieldCursor<'_>) -> Vec<CompoundMember> {
    if start.flags & 0xffff != 2 {
        return Vec::new();
    }
    let both = [member(start, fields), member(start, fields)];
    both.into_iter().collect::<Outcome<Vec<_>>>().unwrap_or_default()
}

fn member(start: TypeStart, fields: &mut FieldCursor<'_>) -> Outcome<CompoundMember> {
    let name = member_name(start, fields)?;
    let offset_bytes = match start.version {
        1 | 2 => 4,
        // As many bytes as the size of the type needs.
        _ => (4 - start.bytes.leading_zeros() / 8).max(1),
    };
    let offset = fields.number(usize::try_from(offset_bytes).unwrap_or(4))?;
    if start.version == 1 {
        // The number of axes of the member, and room for four of them.
        let axes = fields.u8()?;
        fields.skip(27)?;
        if axes > 0 {
            return Err(Fault::damaged("a member has axes"));
        }
    }
    Ok(CompoundMember { name, offset, datatype: part(fields)? })
}

/// The name of a member, which earlier versions fill to a multiple of eight bytes.
fn member_name(start: TypeStart, fields: &mut FieldCursor<'_>) -> Outcome<String> {
    let name = fields.until_nul()?;
    if start.version < 3 {
        let length = name.len() + 1;
        fields.skip(length.next_multiple_of(8) - length)?;
    }
    Ok(text_of(name))
}

fn enumeration(start: TypeStart, fields: &mut FieldCursor<'_>) -> Outcome<Datatype> {
    let base = Box::new(part(fields)?);
    let count = (start.flags & 0xffff).min(NAMES_MAX);
    let names = (0..count).map(|_| member_name(start, fields));
    Ok(Datatype::Enumeration { base, names: names.collect::<Outcome<_>>()? })
}

/// Texts of any length, which MATLAB writes as lists of characters.
fn of_any_length(type_start: TypeStart, fields: &mut FieldCursor<'_>) -> Outcome<Datatype> {
    let base = start(fields)?;
    let is_text = type_start.flags & 0xf == 1 || (base.class == 3 && base.bytes == 1);
    Ok(if is_text { Datatype::TextOfAnyLength } else { Datatype::Other("lists of any length") })
}

#[cfg(test)]
mod tests {
    use super::super::cursor::Widths;
    use super::*;

    /// Once, all names of an enumeration were kept. Many attributes may have the same large one.
    #[test]
    fn few_names_of_an_enumeration_are_kept() {
        let names = |count: u8| {
            let mut bytes = vec![0x38, count, 0, 0, 1, 0, 0, 0];
            bytes.extend([0x10, 8, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0]);
            bytes.extend(b"A\0".repeat(usize::from(count)));
            bytes.extend(0..count);
            let widths = Widths { address: 8, length: 8 };
            match Datatype::parse(FieldCursor::new(&bytes, widths)).unwrap() {
                Datatype::Enumeration { names, .. } => names.len(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((names(0), names(2), names(3), names(200)), (0, 2, 3, 3));
    }
}
