//! The attributes of a data set.

use super::elements::number;
use super::skeleton::SPACING;
use super::structure::{Attribute, DataSet, ObjectTree};
use crate::annotations::Annotations;
use crate::byte_order::{ByteOrder, swap};
use serde_json::{Map, Value};
use trijet::Dtype;

/// Maximum number of values of an attribute that is kept.
const VALUES_MAX: usize = 1024;
const MICROMETRE: f64 = 1e-6;

/// The facts that the attributes of a data set state. An attribute that cannot be read is left out,
/// because the elements do not depend on it.
pub(super) fn annotations_of(tree: &ObjectTree, data_set: &DataSet) -> Annotations {
    let mut found = tree.attributes(&data_set.object).found;
    found.retain(|attribute| !attribute.space.is_null);
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let texts = tree.texts(&found, VALUES_MAX);
    let mut attributes = Map::new();
    for (attribute, texts) in found.iter().zip(texts) {
        let value = match texts {
            Some(mut texts) if texts.len() == 1 => texts.pop().map(Value::from),
            Some(texts) => Some(texts.into()),
            None => numbers(attribute),
        };
        attributes.extend(value.map(|value| (attribute.name.clone(), value)));
    }
    let spacing = attributes.get(SPACING).and_then(spacing_of);
    if spacing.is_some() {
        attributes.remove(SPACING);
    }
    let spacing = spacing.unwrap_or_default();
    Annotations { spacing, attributes, ..Annotations::default() }
}

/// The distances in metres, from three distances in micrometres.
fn spacing_of(value: &Value) -> Option<[Option<f64>; 3]> {
    let [z, y, x] = &value.as_array()?[..] else { return None };
    let metres = |value: &Value| Some(value.as_f64().filter(|one| *one > 0.0)? * MICROMETRE);
    Some([Some(metres(z)?), Some(metres(y)?), Some(metres(x)?)])
}

/// The numbers of an attribute. `None` for other values.
fn numbers(attribute: &Attribute) -> Option<Value> {
    let (dtype, order) = number(&attribute.datatype)?;
    let values = attribute.values(usize::try_from(dtype.bytes()).ok()?, VALUES_MAX)?;
    let mut values: Vec<Value> =
        values.into_iter().map(|bytes| json(bytes, dtype, order)).collect::<Option<_>>()?;
    // JSON has no NaN and no infinity.
    if values.iter().any(Value::is_null) {
        return None;
    }
    let is_one = attribute.space.shape.is_empty();
    if is_one { values.pop() } else { Some(values.into()) }
}

/// A number of this type. `None` for a complex number.
fn json(bytes: &[u8], dtype: Dtype, order: ByteOrder) -> Option<Value> {
    let mut own = bytes.to_vec();
    if order == ByteOrder::Big {
        swap(dtype, &mut own);
    }
    macro_rules! value {
        ($number:ty) => {
            Value::from(<$number>::from_le_bytes(own.try_into().ok()?))
        };
    }
    Some(match dtype {
        Dtype::U8 => value!(u8),
        Dtype::I8 => value!(i8),
        Dtype::U16 => value!(u16),
        Dtype::I16 => value!(i16),
        Dtype::U32 => value!(u32),
        Dtype::I32 => value!(i32),
        Dtype::U64 => value!(u64),
        Dtype::I64 => value!(i64),
        Dtype::F32 => value!(f32),
        Dtype::F64 => value!(f64),
        Dtype::F16 => half(u16::from_le_bytes(own.try_into().ok()?)).into(),
        Dtype::BF16 => {
            let bits = u16::from_le_bytes(own.try_into().ok()?);
            f32::from_bits(u32::from(bits) << 16).into()
        }
        Dtype::C64 | Dtype::C128 => return None,
    })
}

/// The value of a number of 16 bits, which has 5 bits of an exponent.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let value = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1f => f64::NAN,
        _ => (fraction + 1024.0) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { value } else { -value }
}
