//! A generated stack of noisy micrographs, as a typical input of a median filter.
//!
//! The images show a lattice of atoms on slowly varying blobs, with shot noise and a few dead and
//! hot pixels. A pixel depends only on the seed, its row and its column, so that several threads
//! can each fill some rows of a stack.
//!
//! The smooth signal and the strength of its noise come from a small tile. The noise comes from one
//! hash per pixel. The sum of four bytes of the hash has nearly a normal distribution (Irwin-Hall).
//! Another 16 bits of the hash choose the damaged pixels.

use std::f32::consts::TAU;
use std::fmt;
use std::ops::Range;

/// The side of the tile in pixels. An image repeats the tile. Each image starts at a different
/// pixel of the tile.
const SIDE: usize = 256;
/// The number of atoms along a side of the tile.
const ATOMS: f32 = 16.0;
/// The number of dead pixels, and of hot pixels, among 65,536: 0.2 % each.
const DAMAGED: u64 = 131;
/// The standard deviation of the sum of four bytes: sqrt(4 * (256^2 - 1) / 12).
const BYTES_DEVIATION: f32 = 147.8;

/// A stack of images of one size. Its rows are computed when they are needed.
///
/// ```
/// use trijet_cli::micrograph::Micrograph;
/// let stack = Micrograph::new(64, 32, 7);
/// let (mut whole, mut part) = (vec![0; 64 * 40], vec![0; 64 * 3]);
/// stack.fill(0..40, &mut whole);
/// stack.fill(30..33, &mut part);
/// assert_eq!(part, whole[64 * 30..64 * 33]);
/// ```
pub struct Micrograph {
    width: usize,
    height: u64,
    seed: u64,
    tile: Vec<Smooth>,
}

/// A pixel without noise, and the strength of its noise. The strength is 256 times the change of
/// the pixel that follows if the sum of four bytes grows by 1.
#[derive(Clone, Copy)]
struct Smooth {
    signal: i32,
    noise: i32,
}

impl fmt::Debug for Micrograph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Micrograph({}x{}, seed {})", self.width, self.height, self.seed)
    }
}

impl Micrograph {
    /// A stack of images of `width` by `height` pixels. Stacks with different seeds differ in every
    /// row.
    ///
    /// # Panics
    /// When a side is zero.
    #[must_use]
    pub fn new(width: usize, height: u64, seed: u64) -> Self {
        assert!(width > 0 && height > 0, "an image has pixels");
        Self { width, height, seed, tile: tile() }
    }

    /// Fills `into` with the 16-bit pixels of `rows`, which are counted through all images.
    ///
    /// # Panics
    /// When `into` does not have the length of the rows.
    pub fn fill(&self, rows: Range<u64>, into: &mut [u16]) {
        self.each_row(rows, into, |pixel| pixel);
    }

    /// Fills `into` with the upper 8 bits of the pixels that [`fill`](Self::fill) computes for
    /// `rows`.
    ///
    /// # Panics
    /// When `into` does not have the length of the rows.
    pub fn fill_u8(&self, rows: Range<u64>, into: &mut [u8]) {
        self.each_row(rows, into, |pixel| pixel.to_be_bytes()[0]);
    }

    fn each_row<T>(&self, rows: Range<u64>, into: &mut [T], from: impl Fn(u16) -> T) {
        let pixels = (rows.end - rows.start) * self.width as u64;
        assert_eq!(into.len() as u64, pixels, "the buffer must have the length of the rows");
        for (row, into) in rows.zip(into.chunks_exact_mut(self.width)) {
            // Each image starts at a different pixel of the tile.
            let offset = hash(self.seed ^ (row / self.height).rotate_left(32));
            let y = tile_index((row % self.height).wrapping_add(offset >> 8));
            let line = &self.tile[y * SIDE..(y + 1) * SIDE];
            let key = hash(self.seed.wrapping_add(hash(row)));
            let mut x = tile_index(offset);
            for (column, into) in into.iter_mut().enumerate() {
                *into = from(pixel(line[x], hash(key.wrapping_add(column as u64))));
                x = (x + 1) % SIDE;
            }
        }
    }
}

