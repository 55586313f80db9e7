//! The Mandelbrot set in tiles: independent tasks whose lengths differ. Neighbouring tiles have
//! similar lengths.

use trijet::kernels::{ArgBlock, Write};
use trijet::workers::{Body, Kinds, Program, ProgramSpec, Worker};

/// The kinds of tasks of [`MANDELBROT`]. There is one kind.
#[derive(Debug, Clone, Copy)]
pub struct Tiles;

impl Kinds for Tiles {
    const KINDS: &'static [(&'static str, Body)] = &[("tile", tile)];
}

/// The number of pixels along a side of a tile.
const SIDE: usize = 16;

/// The number of tiles of a square image of `width` pixels.
#[must_use]
pub const fn tiles(width: u32) -> u32 {
    (width / 16) * (width / 16)
}

/// The number of iterations of a pixel in a square image of `width` pixels; at most `limit`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "the kernel converts the same way")]
pub fn iterations(px: u32, py: u32, width: u32, limit: u32) -> u32 {
    let d = 3.0 / width as f32;
    let (cx, cy) = (-2.0 + px as f32 * d, -1.5 + py as f32 * d);
    let (mut x, mut y) = (0.0_f32, 0.0_f32);
    for k in 0..limit {
        let (xx, yy) = (x * x, y * y);
        if xx + yy > 4.0 {
            return k;
        }
        (x, y) = (xx - yy + cx, 2.0 * x * y + cy);
    }
    limit
}

fn tile(w: &mut Worker<'_>, payload: u64) {
    let (counts, width, limit) = (w.shared::<u32>(0), w.scalar::<u32>(2), w.scalar::<u32>(3));
    let (tiles, number) = (width as usize / SIDE, payload as u32 as usize);
    for at in 0..SIDE * SIDE {
        let (px, py) = (number % tiles * SIDE + at % SIDE, number / tiles * SIDE + at / SIDE);
        let pixel = py * width as usize + px;
        if pixel < counts.len() {
            counts.set(pixel, iterations(px as u32, py as u32, width, limit));
        }
    }
}

fn check(args: &ArgBlock) -> Result<(), String> {
    let (pixels, width) = (args.spans()[0].elements, u64::from(args.scalar::<u32>(2)));
    if width == 0 || !width.is_multiple_of(SIDE as u64) || pixels != width * width {
        return Err(format!("{pixels} pixels; the square of {width}, a multiple of 16, is needed"));
    }
    Ok(())
}

/// The parameters of [`MANDELBROT`].
pub type MandelbrotParams = (Write<u32>, u32, u32);

/// Counts, for each pixel of a square image, the iterations until the point leaves a circle. Its
/// arguments are `(&mut counts, width, limit)`. The workers are blocks. Each task computes one
/// tile, and [`tiles`] returns the number of tiles.
pub static MANDELBROT: Program<Tiles, MandelbrotParams> = {
    let (bodies, parameters) =
        (include_str!("mandelbrot.cu"), "u32* counts, u64 pixels, u32 width, u32 limit");
    let spec =
        ProgramSpec::new("mandelbrot", bodies, parameters).blocks(256).blocks_min(8).check(check);
    // SAFETY: for any payload, a thread atomically writes only its own pixel of its own tile, and
    // only if the image has this pixel.
    unsafe { Program::declare(spec) }
};
