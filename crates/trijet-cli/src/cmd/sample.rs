//! `trijet sample`: writes a file for trials of the other commands.
#![forbid(unsafe_code)]

use super::print;
use crate::args::SampleOptions;
use crate::micrograph::Micrograph;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use trijet::{Bytes, Result};
use trijet_io::{Array, Dtype, NewFile, shown};

/// The seed is fixed, so that the images are the same in every run.
const SEED: u64 = 20_251_126;

/// Writes the pixels of all images, row by row.
fn write_images(options: &SampleOptions, file: &mut File, header: &[u8]) -> io::Result<()> {
    let (side, width) = (u64::from(options.side), options.side as usize);
    let images = Micrograph::new(width, side, SEED);
    let mut file = BufWriter::with_capacity(1 << 20, file);
    file.write_all(header)?;
    let (mut narrow, mut wide) = (vec![0_u8; width], vec![0_u16; width]);
    for row in 0..options.images.saturating_mul(side) {
        match options.dtype {
            Dtype::U8 => {
                images.fill_u8(row..row + 1, &mut narrow);
                file.write_all(&narrow)?;
            }
            _ => {
                images.fill(row..row + 1, &mut wide);
                // The bytes of each number are in the byte order of this processor. The header
                // states the same order.
                file.write_all(bytemuck::cast_slice(&wide))?;
            }
        }
    }
    file.flush()
}

/// Writes a generated stack of images.
pub(crate) fn run(options: &SampleOptions) -> Result<()> {
    let side = u64::from(options.side);
    let array = Array::new(options.dtype, vec![options.images, side, side])?;
    let file = NewFile::new("sample", &options.file, options.overwrite.existing(), &[])?;
    file.write(|file| write_images(options, file, &array.npy_header()))?;
    let name = shown(&options.file);
    print(format_args!(
        "{name}: {array}, {} of noisy micrographs. Try: trijet map {name} -o clean.npy --op median:3",
        Bytes(array.bytes())
    ))
}
