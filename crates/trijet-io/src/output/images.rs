//! An output of one folder with a PNG file for each image of the stack.

use crate::file_error;
use crate::format::Dtype;
use crate::format::images::swap_bytes;
use png::{BitDepth, ColorType, Compression, Encoder, EncodingError};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use trijet::Result;

/// The size and depth of a gray image. PNG stores the sides as 32-bit numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Form {
    /// The number of columns.
    pub width: u32,
    /// The number of rows.
    pub height: u32,
    /// The bits of a sample, 8 or 16.
    pub depth: BitDepth,
}

impl Form {
    pub(super) fn image_bytes(self) -> u64 {
        let sample = if self.depth == BitDepth::Sixteen { Dtype::U16 } else { Dtype::U8 };
        u64::from(self.width) * u64::from(self.height) * sample.bytes()
    }

    /// Encodes `pixels`, whose samples are little-endian, as a PNG file.
    ///
    /// # Errors
    /// When `pixels` does not hold exactly one image.
    pub fn encode(self, pixels: &[u8]) -> std::result::Result<Vec<u8>, EncodingError> {
        let mut file = Vec::new();
        let mut encoder = Encoder::new(&mut file, self.width, self.height);
        encoder.set_color(ColorType::Grayscale);
        encoder.set_depth(self.depth);
        // Images with noise hardly compress, so speed matters more than size.
        encoder.set_compression(Compression::Fast);
        let mut writer = encoder.write_header()?;
        if self.depth == BitDepth::Sixteen {
            let mut swapped = pixels.to_vec();
            swap_bytes(&mut swapped);
            writer.write_image_data(&swapped)?;
        } else {
            writer.write_image_data(pixels)?;
        }
        writer.finish()?;
        Ok(file)
    }
}

#[derive(Debug)]
pub(super) struct Images {
    folder: PathBuf,
    names: Vec<OsString>,
    form: Form,
}

impl Images {
    /// Creates the folder. If it exists, its images are deleted; any other file is an error.
    pub(super) fn create(folder: &Path, names: &[OsString], form: Form) -> Result<Self> {
        let io = |error| file_error::io("create", folder, error);
        match fs::read_dir(folder) {
            Ok(entries) => {
                for entry in entries {
                    let path = entry.map_err(io)?.path();
                    if path.extension().is_none_or(|kind| !kind.eq_ignore_ascii_case("png")) {
                        let cause = "is not partial output of this run; move it elsewhere";
                        return Err(file_error::refused("create", &path, cause));
                    }
                    fs::remove_file(&path)
                        .map_err(|error| file_error::io("create", &path, error))?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir(folder).map_err(io)?;
            }
            Err(error) => return Err(io(error)),
        }
        Ok(Self { folder: folder.to_owned(), names: names.to_vec(), form })
    }

    /// Opens the folder of an earlier run; `None` if it is missing.
    pub(super) fn reopen(folder: &Path, names: &[OsString], form: Form) -> Option<Self> {
        let images = Self { folder: folder.to_owned(), names: names.to_vec(), form };
        folder.is_dir().then_some(images)
    }

    /// Whether the file of image `index` exists.
    pub(super) fn has(&self, index: usize) -> bool {
        self.folder.join(&self.names[index]).is_file()
    }

    /// Writes consecutive whole images; the first one has the number `index`.
    pub(super) fn write(&self, index: usize, bytes: &[u8]) -> Result<()> {
        let image_bytes = usize::try_from(self.form.image_bytes()).expect("`bytes` holds one");
        for (name, image) in self.names[index..].iter().zip(bytes.chunks_exact(image_bytes)) {
            let path = self.folder.join(name);
            let file = self
                .form
                .encode(image)
                .map_err(|error| file_error::damaged("write", &path, error))?;
            fs::write(&path, file).map_err(|error| file_error::io("write", &path, error))?;
        }
        Ok(())
    }
}
