//! The form of the pixels of a page, and the places of its strips or tiles.

use super::directory::{Directory, TiffFile};
use super::refused::refused;
use crate::byte_order::ByteOrder;
use std::path::Path;
use trijet::{Dtype, Result};
use trijet_codecs::Codec;

const WIDTH: u16 = 256;
const HEIGHT: u16 = 257;
const BITS: u16 = 258;
const COMPRESSION: u16 = 259;
const PHOTOMETRIC: u16 = 262;
const FILL_ORDER: u16 = 266;
const STRIP_OFFSETS: u16 = 273;
const SAMPLES: u16 = 277;
const ROWS_PER_STRIP: u16 = 278;
const STRIP_BYTES: u16 = 279;
const PLANAR: u16 = 284;
const PREDICTOR: u16 = 317;
const TILE_WIDTH: u16 = 322;
const TILE_HEIGHT: u16 = 323;
const TILE_OFFSETS: u16 = 324;
const TILE_BYTES: u16 = 325;
const SAMPLE_FORMAT: u16 = 339;

const NONE: u64 = 1;
/// Maximum number of samples of a pixel.
const SAMPLES_MAX: u64 = 65_535;
/// No codec makes a block smaller than by this factor. The largest factor is 128 KiB of zeros in
/// 4 bytes of zstd.
const RATIO_MAX: u64 = 65_536;

/// The element types of the samples, by `SampleFormat` and `BitsPerSample`, as the names of
/// [`Dtype`].
const TYPES: [(u64, u64, &str); 11] = [
    (1, 8, "u8"),
    (1, 16, "u16"),
    (1, 32, "u32"),
    (1, 64, "u64"),
    (2, 8, "i8"),
    (2, 16, "i16"),
    (2, 32, "i32"),
    (2, 64, "i64"),
    (3, 16, "f16"),
    (3, 32, "f32"),
    (3, 64, "f64"),
];

/// The `SampleFormat` of an element type by its name. `None` if TIFF does not have the type.
pub(super) fn sample_format_of(name: &str) -> Option<u16> {
    let (format, ..) = TYPES.into_iter().find(|(.., own)| *own == name)?;
    u16::try_from(format).ok()
}

/// The value of `PlanarConfiguration` for samples in planes of their own.
const PLANES: u64 = 2;

/// The division of a page into stored parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parts {
    /// Strips of this number of rows. The last strip may have fewer.
    Strips { rows: u64 },
    /// Tiles of this size. The tiles at the edges are padded.
    Tiles { width: u64, height: u64 },
}

/// The description of the pixels of a page, as the tags state it. If a directory stores each sample
/// of its pixels in a plane of its own, each plane is a page with one sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageForm {
    pub(super) width: u64,
    pub(super) height: u64,
    pub(super) samples: u64,
    bits: u64,
    sample_format: u64,
    compression: u64,
    predictor: u64,
    planar: u64,
    /// The number of pages of a directory.
    pub(super) planes: u64,
    is_palette: bool,
    is_subsampled: bool,
    fill_order: u64,
    pub(super) parts: Parts,
}

/// The place of a strip or of a tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartPlace {
    pub(super) offset: u64,
    /// The number of stored bytes. `None` if the file does not state it.
    pub(super) bytes: Option<u64>,
}

impl PageForm {
    /// Reads the form of a page.
    pub(super) fn read(tiff: &mut TiffFile<'_>, page: &Directory) -> Result<Self> {
        let mut number = |tag, missing| tiff.number(page, tag, missing);
        let (width, height) = (number(WIDTH, 0)?, number(HEIGHT, 0)?);
        let all = number(SAMPLES, 1)?;
        let planar = if all == 1 { 1 } else { number(PLANAR, 1)? };
        let (planes, samples) = if planar == PLANES { (all, 1) } else { (1, all) };
        let parts = match page.find(TILE_OFFSETS) {
            Some(_) => {
                Parts::Tiles { width: number(TILE_WIDTH, 0)?, height: number(TILE_HEIGHT, 0)? }
            }
            None => Parts::Strips { rows: number(ROWS_PER_STRIP, height)?.min(height) },
        };
        let photometric = number(PHOTOMETRIC, 1)?;
        let form = Self {
            width,
            height,
            samples,
            bits: number(BITS, 1)?,
            // The value 4 means that the format is not stated.
            sample_format: number(SAMPLE_FORMAT, 1)
                .map(|format| if format == 4 { 1 } else { format })?,
            compression: number(COMPRESSION, NONE)?,
            predictor: number(PREDICTOR, 1)?,
            planar,
            planes,
            is_palette: photometric == 3,
            is_subsampled: photometric == 6,
            fill_order: number(FILL_ORDER, 1)?,
            parts,
        };
        if width == 0 || height == 0 || all == 0 || all > SAMPLES_MAX {
            let cause = format!("a page has {height} x {width} pixels of {all} samples");
            return Err(tiff.damaged(cause));
        }
        let (high, wide) = form.part();
        if high == 0 || wide == 0 {
            return Err(tiff.damaged(format!("a page has parts of {high} x {wide} pixels")));
        }
        Ok(form)
    }

