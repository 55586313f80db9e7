//! Images as files: lists the files of a folder, draws images into a folder, and decodes images.

use crate::common::{Outcome, sample};
use png::{BitDepth, ColorType, Decoder, Encoder, Transformations};
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

/// The widths and heights of the drawn images. The first image has 16 patches and the last one 64.
const SIZES: [(u32, u32); 10] = [
    (16, 16),
    (96, 80),
    (37, 61),
    (128, 96),
    (11, 150),
    (33, 31),
    (200, 120),
    (64, 48),
    (75, 75),
    (64, 64),
];

/// The PNG files of a folder, sorted by name.
pub(crate) fn of_folder(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "png"));
    paths.sort();
    Ok(paths)
}

/// Draws an image of each size. The images show noise, a disk on a ramp, stripes, black, or one
/// colour. Every third image is gray.
pub(crate) fn draw(folder: &Path) -> Outcome<()> {
    for (number, (width, height)) in SIZES.into_iter().enumerate() {
        let is_gray = number % 3 == 2;
        let file = File::create(folder.join(format!("image-{number:02}.png")))?;
        let mut encoder = Encoder::new(file, width, height);
        encoder.set_color(if is_gray { ColorType::Grayscale } else { ColorType::Rgb });
        encoder.set_depth(BitDepth::Eight);
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let colours = pixels.map(|(x, y)| colour(number, (x, y), (width, height)));
        let bytes: Vec<u8> = match is_gray {
            true => colours.map(|[r, ..]| r).collect(),
            false => colours.flatten().collect(),
        };
        encoder.write_header()?.write_image_data(&bytes)?;
    }
    Ok(())
}

fn colour(number: usize, (x, y): (u32, u32), (width, height): (u32, u32)) -> [u8; 3] {
    let byte = |value: u32| u8::try_from(value % 256).expect("a byte");
    match number % 5 {
        0 => {
            let noise =
                (x.wrapping_mul(2_654_435_761) ^ y.wrapping_mul(2_246_822_519)).wrapping_mul(31);
            [byte(noise >> 7), byte(noise >> 13), byte(noise >> 21)]
        }
        1 => {
            let is_inside = (2 * x).abs_diff(width).pow(2) + (2 * y).abs_diff(height).pow(2)
                < (width.min(height) / 2).pow(2);
            let ramp = 255 * x / width;
            if is_inside { [230, 40, byte(ramp)] } else { [byte(ramp), byte(255 * y / height), 90] }
        }
        2 => {
            if (x / 5 + y / 9) % 2 == 0 {
                [255; 3]
            } else {
                [byte(3 * y); 3]
            }
        }
        3 => [0; 3],
        _ => [20, 200, 250],
    }
}

/// The width, the height and the RGB bytes of an image. Transparency is ignored.
pub(crate) fn decode(path: &Path) -> Result<(u32, u32, Vec<u8>), png::DecodingError> {
    let mut decoder = Decoder::new(BufReader::new(File::open(path)?));
    decoder.set_transformations(Transformations::normalize_to_color8());
    let mut reader = decoder.read_info()?;
    let bytes = reader.output_buffer_size().ok_or(png::DecodingError::LimitsExceeded)?;
    let mut pixels = vec![0; bytes];
    let info = reader.next_frame(&mut pixels)?;
    let samples = info.color_type.samples();
    let rgb = pixels[..info.buffer_size()].chunks_exact(samples);
    let rgb = rgb.flat_map(|p| if samples < 3 { [p[0]; 3] } else { [p[0], p[1], p[2]] });
    Ok((info.width, info.height, rgb.collect()))
}

/// The query of image `number`: a number from -1 to 1 for each channel.
pub(crate) fn query(number: usize) -> [f32; crate::texture::CHANNELS] {
    std::array::from_fn(|channel| (sample(37 * number + 101 * channel + 300) - 510.0) / 510.0)
}
