//! The attributes of a data set.

use super::skeleton::SPACING;
use crate::annotations::Annotations;
use hdf5_pure::{AttrValue, Dataset};
use serde_json::{Map, Value};

/// Maximum number of values of an attribute that is kept.
const VALUES_MAX: usize = 1024;
const MICROMETRE: f64 = 1e-6;

/// The facts that the attributes of a data set state. An attribute that cannot be read is left out,
/// because the elements do not depend on it.
pub(super) fn annotations_of(data_set: &Dataset) -> Annotations {
    let found = data_set.attrs().unwrap_or_default();
    let mut named: Vec<_> = found.iter().collect();
    named.sort_by(|one, other| one.0.cmp(other.0));
    let values = named.into_iter().filter_map(|(name, value)| Some((name.clone(), json(value)?)));
    let mut attributes: Map<String, Value> = values.collect();
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

/// The value of an attribute. `None` for a value that is no string and no number.
fn json(value: &AttrValue) -> Option<Value> {
    if let Some(text) = value.as_str() {
        return Some(text.into());
    }
    if let Some(texts) = value.as_strings() {
        return (texts.len() <= VALUES_MAX).then(|| texts.into());
    }
    macro_rules! numbers {
        ($($one:ident $many:ident),*) => {
            match value {
                $(AttrValue::$one(number) => Some(Value::from(*number)),
                AttrValue::$many(numbers) if numbers.len() <= VALUES_MAX => {
                    Some(numbers.iter().map(|number| Value::from(*number)).collect())
                })*
                _ => None,
            }
        };
    }
    let found: Option<Value> = numbers!(
        F32 F32Array, F64 F64Array, I8 I8Array, I16 I16Array, I32 I32Array, I64 I64Array,
        U8 U8Array, U16 U16Array, U32 U32Array, U64 U64Array
    );
    // JSON has no NaN and no infinity.
    found.filter(|value| !value.is_null() && !has_null(value))
}

fn has_null(value: &Value) -> bool {
    value.as_array().is_some_and(|values| values.iter().any(Value::is_null))
}
