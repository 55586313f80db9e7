//! Writers of small test files.

use png::{BitDepth, ColorType};
use std::fs;
use std::path::Path;

/// An `.npy` file of version 1.0 with the given dictionary.
pub(crate) fn npy(dictionary: &str, data: &[u8]) -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend(u16::try_from(dictionary.len()).unwrap().to_le_bytes());
    file.extend(dictionary.as_bytes());
    file.extend(data);
    file
}

pub(crate) fn dictionary(descr: &str, fortran: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n")
}

/// Writes a PNG file; `pixels` are in the order of the format, 16 bits big-endian.
pub(crate) fn png(path: &Path, size: [u32; 2], form: (ColorType, BitDepth), pixels: &[u8]) {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, size[0], size[1]);
    encoder.set_color(form.0);
    encoder.set_depth(form.1);
    if form.0 == ColorType::Indexed {
        encoder.set_palette(vec![0, 0, 0, 255, 255, 255]);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(pixels).unwrap();
    writer.finish().unwrap();
    fs::write(path, file).unwrap();
}

pub(crate) const GRAY8: (ColorType, BitDepth) = (ColorType::Grayscale, BitDepth::Eight);
pub(crate) const GRAY16: (ColorType, BitDepth) = (ColorType::Grayscale, BitDepth::Sixteen);
