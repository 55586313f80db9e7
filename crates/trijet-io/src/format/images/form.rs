//! The size and the element type of gray PNG images. The 16-bit samples of a PNG file are
//! big-endian, and the samples of rows in memory are little-endian.

use crate::file_error;
use png::{BitDepth, ColorType, DecodingError, EncodingError};
use std::error::Error as _;
use std::path::Path;
use std::{fmt, io};
use trijet::Dtype;
use trijet::{Error, Result};
use trijet_codecs::gray_png;

/// The size and the element type of a gray image. PNG stores width and height as 32-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The number of columns.
    pub width: u32,
    /// The number of rows.
    pub height: u32,
    /// The type of the pixels, u8 or u16.
    pub dtype: Dtype,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{} {}", self.width, self.height, self.dtype)
    }
}

impl Form {
    /// The form that the header `info` of the image at `path` describes.
    pub(super) fn of(op: &'static str, path: &Path, info: &png::Info<'_>) -> Result<Self> {
        let colour = match info.color_type {
            ColorType::Grayscale => None,
            ColorType::GrayscaleAlpha => Some("a gray image with transparency"),
            ColorType::Indexed => Some("a palette image"),
            ColorType::Rgb => Some("a colour image (RGB)"),
            ColorType::Rgba => Some("a colour image (RGB with transparency)"),
        };
        if let Some(colour) = colour {
            let cause = format!("is {colour}; only gray images are supported");
            return Err(file_error::refused(op, path, cause));
        }
        let dtype = match info.bit_depth {
            BitDepth::Eight => Dtype::U8,
            BitDepth::Sixteen => Dtype::U16,
            few => {
                let cause =
                    format!("has {} bits per pixel; only 8 and 16 are supported", few as u8);
                return Err(file_error::refused(op, path, cause));
            }
        };
        Ok(Self { width: info.width, height: info.height, dtype })
    }

    pub(super) fn image_bytes(self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * self.dtype.bytes()
    }

    /// Encodes `pixels` as a PNG file. The samples of `pixels` are little-endian.
    ///
    /// # Errors
    /// If `pixels` is not exactly one image.
    pub fn encode(self, pixels: &[u8]) -> std::result::Result<Vec<u8>, EncodingError> {
        gray_png(self.width, self.height, self.dtype == Dtype::U16, pixels)
    }
}

/// The error for a file that cannot be decoded.
pub(super) fn decoding(op: &'static str, path: &Path, error: DecodingError) -> Error {
    match (damage(&error), error) {
        (Some(damage), error) => file_error::damaged(op, path, damage).caused_by(error),
        (None, DecodingError::IoError(error)) => file_error::io(op, path, error),
        (None, error) => file_error::damaged(op, path, &error).caused_by(error),
    }
}

/// A description of the damage of a file. `None` if the error does not mean that the file is
/// damaged.
fn damage(error: &DecodingError) -> Option<String> {
    match error {
        DecodingError::IoError(error) => {
            let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
            is_cut.then(|| "the file ends early".to_owned())
        }
        DecodingError::Parameter(_) => None,
        // Some messages of the decoder end with a full stop.
        error => Some(format!("damaged PNG: {}", error.to_string().trim_end_matches('.'))),
    }
}

/// A description of the damage of an image. `None` if the error does not mean that the image is
/// damaged.
pub(super) fn damage_of(error: &Error) -> Option<String> {
    damage(error.source()?.downcast_ref()?)
}

/// Whether an error means that an image of an input is damaged.
/// [`Input::skipping_damaged`](crate::Input::skipping_damaged) skips such an image.
#[must_use]
pub fn is_damaged_image(error: &Error) -> bool {
    damage_of(error).is_some()
}
