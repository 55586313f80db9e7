//! The bytes of an HDF5 file before the elements of its only data set.
//!
//! The file has a superblock of version 2, a root group, and the contiguous data set `/data` (HDF5
//! File Format Specification 3.0). Nothing follows the elements. The attributes of the input are
//! attributes of the data set.

use crate::annotations::Annotations;
use crate::array::Array;
use serde_json::{Map, Value};
use trijet::Dtype;
use trijet_codecs::lookup3;

/// The name of the data set.
const NAME: &str = "data";
/// The elements start at a multiple of this number of bytes, which is the size of a page.
const ALIGN_BYTES: u64 = 4096;
/// Maximum number of axes (`H5S_MAX_RANK`).
const AXES_MAX: usize = 32;
/// Maximum size of a message of an object header, and so of an attribute.
const MESSAGE_BYTES_MAX: usize = 65_535;
/// Maximum size of all attributes that are kept.
const ATTRIBUTES_BYTES_MAX: usize = 1 << 20;
const UNDEFINED: [u8; 8] = [0xff; 8];
/// The attribute with the distances of neighbouring elements in micrometres, slowest axis first, by
/// the convention of ilastik and of the plugin of Fiji.
pub(super) const SPACING: &str = "element_size_um";
/// The numbers of the types of messages.
const DATASPACE: u8 = 1;
const LINK_INFO: u8 = 2;
const DATATYPE: u8 = 3;
const FILL_VALUE: u8 = 5;
const LINK: u8 = 6;
const LAYOUT: u8 = 8;
const GROUP_INFO: u8 = 10;
const ATTRIBUTE: u8 = 12;
/// Attributes that state something about the elements or the form of an input, and not about what
/// the array is. An output has other elements.
const OF_ELEMENTS: [&str; 9] = [
    "CLASS",
    "NAME",
    "DIMENSION_LABELS",
    "valid_min",
    "valid_max",
    "valid_range",
    "actual_range",
    "scale_factor",
    "add_offset",
];

/// The bytes before the elements of `array`, and the part of `annotations` that they have.
///
/// # Errors
/// The reason why the format cannot hold the array.
pub(super) fn header(
    array: &Array,
    annotations: &Annotations,
) -> std::result::Result<(Vec<u8>, Annotations), String> {
    let axes = array.shape().len();
    if axes > AXES_MAX {
        return Err(format!("an HDF5 file has at most {AXES_MAX} axes, but the array has {axes}"));
    }
    let (attributes, kept) = attributes(annotations);
    // The addresses are of a fixed length, so the length of the whole does not depend on them.
    let length = skeleton(array, &attributes, 0).len() as u64;
    let start = length.next_multiple_of(ALIGN_BYTES);
    let mut bytes = skeleton(array, &attributes, start);
    bytes.resize(usize::try_from(start).expect("the attributes are limited"), 0);
    Ok((bytes, kept))
}

fn skeleton(array: &Array, attributes: &[Vec<u8>], data_start: u64) -> Vec<u8> {
    let superblock_bytes = 48;
    let group = |data_set: u64| {
        let info = [&[0, 0][..], &UNDEFINED, &UNDEFINED].concat();
        let name = [&[1, 0, 4][..], NAME.as_bytes(), &data_set.to_le_bytes()].concat();
        object(&[(LINK_INFO, info), (GROUP_INFO, vec![0, 0]), (LINK, name)])
    };
    let data_set = superblock_bytes + group(0).len() as u64;
    let mut bytes = b"\x89HDF\r\n\x1a\n\x02\x08\x08\0".to_vec();
    bytes.extend(0_u64.to_le_bytes());
    bytes.extend(UNDEFINED);
    bytes.extend((data_start + array.bytes()).to_le_bytes());
    bytes.extend(superblock_bytes.to_le_bytes());
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes.extend(group(data_set));
    let layout = [&[3, 1][..], &data_start.to_le_bytes(), &array.bytes().to_le_bytes()].concat();
    let mut messages = vec![
        (DATASPACE, dataspace(array.shape())),
        (DATATYPE, datatype(array.dtype())),
        // Space is allocated late, and no fill value is defined.
        (FILL_VALUE, vec![3, 0x0a]),
        (LAYOUT, layout),
    ];
    messages.extend(attributes.iter().map(|attribute| (ATTRIBUTE, attribute.clone())));
    bytes.extend(object(&messages));
    bytes
}

/// An object header of version 2 with these messages.
fn object(messages: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, message) in messages {
        let length = u16::try_from(message.len()).expect("the length of a message is limited");
        body.push(*kind);
        body.extend(length.to_le_bytes());
        body.push(0);
        body.extend(message);
    }
    let length = u32::try_from(body.len()).expect("the length of all attributes is limited");
    // The flag 2: the length of the messages has four bytes.
    let mut bytes = b"OHDR\x02\x02".to_vec();
    bytes.extend(length.to_le_bytes());
    bytes.extend(body);
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

fn dataspace(shape: &[u64]) -> Vec<u8> {
    let axes = u8::try_from(shape.len()).expect("the number of axes is limited");
    // The kind 1 is an array, and 0 is one element.
    let mut bytes = vec![2, axes, 0, u8::from(axes > 0)];
    bytes.extend(shape.iter().flat_map(|axis| axis.to_le_bytes()));
    bytes
}

