//! The stack of images, the result of each operation on it, and the hashes of a file.
//!
//! The operations are defined here a second time, pixel by pixel and without the library. A result
//! is therefore compared with a rule, and not with another run.
#![forbid(unsafe_code)]

use super::definition::{Op, Size};
use super::share::each;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use xxhash_rust::xxh3::xxh3_64;

/// The bytes of a pixel.
const PIXEL_BYTES: u64 = 2;

/// The stack, cut into pieces of whole pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stack {
    pub(super) size: Size,
    pub(super) piece_bytes: u64,
    pub(super) threads: usize,
}

/// The hashes of the pieces of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hashes(Vec<u64>);

impl Hashes {
    /// The digest of the hashes of all pieces, in hexadecimal.
    pub(super) fn digest(&self) -> String {
        let bytes: Vec<u8> = self.0.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        format!("{:016x}", xxh3_64(&bytes))
    }
}

/// Turns an error of a file into an error of the benchmark. Wrong bytes become `InvalidValue`.
pub(super) fn failed(error: Error) -> trijet::Error {
    let kind = match error.kind() {
        ErrorKind::InvalidData => trijet::ErrorKind::InvalidValue,
        _ => trijet::ErrorKind::Io,
    };
    trijet::Error::new(kind, "bench files", error.to_string()).caused_by(error)
}