/// The position in the tile that the lowest byte of `value` chooses.
fn tile_index(value: u64) -> usize {
    usize::from(value.to_le_bytes()[0])
}

/// The smooth pixel with noise, or a damaged pixel. The random bits `chance` determine both.
#[inline]
fn pixel(smooth: Smooth, chance: u64) -> u16 {
    let pairs = (chance & 0x00ff_00ff) + ((chance >> 8) & 0x00ff_00ff);
    let sum = ((pairs & 0xffff) + (pairs >> 16)).cast_signed() - 510;
    let value = i64::from(smooth.signal) + ((sum * i64::from(smooth.noise)) >> 8);
    let value = u16::try_from(value.clamp(0, 65_535)).expect("clamped");
    let choice = chance >> 48;
    let value = if choice < DAMAGED { 0 } else { value };
    if choice >= 65_536 - DAMAGED { u16::MAX } else { value }
}

/// The finalizer of MurmurHash3 (public domain, A. Appleby).
#[inline]
fn hash(value: u64) -> u64 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

/// Computes the tile.
fn tile() -> Vec<Smooth> {
    let side = f32::from(u16::try_from(SIDE).expect("a small number"));
    let position = |n: usize| f32::from(u16::try_from(n).expect("below the side")) / side;
    let mut tile = Vec::with_capacity(SIDE * SIDE);
    for row in 0..SIDE {
        for column in 0..SIDE {
            let (x, y) = (position(column), position(row));
            let blobs = (TAU * (x + 2.0 * y)).sin() + (TAU * (2.0 * x - y)).cos();
            let atom = (TAU * ATOMS * x).cos() + (TAU * ATOMS * (y + x * 0.5)).cos();
            let peak = (atom - 2.0).exp();
            let signal = 9_000.0 + 1_500.0 * blobs + 22_000.0 * peak;
            // Shot noise: the variance grows with the signal. The signal has 16 units per electron.
            let deviation = (16.0 * signal).sqrt();
            tile.push(Smooth {
                signal: whole(signal),
                noise: whole(deviation * 256.0 / BYTES_DEVIATION),
            });
        }
    }
    tile
}

#[expect(clippy::cast_possible_truncation, reason = "the tile's values are far below 2^31")]
fn whole(value: f32) -> i32 {
    value.round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(seed: u64) -> Vec<u16> {
        let mut pixels = vec![0; 512 * 512];
        Micrograph::new(512, 512, seed).fill(0..512, &mut pixels);
        pixels
    }

    #[test]
    fn damaged_pixels_have_the_stated_frequency() {
        let pixels = image(1);
        for value in [0, u16::MAX] {
            let share = pixels.iter().filter(|&&pixel| pixel == value).count();
            // The expected number is 524 of 262,144 pixels. The limits are five standard deviations
            // away: 115 pixels.
            assert!((409..=639).contains(&share), "{share} pixels of {value}");
        }
    }

    #[test]
    fn a_seed_repeats_and_another_differs() {
        assert_eq!(image(3), image(3));
        let (a, b) = (image(3), image(4));
        let same = a.iter().zip(&b).filter(|(a, b)| a == b).count();
        assert!(same < a.len() / 100, "{same} pixels are equal");
    }

    #[test]
    fn neighbours_in_a_stack_have_independent_noise() {
        let stack = Micrograph::new(256, 16, 5);
        let mut pixels = vec![0; 256 * 64];
        stack.fill(0..64, &mut pixels);
        for rows in pixels.chunks_exact(256).collect::<Vec<_>>().windows(2) {
            let same = rows[0].iter().zip(rows[1]).filter(|(a, b)| a == b).count();
            assert!(same < 16, "{same} of 256 pixels repeat in the next row");
        }
    }

    #[test]
    fn eight_bits_are_the_upper_half() {
        let stack = Micrograph::new(100, 10, 9);
        let (mut wide, mut narrow) = (vec![0_u16; 2_500], vec![0_u8; 2_500]);
        stack.fill(3..28, &mut wide);
        stack.fill_u8(3..28, &mut narrow);
        assert!(wide.iter().zip(&narrow).all(|(wide, narrow)| wide >> 8 == u16::from(*narrow)));
    }
}
