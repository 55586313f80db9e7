//! Operations over windows, from their parameters.
#![forbid(unsafe_code)]

use super::entry::LoadImage;
use super::values::{Parameter, Values, minor, needed, or};
use crate::background::Background;
use crate::extremum::Extremum;
use crate::gaussian::Gaussian;
use crate::operation::Operation;
use crate::rank::Rank;
use trijet::Result;
use trijet::kernels::median::Edges;

/// The parameters of a filter with a square window: its radius, its edges, and the radius along the
/// images.
pub(super) const WINDOW: [Parameter; 3] =
    [or("radius", "1"), minor("edges", "nearest"), minor("z", "0")];

/// The radii `[z, y, x]` and the edges of a window.
fn window(values: &Values) -> Result<([u32; 3], Edges)> {
    let radius = values.integer("radius")?;
    Ok(([values.integer("z")?, radius, radius], values.edges("edges")?))
}

pub(super) fn median(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    if radius == [0; 3] {
        return Err(values.wrong("radius", "at least 1"));
    }
    Ok(Box::new(Rank::median(radius, edges)?))
}

pub(super) const PERCENTILE: [Parameter; 4] =
    [needed("percent"), or("radius", "1"), minor("edges", "nearest"), minor("z", "0")];

pub(super) fn percentile(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    Ok(Box::new(Rank::percentile(radius, values.number("percent")?, edges)?))
}

pub(super) const RANK: [Parameter; 4] =
    [needed("rank"), or("radius", "1"), minor("edges", "nearest"), minor("z", "0")];

pub(super) fn rank(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    Ok(Box::new(Rank::nth(radius, values.integer("rank")?, edges)?))
}

pub(super) const GAUSSIAN: [Parameter; 3] =
    [needed("sigma"), minor("edges", "nearest"), minor("z", "0")];

pub(super) fn gaussian(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (sigma, z) = (values.number("sigma")?, values.number("z")?);
    Ok(Box::new(Gaussian::new([z, sigma, sigma], values.edges("edges")?)?))
}

pub(super) fn minimum(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    Ok(Box::new(Extremum::minimum(radius, edges)?))
}

pub(super) fn maximum(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    Ok(Box::new(Extremum::maximum(radius, edges)?))
}

pub(super) fn background(values: &Values, _: LoadImage<'_>) -> Result<Box<dyn Operation>> {
    let (radius, edges) = window(values)?;
    Ok(Box::new(Background::opening(radius, edges)?))
}
