//! Operations that change the shape of an array, from their parameters.
#![forbid(unsafe_code)]

use super::entry::LoadImage;
use super::values::{Parameter, Values, minor, needed, or};
use crate::operation::Operation;
use crate::shape::{Bin, Binned, Crop, Project, Projection};
use trijet::Result;

pub(super) const CROP: [Parameter; 2] = [needed("y"), or("x", ":")];

pub(super) fn crop(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (y, x) = (values.range("y", u64::MAX)?, values.range("x", u64::MAX)?);
    Ok(Box::new(Crop { y, x }))
}

pub(super) const BIN: [Parameter; 3] = [needed("by"), or("how", "mean"), minor("z", "1")];

pub(super) fn bin(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (by, z) = (values.integer("by")?, values.integer("z")?);
    let how = match values.text("how") {
        "mean" => Binned::Mean,
        "sum" => Binned::Sum,
        _ => return Err(values.wrong("how", "mean or sum")),
    };
    Ok(Box::new(Bin { by: [z, by, by], how }))
}

pub(super) const PROJECT: [Parameter; 2] = [needed("how"), or("axis", "1")];

pub(super) fn project(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let how = match values.text("how") {
        "max" => Projection::Max,
        "min" => Projection::Min,
        "mean" => Projection::Mean,
        "sum" => Projection::Sum,
        "std" => Projection::Std,
        _ => return Err(values.wrong("how", "max, min, mean, sum or std")),
    };
    Ok(Box::new(Project { axis: values.integer("axis")?, how }))
}
