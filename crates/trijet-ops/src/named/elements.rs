//! Operations on single elements, from their parameters.
#![forbid(unsafe_code)]

use super::entry::LoadImage;
use super::values::{Parameter, Values, minor, needed, or};
use crate::operation::Operation;
use crate::pointwise::{Affine, Clip, Convert, FlatField, Rescale, Threshold};
use trijet::Result;

pub(super) const AFFINE: [Parameter; 2] = [or("scale", "1"), or("offset", "0")];

pub(super) fn affine(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (scale, offset) = (values.number("scale")?, values.number("offset")?);
    Ok(Box::new(Affine { scale, offset }))
}

pub(super) const RESCALE: [Parameter; 5] =
    [needed("lo"), needed("hi"), needed("to_lo"), needed("to_hi"), minor("type", "")];

pub(super) fn rescale(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let from = [values.number("lo")?, values.number("hi")?];
    let to = [values.number("to_lo")?, values.number("to_hi")?];
    if from[0] >= from[1] {
        return Err(values.wrong("hi", "above LO"));
    }
    let dtype = match values.text("type") {
        "" => None,
        _ => Some(values.dtype("type")?),
    };
    Ok(Box::new(Rescale { from, to, dtype }))
}

pub(super) const CLIP: [Parameter; 2] = [needed("low"), needed("high")];

pub(super) fn clip(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (low, high) = (values.number("low")?, values.number("high")?);
    if low > high {
        return Err(values.wrong("high", "at least LOW"));
    }
    Ok(Box::new(Clip { low, high }))
}

pub(super) const THRESHOLD: [Parameter; 2] = [needed("above"), or("value", "1")];

pub(super) fn threshold(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (above, value) = (values.number("above")?, values.integer("value")?);
    Ok(Box::new(Threshold { above, value }))
}

pub(super) const CONVERT: [Parameter; 1] = [needed("type")];

pub(super) fn convert(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(Convert { to: values.dtype("type")?, range: None }))
}

pub(super) const FLAT_FIELD: [Parameter; 3] = [needed("dark"), needed("flat"), minor("scale", "1")];

pub(super) fn flat_field(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let scale = values.number("scale")?;
    let (dark, flat) = (load(values.text("dark"))?, load(values.text("flat"))?);
    Ok(Box::new(FlatField::new(dark, flat).scale(scale)))
}

pub(super) const IMAGE: [Parameter; 1] = [needed("image")];

pub(super) fn subtract(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(FlatField::subtract(load(values.text("image"))?)))
}

pub(super) fn divide(values: &Values, load: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    Ok(Box::new(FlatField::divide(load(values.text("image"))?)))
}
