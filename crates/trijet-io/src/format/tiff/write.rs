//! Writes a TIFF file as tifffile does: the directory of page 0, the pixels of all pages in one
//! run, and the directories of the other pages.

use super::ome::{first_image, is_ome};
use super::page::sample_format_of;
use super::tags::{Offsets, Tags};
use crate::annotations::Annotations;
use crate::array::Array;
use crate::file_error;
use crate::format::contract::{Plan, has_extension};
use crate::format::flat::{FlatEnd, FlatPlan};
use serde_json::json;
use std::io;
use std::path::Path;
use std::sync::Arc;
use trijet::{Dtype, Result};

/// The pixels start at a multiple of this number of bytes.
const ALIGN_BYTES: usize = 64;
/// Maximum size of a file with offsets of 32 bits.
const BYTES_OF_32_BITS: u64 = u32::MAX as u64;
/// Directories are written in pieces of about this size.
const PIECE_BYTES: usize = 1 << 20;

/// The pages of an array.
#[derive(Debug, Clone, Copy)]
struct PagesOut {
    pages: u64,
    height: u32,
    width: u32,
    samples: u16,
    dtype: Dtype,
    sample_format: u16,
    page_bytes: u64,
    /// The pixels per centimetre along the height and the width.
    resolution: [Option<[u32; 2]>; 2],
    offsets: Offsets,
    /// The offset of the pixels.
    start: u64,
}

/// Plans a file of `array`.
pub(super) fn plan(path: &Path, array: &Array, facts: &Annotations) -> Result<Arc<dyn Plan>> {
    let refused = |cause: String| file_error::refused("create", path, cause);
    let dtype = array.dtype();
    let Some(sample_format) = sample_format_of(dtype.name()) else {
        return Err(refused(format!("TIFF has no elements of {dtype}; use .npy")));
    };
    if array.bytes() == 0 {
        return Err(refused(format!("a TIFF file cannot hold {array}; use .npy")));
    }
    let PageShape { height, width, samples } = page_of(array);
    let side = |side: u64| {
        let cause =
            || refused(format!("a TIFF page cannot have a side of {side} pixels; use .npy"));
        u32::try_from(side).map_err(|_| cause())
    };
    let (high, wide) = (side(height)?, side(width)?);
    let page_bytes = height * width * u64::from(samples) * dtype.bytes();
    let resolution = [facts.spacing[1], facts.spacing[2]].map(|own| own.and_then(per_centimetre));
    let keeps_ome = facts.ome_xml.as_deref().is_some_and(|xml| describes(xml, array, samples));
    let description = match facts.ome_xml.as_deref().filter(|_| keeps_ome) {
        Some(xml) => xml.to_owned(),
        None => shape_text(array, facts),
    };
    let mut out = PagesOut {
        pages: array.bytes() / page_bytes,
        height: high,
        width: wide,
        samples,
        dtype,
        sample_format,
        page_bytes,
        resolution,
        offsets: Offsets::Bits32,
        start: 0,
    };
    let is_big_name = ["btf", "tf8"].iter().any(|own| has_extension(path, own));
    let mut header = out.header(&description);
    if is_big_name || out.file_bytes() > BYTES_OF_32_BITS {
        out.offsets = Offsets::Bits64;
        header = out.header(&description);
    }
    let mut left_out = Vec::new();
    if facts.ome_xml.is_some() && !keeps_ome {
        left_out.push("the OME-XML, which describes another array".to_owned());
    }
    if !facts.attributes.is_empty() {
        left_out.push("the attributes".to_owned());
    }
    Ok(Arc::new(FlatPlan::new(header, array).with_end(Arc::new(out)).with_left_out(left_out)))
}

/// The shape of a page.
struct PageShape {
    height: u64,
    width: u64,
    samples: u16,
}

/// The shape of the pages of an array. As in tifffile, elements of 8 or
/// 16 bits without a sign are colours if the last axis has 3 or 4 of them.
fn page_of(array: &Array) -> PageShape {
    let is_colour = matches!(array.dtype(), Dtype::U8 | Dtype::U16);
    match *array.shape() {
        [.., height, width, 3] if is_colour => PageShape { height, width, samples: 3 },
        [.., height, width, 4] if is_colour => PageShape { height, width, samples: 4 },
        [.., height, width] => PageShape { height, width, samples: 1 },
        [width] => PageShape { height: 1, width, samples: 1 },
        [] => PageShape { height: 1, width: 1, samples: 1 },
    }
}

/// The number of pixels per centimetre as a fraction, for pixels of `spacing` metres. `None` if the
/// number is not a fraction of numbers of 32 bits.
fn per_centimetre(spacing: f64) -> Option<[u32; 2]> {
    let pixels = 0.01 / spacing;
    if !pixels.is_finite() || !(1e-6..4e9).contains(&pixels) {
        return None;
    }
    let mut below = 1_u32;
    // The largest power of two below which the number of pixels stays below 2^32.
    while below < 1 << 30 && pixels * f64::from(below) * 2.0 < f64::from(u32::MAX) {
        below *= 2;
    }
    let above = format!("{:.0}", pixels * f64::from(below)).parse().ok()?;
    Some([above, below])
}

