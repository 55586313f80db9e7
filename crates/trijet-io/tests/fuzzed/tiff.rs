//! The body of the fuzz target `tiff`: a TIFF file of any bytes.

use crate::workdir;
use trijet::Source;
use trijet_io::Input;

/// The largest array that is read. Larger ones are only opened, because a small file may claim many
/// pixels.
const READ_BYTES_MAX: u64 = 1 << 16;

/// Reads a TIFF file of these bytes.
///
/// # Panics
/// If an array that is read at once differs from the array that is read row by row, or if an error
/// does not name the file.
pub(crate) fn check(bytes: &[u8]) {
    let path = workdir::file("in.tif", bytes);
    let input = match Input::open(&path, None) {
        Ok(input) => input,
        Err(error) => return workdir::refused(&error, &path),
    };
    let (layout, all) = (input.layout(), input.array().bytes());
    if all > READ_BYTES_MAX || layout.rows == 0 {
        return;
    }
    let mut whole = vec![0; usize::try_from(all).expect("a small array")];
    let read = input.read(0..layout.rows, &mut whole);
    let step = layout.rows.div_ceil(8).max(1);
    let row = usize::try_from(layout.row_bytes).expect("a small row");
    let mut parts = vec![0; whole.len()];
    let length = usize::try_from(step).expect("a few rows") * row;
    let outcomes: Vec<trijet::Result<()>> = (0..)
        .zip(parts.chunks_mut(length))
        .map(|(n, part)| input.read(n * step..n * step + (part.len() / row) as u64, part))
        .collect();
    assert_eq!(read.is_ok(), outcomes.iter().all(Result::is_ok));
    match read {
        Ok(()) => assert_eq!(whole, parts),
        Err(error) => workdir::refused(&error, &path),
    }
}