/// The form of a floating-point number: the number of bits, and the bits of the exponent and of the
/// fraction.
fn float(bits: u16, exponent: u8, fraction: u8) -> Vec<u8> {
    let sign = u8::try_from(bits - 1).expect("a number has at most 64 bits");
    let mut bytes = vec![0x11, 0x20, sign, 0];
    bytes.extend(u32::from(bits / 8).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(bits.to_le_bytes());
    bytes.extend([fraction, exponent, 0, fraction]);
    bytes.extend(((1_u32 << (exponent - 1)) - 1).to_le_bytes());
    bytes
}

fn integer(bits: u16, is_signed: bool) -> Vec<u8> {
    let mut bytes = vec![0x10, u8::from(is_signed) << 3, 0, 0];
    bytes.extend(u32::from(bits / 8).to_le_bytes());
    bytes.extend([0, 0]);
    bytes.extend(bits.to_le_bytes());
    bytes
}

/// A complex number, as h5py writes it: a record of the members `r` and `i`.
fn complex(part: &[u8], part_bytes: u8) -> Vec<u8> {
    let mut bytes = vec![0x36, 2, 0, 0];
    bytes.extend(u32::from(2 * part_bytes).to_le_bytes());
    for (name, offset) in [(b'r', 0), (b'i', part_bytes)] {
        bytes.extend([name, 0, offset]);
        bytes.extend(part);
    }
    bytes
}

fn datatype(dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::U8 => integer(8, false),
        Dtype::I8 => integer(8, true),
        Dtype::U16 => integer(16, false),
        Dtype::I16 => integer(16, true),
        Dtype::U32 => integer(32, false),
        Dtype::I32 => integer(32, true),
        Dtype::U64 => integer(64, false),
        Dtype::I64 => integer(64, true),
        Dtype::F16 => float(16, 5, 10),
        Dtype::BF16 => float(16, 8, 7),
        Dtype::F32 => float(32, 8, 23),
        Dtype::F64 => float(64, 11, 52),
        Dtype::C64 => complex(&float(32, 8, 23), 4),
        Dtype::C128 => complex(&float(64, 11, 52), 8),
    }
}

/// The messages of the attributes of the data set, and the annotations that they have.
fn attributes(annotations: &Annotations) -> (Vec<Vec<u8>>, Annotations) {
    let (mut messages, mut kept, mut bytes) = (Vec::new(), Annotations::default(), 0);
    let mut values = annotations.attributes.clone();
    values.retain(|name, _| !OF_ELEMENTS.contains(&name.as_str()) && !name.starts_with('_'));
    let spacing: Option<Vec<f64>> =
        annotations.spacing.iter().map(|metres| metres.map(|metres| metres * 1e6)).collect();
    if let Some(spacing) = spacing {
        values.insert(SPACING.to_owned(), spacing.into());
        kept.spacing = annotations.spacing;
    }
    let mut names = Map::new();
    for (name, value) in values {
        let Some(message) = attribute(&name, &value) else { continue };
        bytes += message.len();
        if message.len() > MESSAGE_BYTES_MAX || bytes > ATTRIBUTES_BYTES_MAX {
            continue;
        }
        messages.push(message);
        names.insert(name, value);
    }
    kept.attributes = names;
    (messages, kept)
}

/// The message of an attribute. `None` for a value that is no number, no string, and no list of
/// numbers.
fn attribute(name: &str, value: &Value) -> Option<Vec<u8>> {
    let (form, space, data) = match value {
        Value::String(text) => {
            let mut data = text.as_bytes().to_vec();
            // A string has at least one byte.
            data.resize(data.len().max(1), 0);
            (string(data.len())?, dataspace(&[]), data)
        }
        Value::Array(values) if !values.is_empty() => {
            let (form, data) = numbers(values)?;
            (form, dataspace(&[values.len() as u64]), data)
        }
        one => {
            let (form, data) = numbers(std::slice::from_ref(one))?;
            (form, dataspace(&[]), data)
        }
    };
    let length = |bytes: usize| u16::try_from(bytes).ok().map(u16::to_le_bytes);
    let mut bytes = vec![3, 0];
    bytes.extend(length(name.len().checked_add(1)?)?);
    bytes.extend(length(form.len())?);
    bytes.extend(length(space.len())?);
    // The name is UTF-8.
    bytes.push(1);
    bytes.extend(name.as_bytes());
    bytes.push(0);
    bytes.extend([form, space, data].concat());
    (!name.contains('\0')).then_some(bytes)
}

/// The type of a string of UTF-8 of this length. It is filled with NUL, so that a string of exactly
/// this length has no NUL at its end.
fn string(bytes: usize) -> Option<Vec<u8>> {
    let length = u32::try_from(bytes).ok()?;
    Some([&[0x13, 0x11, 0, 0][..], &length.to_le_bytes()].concat())
}

/// The type and the bytes of numbers, which all are integers or become floating-point numbers.
fn numbers(values: &[Value]) -> Option<(Vec<u8>, Vec<u8>)> {
    let whole: Option<Vec<i64>> = values.iter().map(Value::as_i64).collect();
    if let Some(whole) = whole {
        let bytes = whole.into_iter().flat_map(i64::to_le_bytes).collect();
        return Some((integer(64, true), bytes));
    }
    let large: Option<Vec<u64>> = values.iter().map(Value::as_u64).collect();
    if let Some(large) = large {
        let bytes = large.into_iter().flat_map(u64::to_le_bytes).collect();
        return Some((integer(64, false), bytes));
    }
    let real: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
    let bytes = real?.into_iter().flat_map(f64::to_le_bytes).collect();
    Some((float(64, 11, 52), bytes))
}