    /// The reason why pixels of this form cannot be read. `None` if they can be read.
    pub(super) fn refusal(&self) -> Option<String> {
        let compression = match self.compression {
            NONE | 5 | 8 | 32_773 | 32_946 | 50_000 => None,
            2 => Some("CCITT RLE"),
            3 => Some("CCITT Group 3"),
            4 => Some("CCITT Group 4"),
            6 | 7 | 33_007 | 34_892 => Some("JPEG"),
            33_003 | 33_004 | 33_005 | 34_712 => Some("JPEG 2000"),
            34_887 => Some("LERC"),
            34_925 => Some("LZMA"),
            34_933 => Some("PNG"),
            34_927 | 50_001 => Some("WebP"),
            22_610 | 34_934 => Some("JPEG XR"),
            50_002 | 52_546 => Some("JPEG XL"),
            other => return Some(format!("the pixels have the unknown compression {other}")),
        };
        let of_pixels = |what: &str| Some(format!("the pixels {what}"));
        if let Some(name) = compression {
            return of_pixels(&format!("are compressed with {name}"));
        }
        match self {
            _ if self.is_palette => of_pixels("are indices of a palette"),
            _ if self.is_subsampled => of_pixels("have the colour space YCbCr"),
            _ if !self.bits.is_multiple_of(8) => {
                of_pixels(&format!("are packed samples of {} bits", self.bits))
            }
            _ if self.dtype().is_none() => of_pixels(&format!(
                "are {} of {} bits",
                match self.sample_format {
                    1 => "integers",
                    2 => "signed integers",
                    3 => "floating-point numbers",
                    _ => "complex numbers",
                },
                self.bits
            )),
            _ if !matches!(self.planar, 1 | PLANES) => {
                of_pixels(&format!("have the PlanarConfiguration {}", self.planar))
            }
            _ if self.fill_order != 1 => of_pixels("have reversed bits (FillOrder 2)"),
            _ if !matches!(self.predictor, 1..=3) => {
                of_pixels(&format!("have the predictor {}", self.predictor))
            }
            _ if self.predictor != 1 && self.compression == NONE => {
                of_pixels("have a predictor, but no compression")
            }
            _ if self.predictor == 3 && self.sample_format != 3 => {
                of_pixels("are integers with the predictor of floating-point numbers")
            }
            _ if self.row_bytes().is_none() || self.part_bytes().is_none() => {
                of_pixels("take more bytes than the memory of any machine")
            }
            _ => None,
        }
    }

    /// The type of the samples.
    pub(super) fn dtype(&self) -> Option<Dtype> {
        let own = (self.sample_format, self.bits);
        let (.., name) = TYPES.into_iter().find(|(format, bits, _)| (*format, *bits) == own)?;
        name.parse().ok()
    }

    pub(super) fn is_compressed(&self) -> bool {
        self.compression != NONE
    }

    /// The shape of a page: height, width, and the number of samples if there are several.
    pub(super) fn shape(&self) -> Vec<u64> {
        let mut shape = vec![self.height, self.width];
        shape.extend((self.samples > 1).then_some(self.samples));
        shape
    }

    /// The height and the width of a strip or of a tile.
    pub(super) fn part(&self) -> (u64, u64) {
        match self.parts {
            Parts::Strips { rows } => (rows, self.width),
            Parts::Tiles { width, height } => (height, width),
        }
    }

    /// The number of parts along the height and along the width.
    pub(super) fn counts(&self) -> (u64, u64) {
        let (high, wide) = self.part();
        (self.height.div_ceil(high), self.width.div_ceil(wide))
    }

    /// The number of bytes of `width` pixels.
    fn bytes_of(&self, width: u64) -> Option<u64> {
        width.checked_mul(self.samples)?.checked_mul(self.bits / 8)
    }

    /// The number of bytes of a row of a page. `None` if the number overflows.
    pub(super) fn row_bytes(&self) -> Option<u64> {
        self.bytes_of(self.width)
    }