/// The description that tifffile reads as the shape of an array.
fn shape_text(array: &Array, facts: &Annotations) -> String {
    let mut text = json!({ "shape": array.shape() });
    if let Some(spacing) = facts.spacing[0].filter(|spacing| spacing.is_finite()) {
        // Micrometres are the unit of most descriptions.
        text["spacing"] = json!(spacing * 1e6);
        text["unit"] = json!("um");
    }
    // The text of a tag is ASCII.
    text.to_string()
}

/// Whether an OME-XML text describes an array.
fn describes(xml: &str, array: &Array, samples: u16) -> bool {
    let Ok(image) = first_image(xml, "") else { return false };
    let outer = image.axes.iter().map(|(_, size)| *size).take(3).filter(|size| *size > 1);
    let mut shape: Vec<u64> = outer.chain([image.size('Y'), image.size('X')]).collect();
    shape.extend((image.samples > 1).then_some(image.samples));
    let kind = match array.dtype().name() {
        "f32" => "float".to_owned(),
        "f64" => "double".to_owned(),
        _ => array.dtype().numpy_name().to_owned(),
    };
    let pages = image.planes().and_then(|planes| image.pages(planes));
    let is_in_order = pages.is_some_and(|pages| pages.iter().copied().eq(0..pages.len() as u64));
    is_ome(xml)
        && image.others == 0
        && is_in_order
        && shape == array.shape()
        && image.samples == u64::from(samples)
        && image.kind == kind
}

impl PagesOut {
    /// The directory of page `n`, without its place.
    fn tags(&self, n: u64) -> Tags {
        let mut tags = Tags::default();
        let samples = u64::from(self.samples);
        let bits = u16::try_from(self.dtype.bytes() * 8).unwrap_or(0);
        tags.long(254, 0);
        tags.long(256, self.width);
        tags.long(257, self.height);
        tags.shorts(258, bits, samples);
        tags.shorts(259, 1, 1);
        // Colours, or gray values that grow with the brightness.
        tags.shorts(262, if samples > 1 { 2 } else { 1 }, 1);
        tags.offset(273, self.start + n * self.page_bytes, self.offsets);
        tags.shorts(277, self.samples, 1);
        tags.long(278, self.height);
        tags.offset(279, self.page_bytes, self.offsets);
        for (tag, pixels) in [283, 282].into_iter().zip(self.resolution) {
            // One of the two alone has no meaning for most readers.
            tags.fraction(tag, pixels.unwrap_or([1, 1]));
        }
        let is_known = self.resolution.iter().all(Option::is_some);
        tags.shorts(296, if is_known { 3 } else { 1 }, 1);
        if samples > 1 {
            tags.shorts(284, 1, 1);
        }
        if samples == 4 {
            // The fourth sample is the opacity.
            tags.shorts(338, 2, 1);
        }
        tags.shorts(339, self.sample_format, samples);
        tags
    }

    /// The bytes before the pixels. Sets the offset of the pixels.
    fn header(&mut self, description: &str) -> Vec<u8> {
        let start = self.offsets.start();
        let directory = |out: &Self| {
            let mut tags = out.tags(0);
            tags.text(270, description);
            let next = if out.pages > 1 { out.end_at() } else { 0 };
            tags.bytes(start.len() as u64, out.offsets, |_| next)
        };
        // The length of the directory does not depend on the offsets in it.
        let bytes = (start.len() + directory(self).len()).next_multiple_of(ALIGN_BYTES);
        self.start = bytes as u64;
        let mut header = [&start[..], &directory(self)].concat();
        header.resize(bytes, 0);
        header
    }

    /// The offset of the directories of the pages after page 0.
    fn end_at(&self) -> u64 {
        self.pixels_end().next_multiple_of(8)
    }

    fn pixels_end(&self) -> u64 {
        self.start.saturating_add(self.pages.saturating_mul(self.page_bytes))
    }

    /// The number of bytes of the directory of each page but page 0.
    fn directory_bytes(&self) -> u64 {
        self.tags(0).bytes(0, self.offsets, |_| 0).len() as u64
    }

    fn file_bytes(&self) -> u64 {
        self.pixels_end().saturating_add(self.bytes())
    }
}

impl FlatEnd for PagesOut {
    fn bytes(&self) -> u64 {
        let Some(more) = self.pages.checked_sub(1).filter(|more| *more > 0) else { return 0 };
        let directories = more.saturating_mul(self.directory_bytes());
        (self.end_at() - self.pixels_end()).saturating_add(directories)
    }

    fn pieces(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        if self.pages < 2 {
            return Ok(());
        }
        let mut at = self.end_at();
        let padding = usize::try_from(at - self.pixels_end()).map_err(io::Error::other)?;
        let mut piece = vec![0; padding];
        for page in 1..self.pages {
            let is_last = page + 1 == self.pages;
            let next = |length| if is_last { 0 } else { at + length };
            let directory = self.tags(page).bytes(at, self.offsets, next);
            at += directory.len() as u64;
            piece.extend(directory);
            if piece.len() >= PIECE_BYTES || is_last {
                each(&piece)?;
                piece.clear();
            }
        }
        Ok(())
    }
}
