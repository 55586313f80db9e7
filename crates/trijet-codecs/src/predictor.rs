//! Predictors of TIFF: rows of differences.

use crate::error::Cause;
use crate::shuffle;

/// The samples of the rows of a strip or tile.
pub(crate) struct Rows {
    /// The bytes of a sample.
    pub(crate) sample: usize,
    /// The samples of a pixel.
    pub(crate) samples: usize,
    /// The bytes of a row.
    pub(crate) row: usize,
}

impl Rows {
    /// Compares the rows with the length of a block.
    fn check(&self, length: usize) -> Result<(), Cause> {
        let Self { sample, samples, row } = *self;
        let pixel = sample.checked_mul(samples).filter(|&pixel| pixel > 0);
        if pixel.is_none_or(|pixel| row == 0 || !row.is_multiple_of(pixel)) {
            let cause = format!("rows of {row} bytes are not pixels of {samples} x {sample} bytes");
            return Err(cause.into());
        }
        if !length.is_multiple_of(row) {
            return Err(format!("{length} bytes are not whole rows of {row} bytes").into());
        }
        Ok(())
    }

    /// Adds to each sample the sample before it.
    pub(crate) fn undo_horizontal(&self, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
        self.check(input.len())?;
        let add = match self.sample {
            1 => sum_row::<1>,
            2 => sum_row::<2>,
            4 => sum_row::<4>,
            8 => sum_row::<8>,
            other => return Err(format!("samples of {other} bytes have no differences").into()),
        };
        for (from, to) in input.chunks_exact(self.row).zip(output.chunks_exact_mut(self.row)) {
            add(self.samples, from, to);
        }
        Ok(input.len())
    }

    /// Adds to each byte the byte before it, and collects the bytes of each sample.
    pub(crate) fn undo_float(&self, input: &[u8], output: &mut [u8]) -> Result<usize, Cause> {
        self.check(input.len())?;
        if input.is_empty() {
            return Ok(0);
        }
        // Not longer than the block, which has whole rows.
        let mut bytes = vec![0; self.row];
        let plane = self.row / self.sample;
        for (from, to) in input.chunks_exact(self.row).zip(output.chunks_exact_mut(self.row)) {
            sum_row::<1>(self.samples, from, &mut bytes);
            // The highest bytes are first in the row and last in a sample.
            let planes = bytes.chunks_exact(plane).rev();
            shuffle::interleave(self.sample, planes, to);
        }
        Ok(input.len())
    }
}

/// The sum of two numbers of N bytes in little-endian order.
fn sum<const N: usize>(one: [u8; N], other: [u8; N]) -> [u8; N] {
    let number = |bytes: [u8; N]| {
        let mut all = [0; 8];
        all[..N].copy_from_slice(&bytes);
        u64::from_le_bytes(all)
    };
    let mut result = [0; N];
    result.copy_from_slice(&number(one).wrapping_add(number(other)).to_le_bytes()[..N]);
    result
}

fn sum_row<const N: usize>(samples: usize, input: &[u8], output: &mut [u8]) {
    let (input, _) = input.as_chunks::<N>();
    let (output, _) = output.as_chunks_mut::<N>();
    match samples {
        1 => sum_pixels::<N, 1>(input, output),
        3 => sum_pixels::<N, 3>(input, output),
        4 => sum_pixels::<N, 4>(input, output),
        _ => {
            let first = samples.min(input.len());
            output[..first].copy_from_slice(&input[..first]);
            for at in samples..input.len() {
                output[at] = sum(input[at], output[at - samples]);
            }
        }
    }
}

/// The sums of pixels of S samples, whose last pixel stays in registers.
fn sum_pixels<const N: usize, const S: usize>(input: &[[u8; N]], output: &mut [[u8; N]]) {
    let (input, _) = input.as_chunks::<S>();
    let (output, _) = output.as_chunks_mut::<S>();
    let mut last = [[0; N]; S];
    for (from, to) in input.iter().zip(output) {
        last = std::array::from_fn(|at| sum(last[at], from[at]));
        *to = last;
    }
}