    /// The number of bytes of the pixels of a whole part. `None` if a part does not fit into
    /// memory.
    pub(super) fn part_bytes(&self) -> Option<u64> {
        let (high, wide) = self.part();
        let bytes = self.bytes_of(wide)?.checked_mul(high)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// The steps that turn the stored bytes of a part into its pixels.
    pub(super) fn codecs(&self, order: ByteOrder) -> Vec<Codec> {
        let mut codecs = Vec::new();
        match self.compression {
            5 => codecs.push(Codec::Lzw),
            8 | 32_946 => codecs.push(Codec::Deflate),
            32_773 => codecs.push(Codec::PackBits),
            50_000 => codecs.push(Codec::Zstd),
            _ => {}
        }
        let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (_, wide) = self.part();
        let (sample, samples) = (to_usize(self.bits / 8), to_usize(self.samples));
        let row = to_usize(self.bytes_of(wide).unwrap_or(0));
        // The planes of bytes of the predictor of floating-point numbers start with the highest
        // bytes in files of both orders.
        if self.predictor == 3 {
            codecs.push(Codec::FloatPredictor { sample, samples, row });
        } else if order == ByteOrder::Big && sample > 1 {
            codecs.push(Codec::Swap { element: sample });
        }
        if self.predictor == 2 {
            codecs.push(Codec::HorizontalPredictor { sample, samples, row });
        }
        codecs
    }

    /// Adds the places of the parts of the pages of a directory to `into`. `budget` is the number
    /// of bytes that the places of the remaining pages can take in the file.
    pub(super) fn places(
        &self,
        tiff: &mut TiffFile<'_>,
        page: &Directory,
        budget: &mut u64,
        into: &mut Vec<PartPlace>,
    ) -> Result<()> {
        let (offsets, bytes) = match self.parts {
            Parts::Strips { .. } => (STRIP_OFFSETS, STRIP_BYTES),
            Parts::Tiles { .. } => (TILE_OFFSETS, TILE_BYTES),
        };
        let (down, across) = self.counts();
        let wanted = down.checked_mul(across).and_then(|parts| parts.checked_mul(self.planes));
        let wanted = wanted.filter(|wanted| *wanted <= tiff.bytes());
        let Some(entry) = page.find(offsets) else {
            return Err(tiff.damaged("a page does not state where its pixels are"));
        };
        let Some(wanted) = wanted.filter(|wanted| entry.count >= *wanted) else {
            let planes = if self.planes == 1 { "" } else { " of each plane" };
            let cause =
                format!("a page states {} places for {down} x {across} parts{planes}", entry.count);
            return Err(tiff.damaged(cause));
        };
        // Several pages could name one list of places, and take much memory for a small file.
        match budget.checked_sub(entry.count) {
            Some(rest) => *budget = rest,
            None => return Err(tiff.damaged("the pages have more strips than the file has bytes")),
        }
        let offsets = tiff.numbers(entry)?;
        let counts = page.find(bytes).map(|entry| tiff.numbers(entry)).transpose()?;
        let counts = counts.filter(|counts| counts.len() >= offsets.len());
        let count_of = |part: usize| counts.as_ref().map(|counts| counts[part]);
        let from = into.len();
        let places = offsets.iter().enumerate();
        let places = places.map(|(part, &offset)| PartPlace { offset, bytes: count_of(part) });
        into.extend(places.take(usize::try_from(wanted).unwrap_or(usize::MAX)));
        self.check(tiff, &into[from..])
    }

    /// Checks that the parts of the pages of a directory are in the file.
    fn check(&self, tiff: &TiffFile<'_>, places: &[PartPlace]) -> Result<()> {
        let bytes = self.part_bytes().unwrap_or(u64::MAX);
        let (down, across) = self.counts();
        for (part, place) in (0..down.saturating_mul(across)).cycle().zip(places) {
            let plain = self.plain_bytes(part);
            if place.is_left_out() {
                continue;
            }
            let stored = if self.is_compressed() { place.bytes } else { Some(plain) };
            let is_short = place.bytes.is_some_and(|bytes| match self.is_compressed() {
                true => self.part_bytes_exceed(bytes),
                false => bytes < plain,
            });
            let end = stored.and_then(|stored| place.offset.checked_add(stored));
            if is_short || end.is_none_or(|end| end > tiff.bytes()) {
                let has = match place.bytes {
                    Some(bytes) => format!("{bytes} bytes"),
                    None => "an unknown number of bytes".to_owned(),
                };
                let cause = format!(
                    "the file is cut off or damaged: a part of {bytes} bytes of pixels has {has} at \
                     byte {} of {}",
                    place.offset,
                    tiff.bytes()
                );
                return Err(tiff.damaged(cause));
            }
        }
        Ok(())
    }

    /// Whether no codec could store a part in `stored` bytes.
    fn part_bytes_exceed(&self, stored: u64) -> bool {
        let most = stored.saturating_mul(RATIO_MAX).saturating_add(RATIO_MAX);
        self.part_bytes().is_none_or(|bytes| bytes > most)
    }

    /// The number of bytes of the pixels of a part without compression.
    pub(super) fn plain_bytes(&self, part: u64) -> u64 {
        let rows = match self.parts {
            Parts::Strips { rows } => {
                rows.min(self.height.saturating_sub(part.saturating_mul(rows)))
            }
            Parts::Tiles { height, .. } => height,
        };
        let (_, wide) = self.part();
        self.bytes_of(wide).and_then(|row| row.checked_mul(rows)).unwrap_or(u64::MAX)
    }

    /// The message for pages that do not have one form.
    pub(super) fn refuse_others(path: &Path, page: u64) -> trijet::Error {
        let cause = format!(
            "page {page} has another size, type or compression than page 0; all pages must have one \
             form"
        );
        refused(path, cause)
    }
}

impl PartPlace {
    /// Whether a part has no bytes, so that its pixels are 0.
    pub(super) fn is_left_out(self) -> bool {
        self.offset == 0 && self.bytes == Some(0)
    }
}
