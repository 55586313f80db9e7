//! Small gray pictures of a part of an image, which show a result or its wrong pixels.

use std::io::Write;
use trijet::{Error, ErrorKind, Result};
use trijet_io::format::Form;
use trijet_io::{Dtype, NewFile, file_error};

/// The contrast stretch makes 1 / `CLIPPED` of the pixels black, and the same number white.
const CLIPPED: usize = 200;
/// The brightest gray of a correct pixel. Wrong pixels are white, so they stand out.
const DIMMED: usize = 110;

/// The pixels of an image, row by row.
#[derive(Debug, Clone, Copy)]
pub enum Pixels<'a> {
    /// 8 bits.
    U8(&'a [u8]),
    /// 16 bits.
    U16(&'a [u16]),
}

impl Pixels<'_> {
    fn len(&self) -> usize {
        match self {
            Self::U8(pixels) => pixels.len(),
            Self::U16(pixels) => pixels.len(),
        }
    }

    fn at(&self, index: usize) -> u16 {
        match self {
            Self::U8(pixels) => u16::from(pixels[index]),
            Self::U16(pixels) => pixels[index],
        }
    }
}

/// A part of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crop {
    /// The first column.
    pub left: usize,
    /// The first row.
    pub top: usize,
    /// The number of columns.
    pub width: usize,
    /// The number of rows.
    pub height: usize,
}

impl Crop {
    /// The indices of the pixels of this part, in an image that is `width` pixels wide.
    fn indices(self, pixels: &Pixels<'_>, width: usize) -> Result<Vec<usize>> {
        let inside = self.left.checked_add(self.width).is_some_and(|right| right <= width)
            && self.width > 0
            && self.height > 0
            && self
                .top
                .checked_add(self.height)
                .and_then(|bottom| bottom.checked_mul(width))
                .is_some_and(|end| end <= pixels.len());
        if !inside {
            let cause = format!("{self:?} is not inside of {} pixels, {width} wide", pixels.len());
            return Err(Error::new(ErrorKind::InvalidValue, "picture", cause));
        }
        let rows = self.top..self.top + self.height;
        Ok(rows
            .flat_map(|row| {
                let start = row * width + self.left;
                start..start + self.width
            })
            .collect())
    }
}

/// Writes the part `crop` of an image that is `width` pixels wide as an 8-bit PNG. The contrast is
/// stretched: half a percent of the pixels of the part become black, and half a percent white.
///
/// # Errors
/// `InvalidValue` when the part is empty or not inside the image, `Io` when the file cannot be
/// written.
pub fn write(target: &NewFile, pixels: Pixels<'_>, width: usize, crop: Crop) -> Result<()> {
    let indices = crop.indices(&pixels, width)?;
    let values: Vec<u16> = indices.iter().map(|&index| pixels.at(index)).collect();
    store(target, crop, &stretch(&values, 255))
}

/// Writes a picture of the differences between `result` and `reference` in the part `crop`. Pixels
/// that differ are white. All other pixels are the dimmed pixels of the reference. Returns the
/// number of differing pixels in this part.
///
/// # Errors
/// Errors of [`write()`], and `InvalidValue` when the two images have different lengths.
pub fn write_difference(
    target: &NewFile,
    result: Pixels<'_>,
    reference: Pixels<'_>,
    width: usize,
    crop: Crop,
) -> Result<usize> {
    if result.len() != reference.len() {
        let cause =
            format!("the result has {} pixels, the reference {}", result.len(), reference.len());
        return Err(Error::new(ErrorKind::InvalidValue, "picture", cause));
    }
    let indices = crop.indices(&reference, width)?;
    let values: Vec<u16> = indices.iter().map(|&index| reference.at(index)).collect();
    let mut gray = stretch(&values, DIMMED);
    let mut different = 0;
    for ((gray, &index), &value) in gray.iter_mut().zip(&indices).zip(&values) {
        if result.at(index) != value {
            *gray = 255;
            different += 1;
        }
    }
    store(target, crop, &gray)?;
    Ok(different)
}

/// Maps the values between two quantiles linearly to 0..=`brightest`.
fn stretch(values: &[u16], brightest: usize) -> Vec<u8> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let clipped = values.len() / CLIPPED;
    let low = usize::from(sorted[clipped]);
    let span = usize::from(sorted[sorted.len() - 1 - clipped]) - low;
    let gray = |&value: &u16| {
        let above = usize::from(value).saturating_sub(low).min(span);
        u8::try_from(above * brightest / span.max(1)).expect("at most `brightest`")
    };
    values.iter().map(gray).collect()
}

fn store(target: &NewFile, crop: Crop, gray: &[u8]) -> Result<()> {
    let path = target.path();
    let side = |side: usize| {
        u32::try_from(side).map_err(|_| {
            file_error::refused("picture", path, "a side has more than 2^32 - 1 pixels")
        })
    };
    let form = Form { width: side(crop.width)?, height: side(crop.height)?, dtype: Dtype::U8 };
    let file = form.encode(gray).map_err(|error| file_error::damaged("picture", path, error))?;
    target.write(|into| into.write_all(&file))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use trijet::Source;
    use trijet_io::{Existing, Input};

    fn target(folder: &Path, name: &str) -> NewFile {
        NewFile::new("picture", &folder.join(name), Existing::Kept, &[]).unwrap()
    }

    #[test]
    fn a_picture_shows_the_part_with_full_contrast() {
        let workdir = tempfile::tempdir().unwrap();
        let folder = workdir.path();
        let image: Vec<u16> = (0..20).map(|n| 1_000 + 10 * n).collect();
        let crop = Crop { left: 1, top: 1, width: 3, height: 2 };
        write(&target(folder, "a.png"), Pixels::U16(&image), 5, crop).unwrap();
        let mut result = image.clone();
        result[7] += 1;
        result[0] += 1;
        let count = write_difference(
            &target(folder, "b.png"),
            Pixels::U16(&result),
            Pixels::U16(&image),
            5,
            crop,
        );
        assert_eq!(count.unwrap(), 1, "the pixel outside of the part is not counted");
        let read = Input::open(folder, None).unwrap();
        let mut pixels = [0; 12];
        read.read(0..4, &mut pixels).unwrap();
        assert_eq!(pixels[..6], [0, 36, 72, 182, 218, 255]);
        assert_eq!(pixels[6..], [0, 255, 31, 78, 94, 110]);
    }

    #[test]
    fn a_picture_needs_pixels() {
        let workdir = tempfile::tempdir().unwrap();
        let pixels = [0; 20];
        let whole = Crop { left: 0, top: 0, width: 5, height: 4 };
        for crop in [
            Crop { left: 1, ..whole },
            Crop { top: 1, ..whole },
            Crop { width: 0, ..whole },
            Crop { top: usize::MAX, ..whole },
        ] {
            let picture = target(workdir.path(), "a.png");
            let written = write(&picture, Pixels::U8(&pixels), 5, crop);
            let error = written.expect_err("the part is not inside");
            assert_eq!(error.kind(), ErrorKind::InvalidValue);
            assert!(error.to_string().contains("of 20 pixels, 5 wide"), "{error}");
        }
    }
}
