//! A folder of gray PNG images of one size and depth (8 or 16 bits), read as one stack.
//!
//! The order of the images is the byte order of their names. Chunks hold whole images, because a
//! PNG file can only be decoded as a whole. PNG stores 16-bit samples big-endian; rows are
//! little-endian.

use super::array::{Array, Dtype};
use super::flat::open_regular;
use super::state::InputState;
use crate::file_error;
use png::{BitDepth, ColorType, Decoder, DecodingError};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trijet::{Error, Result};

#[derive(Debug)]
pub(super) struct Images {
    folder: PathBuf,
    pub(super) names: Vec<OsString>,
    form: Form,
}

/// The size and the element type that all images of a folder share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    width: u32,
    height: u32,
    dtype: Dtype,
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{} {}", self.width, self.height, self.dtype)
    }
}

impl Images {
    /// Reads the header of every image.
    pub(super) fn open(folder: &Path) -> Result<(Self, Array, InputState)> {
        let names = png_names(folder).map_err(|error| file_error::io("open", folder, error))?;
        let Some(first) = names.first() else {
            return Err(file_error::refused("open", folder, "the folder has no .png file"));
        };
        let (form, metadata) = header(&folder.join(first))?;
        let mut state = InputState::of(folder, &metadata);
        for name in &names[1..] {
            let (other, metadata) = header(&folder.join(name))?;
            if other != form {
                let first = first.display();
                let cause = format!(
                    "is {other}, but {first} is {form}: all images must have one size and depth"
                );
                return Err(file_error::refused("open", &folder.join(name), cause));
            }
            state.add(&metadata);
        }
        let count = names.len() as u64;
        let shape = vec![count, u64::from(form.height), u64::from(form.width)];
        let array = Array::new(form.dtype, shape)
            .map_err(|error| error.context(format!("open {}", folder.display())))?;
        Ok((Self { folder: folder.to_owned(), names, form }, array, state))
    }

    /// The height of an image: chunks hold whole images.
    pub(super) fn granule(&self) -> u64 {
        u64::from(self.form.height)
    }

    pub(super) fn read(&self, rows: &Range<u64>, into: &mut [u8]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let height = self.granule();
        let whole = rows.start.is_multiple_of(height) && rows.end.is_multiple_of(height);
        assert!(whole, "chunks hold whole images");
        let first = usize::try_from(rows.start / height).expect("an index of `names`");
        let count = usize::try_from((rows.end - rows.start) / height).expect("fits in memory");
        let bytes = into.len() / count;
        for (name, image) in self.names[first..].iter().zip(into.chunks_exact_mut(bytes)) {
            self.decode(&self.folder.join(name), image)?;
        }
        Ok(())
    }

    fn decode(&self, path: &Path, into: &mut [u8]) -> Result<()> {
        let (file, _) = open_regular(path)?;
        let damaged = |error| decoding("read", path, error);
        let mut reader = Decoder::new(BufReader::new(file)).read_info().map_err(damaged)?;
        // The file may have been replaced since it was opened.
        if form_of("read", path, reader.info())? != self.form {
            let cause = format!("the file has changed: it was {} when it was opened", self.form);
            return Err(file_error::damaged("read", path, cause));
        }
        reader.next_frame(into).map_err(damaged)?;
        reader.finish().map_err(damaged)?;
        if self.form.dtype == Dtype::U16 {
            swap_bytes(into);
        }
        Ok(())
    }
}

/// Converts 16-bit samples between big and little endian.
pub(crate) fn swap_bytes(samples: &mut [u8]) {
    for sample in samples.chunks_exact_mut(2) {
        sample.swap(0, 1);
    }
}

fn png_names(folder: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        if Path::new(&name).extension().is_some_and(|kind| kind.eq_ignore_ascii_case("png")) {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

fn header(path: &Path) -> Result<(Form, fs::Metadata)> {
    let (file, metadata) = open_regular(path)?;
    let mut decoder: Decoder<BufReader<File>> = Decoder::new(BufReader::new(file));
    let info = decoder.read_header_info().map_err(|error| decoding("open", path, error))?;
    Ok((form_of("open", path, info)?, metadata))
}

fn form_of(op: &'static str, path: &Path, info: &png::Info<'_>) -> Result<Form> {
    let colour = match info.color_type {
        ColorType::Grayscale => None,
        ColorType::GrayscaleAlpha => Some("a gray image with transparency"),
        ColorType::Indexed => Some("a palette image"),
        ColorType::Rgb => Some("a colour image (RGB)"),
        ColorType::Rgba => Some("a colour image (RGB with transparency)"),
    };
    if let Some(colour) = colour {
        return Err(file_error::refused(
            op,
            path,
            format!("is {colour}; only gray images are supported"),
        ));
    }
    let dtype = match info.bit_depth {
        BitDepth::Eight => Dtype::U8,
        BitDepth::Sixteen => Dtype::U16,
        few => {
            let cause = format!("has {} bits per pixel; only 8 and 16 are supported", few as u8);
            return Err(file_error::refused(op, path, cause));
        }
    };
    Ok(Form { width: info.width, height: info.height, dtype })
}

fn decoding(op: &'static str, path: &Path, error: DecodingError) -> Error {
    match error {
        DecodingError::IoError(error) => file_error::io(op, path, error),
        error => file_error::damaged(op, path, format!("damaged PNG: {error}")).caused_by(error),
    }
}
