//! Gray images as PNG files.

use crate::elements::swap_in_place;
use png::{BitDepth, ColorType, Compression, Encoder, EncodingError};

/// Encodes a gray image of `width` by `height` pixels. A pixel has a byte, or with `is_wide` two,
/// the lower one first.
///
/// ```
/// let file = trijet_codecs::gray_png(2, 1, true, &[1, 0, 2, 0])?;
/// assert!(file.starts_with(b"\x89PNG"));
/// assert!(trijet_codecs::gray_png(2, 1, true, &[1, 0]).is_err());
/// # Ok::<(), png::EncodingError>(())
/// ```
///
/// # Errors
/// If `pixels` is not exactly one image.
pub fn gray_png(
    width: u32,
    height: u32,
    is_wide: bool,
    pixels: &[u8],
) -> Result<Vec<u8>, EncodingError> {
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, width, height);
    encoder.set_color(ColorType::Grayscale);
    encoder.set_depth(if is_wide { BitDepth::Sixteen } else { BitDepth::Eight });
    // Images with noise hardly compress, so speed matters more than size.
    encoder.set_compression(Compression::Fast);
    let mut writer = encoder.write_header()?;
    if is_wide {
        // The samples of PNG have the higher byte first.
        let mut swapped = pixels.to_vec();
        swap_in_place(2, &mut swapped);
        writer.write_image_data(&swapped)?;
    } else {
        writer.write_image_data(pixels)?;
    }
    writer.finish()?;
    Ok(file)
}
