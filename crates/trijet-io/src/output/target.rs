//! The description of an output: its path, its array and its format.

use super::images::Form;
use super::place::Place;
use crate::file_error;
use crate::format::npy::header_bytes;
use crate::format::{Array, Dtype, Input, Kind};
use png::BitDepth;
use std::ffi::OsString;
use std::ops::Range;
use std::path::Path;
use trijet::Result;
use trijet::pipeline::Layout;

/// A description of an output, before anything is written.
#[derive(Debug, Clone)]
pub struct Target {
    pub(super) place: Place,
    pub(super) array: Array,
    pub(super) style: Style,
}

/// The format, with its parameters.
#[derive(Debug, Clone)]
pub(super) enum Style {
    Npy,
    Raw,
    Images { form: Form, names: Vec<OsString> },
}

impl Target {
    /// Describes an output of `array` at `path`. The name determines the format: `.npy`, a folder
    /// of images for a name without an extension, and a raw file for any other name. Images have
    /// the names of the input's images.
    ///
    /// # Errors
    /// `InvalidValue` when something exists at `path`, when it is the input or lies inside of it,
    /// and when the array cannot be written in that format. `Io` when the folder of `path` is
    /// missing or cannot be read.
    pub fn new(path: &Path, array: Array, input: &Input) -> Result<Self> {
        let place = Place::new(path)?;
        place.check(input)?;
        let style = match place.out.extension() {
            Some(kind) if kind.eq_ignore_ascii_case("npy") => Style::Npy,
            Some(kind) if kind.eq_ignore_ascii_case("png") => {
                let cause = "images are written to a folder; use a name without .png";
                return Err(file_error::refused("create", path, cause));
            }
            Some(_) => Style::Raw,
            None => images_style(path, &array, input.names())?,
        };
        Ok(Self { place, array, style })
    }

    /// The final path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.place.out
    }

    /// The array that is written.
    #[must_use]
    pub fn array(&self) -> &Array {
        &self.array
    }

    /// The format.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self.style {
            Style::Npy => Kind::Npy,
            Style::Raw => Kind::Raw,
            Style::Images { .. } => Kind::Images,
        }
    }

    /// The rows of the output.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.array.layout().granule(self.granule())
    }

    /// The number of rows of which chunks must hold a multiple: the height of an image for images,
    /// otherwise 1.
    #[must_use]
    pub fn granule(&self) -> u64 {
        match &self.style {
            Style::Npy | Style::Raw => 1,
            Style::Images { form, .. } => u64::from(form.height),
        }
    }

    /// The bytes of the file before its data.
    pub(super) fn header(&self) -> Vec<u8> {
        if matches!(self.style, Style::Npy) { header_bytes(&self.array) } else { Vec::new() }
    }

    /// The indices of the images that hold `rows`.
    pub(super) fn images_of(&self, rows: &Range<u64>) -> Range<usize> {
        let index = |row: u64| usize::try_from(row / self.granule()).expect("an index of names");
        index(rows.start)..index(rows.end)
    }
}

fn images_style(path: &Path, array: &Array, names: &[OsString]) -> Result<Style> {
    let refused = |cause: String| Err(file_error::refused("create", path, cause));
    let depth = match array.dtype() {
        Dtype::U8 => BitDepth::Eight,
        Dtype::U16 => BitDepth::Sixteen,
        Dtype::F32 => return refused(format!("PNG images cannot hold {array}; use .npy")),
    };
    let Some((width, height, count)) = array.image() else {
        return refused(format!("{array} is not an image or a stack of images; use .npy"));
    };
    // The specification of PNG limits a side to 2^31 - 1 pixels.
    let side = |side: u64| u32::try_from(side).ok().filter(|side| (1..1 << 31).contains(side));
    let (Some(width), Some(height)) = (side(width), side(height)) else {
        return refused(format!("a PNG image cannot have {width}x{height} pixels; use .npy"));
    };
    let names = if names.len() as u64 == count {
        names.to_vec()
    } else {
        let digits = count.saturating_sub(1).to_string().len().max(6);
        (0..count).map(|n| OsString::from(format!("{n:0digits$}.png"))).collect()
    };
    Ok(Style::Images { form: Form { width, height, depth }, names })
}