/// The pixel of the input at `index`: the upper half of the index after mixing.
fn pixel(index: u64) -> u16 {
    let mixed = (index ^ (index >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 48) as u16
}

impl Stack {
    pub(super) fn bytes(&self) -> u64 {
        self.size.pages * self.size.height * self.size.width * PIXEL_BYTES
    }

    /// The range of the bytes of each piece.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Range<u64>> + Send + use<> {
        let (piece, bytes) = (self.piece_bytes, self.bytes());
        (0..bytes.div_ceil(piece)).map(move |n| n * piece..((n + 1) * piece).min(bytes))
    }

    /// The pixel at `index` of the result of `op`.
    fn result(&self, op: Op, index: u64) -> u16 {
        match op {
            Op::Affine { scale, offset } => {
                let sum = scale * f32::from(pixel(index)) + offset;
                #[expect(clippy::cast_possible_truncation, reason = "the sum is clamped to u16")]
                #[expect(clippy::cast_sign_loss, reason = "it is not negative")]
                let rounded = sum.round_ties_even().clamp(0.0, 65535.0) as u16;
                rounded
            }
            Op::Median => {
                let Size { height, width, .. } = self.size;
                let (page, y, x) =
                    (index / (height * width), index / width % height, index % width);
                let mut window = [0; 9];
                for (n, value) in (0..).zip(&mut window) {
                    let y = (y + n / 3).saturating_sub(1).min(height - 1);
                    let x = (x + n % 3).saturating_sub(1).min(width - 1);
                    *value = pixel((page * height + y) * width + x);
                }
                window.sort_unstable();
                window[4]
            }
        }
    }

    /// Calls `work` for every piece, on all threads. Returns the results in the order of the pieces
    /// in the file.
    fn each<T: Send>(
        &self,
        work: impl Fn(&mut Vec<u8>, Range<u64>) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        each(self.threads, self.pieces(), work)
    }

    /// Writes the input to a new file, and waits until it is on the disk. The disk is then idle
    /// when the first run starts.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        let file = File::create_new(path)?;
        self.each(|buffer, piece| {
            let pixels = piece.start / PIXEL_BYTES..piece.end / PIXEL_BYTES;
            buffer.clear();
            buffer.extend(pixels.flat_map(|index| pixel(index).to_le_bytes()));
            file.write_all_at(buffer, piece.start)
        })?;
        file.sync_data()
    }

    /// The hashes of the result of `op`.
    pub(super) fn expected(&self, op: Op) -> Result<Hashes> {
        let hashes = self.each(|buffer, piece| {
            let pixels = piece.start / PIXEL_BYTES..piece.end / PIXEL_BYTES;
            buffer.clear();
            buffer.extend(pixels.flat_map(|index| self.result(op, index).to_le_bytes()));
            Ok(xxh3_64(buffer))
        })?;
        Ok(Hashes(hashes))
    }

    /// The hashes of the input. A copy of the input has the same hashes.
    pub(super) fn unchanged(&self) -> Result<Hashes> {
        self.expected(Op::Affine { scale: 1.0, offset: 0.0 })
    }

    /// Compares the hashes of a file with the expected ones.
    ///
    /// # Errors
    /// `InvalidData`, with the byte range of the first wrong piece, or with the wrong length.
    pub(super) fn verify(&self, path: &Path, expected: &Hashes) -> Result<()> {
        let file = File::open(path)?;
        let (length, bytes) = (file.metadata()?.len(), self.bytes());
        if length != bytes {
            let cause = format!("the output has {length} bytes, not {bytes}");
            return Err(Error::new(ErrorKind::InvalidData, cause));
        }
        let found = self.each(|buffer, piece| {
            buffer.resize(usize::try_from(piece.end - piece.start).map_err(Error::other)?, 0);
            file.read_exact_at(buffer, piece.start)?;
            Ok(xxh3_64(buffer))
        })?;
        let mut pieces = self.pieces().zip(found.iter().zip(&expected.0));
        let Some((wrong, _)) = pieces.find(|(_, (found, expected))| found != expected) else {
            return Ok(());
        };
        let cause = format!("wrong bytes in {}..{} of the output", wrong.start, wrong.end);
        Err(Error::new(ErrorKind::InvalidData, cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(threads: usize) -> Stack {
        let size = Size { pages: 3, height: 5, width: 7, repeats: 1 };
        Stack { size, piece_bytes: 26, threads }
    }

    #[test]
    fn the_input_and_its_digest_do_not_depend_on_the_threads() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let [one, two] = ["one", "two"].map(|name| folder.path().join(name));
        stack(1).write(&one)?;
        stack(3).write(&two)?;
        assert_eq!(std::fs::read(&one)?, std::fs::read(&two)?);
        assert_eq!(stack(1).unchanged()?, stack(2).unchanged()?);
        stack(2).verify(&one, &stack(1).unchanged()?)
    }

    #[test]
    fn a_wrong_byte_and_a_wrong_length_are_found() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("out");
        let (stack, expected) = (stack(2), stack(2).unchanged()?);
        stack.write(&path)?;
        let mut bytes = std::fs::read(&path)?;
        bytes[60] ^= 1;
        std::fs::write(&path, &bytes)?;
        let told = stack.verify(&path, &expected).unwrap_err().to_string();
        assert_eq!(told, "wrong bytes in 52..78 of the output");
        std::fs::write(&path, &bytes[1..])?;
        let told = stack.verify(&path, &expected).unwrap_err().to_string();
        assert_eq!(told, "the output has 209 bytes, not 210");
        Ok(())
    }

    #[test]
    fn the_rules_round_to_even_hold_the_range_and_repeat_edges() {
        let stack = stack(1);
        let at = |op, index| stack.result(op, index);
        for index in 0..105 {
            let half = f64::from(pixel(index)) / 2.0;
            let even = if half.fract() == 0.5 { (half / 2.0).round() * 2.0 } else { half };
            assert_eq!(f64::from(at(Op::Affine { scale: 0.5, offset: 0.0 }, index)), even);
            assert_eq!(at(Op::Affine { scale: -1.0, offset: -1.0 }, index), 0);
            assert_eq!(at(Op::Affine { scale: 1.0, offset: 65535.0 }, index), 65535);
        }
        // The window around the first pixel of the second page has four different pixels. The
        // corner pixel counts four times, the two other pixels at an edge count twice, and the last
        // pixel once.
        let (page, mut corner) = (35, Vec::new());
        for (index, times) in [(0, 4), (1, 2), (7, 2), (8, 1)] {
            corner.extend(std::iter::repeat_n(pixel(page + index), times));
        }
        corner.sort_unstable();
        assert_eq!(at(Op::Median, page), corner[4]);
    }
}
