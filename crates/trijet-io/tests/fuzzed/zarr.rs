//! The body of the fuzz target `zarr`: an array with metadata and chunks of any bytes.

use crate::workdir;
use std::fs;
use trijet::Source;
use trijet_io::Input;

/// The largest array that is read. Larger ones are only opened, because small metadata may claim
/// many elements.
const READ_BYTES_MAX: u64 = 1 << 20;
/// The longest row of an array that is read by single rows.
const ROWS_MAX: u64 = 64;

/// Reads an array. The first two bytes are the length of its metadata. The first byte of the
/// metadata, if it is not an opening brace, means metadata of Zarr v2. Every chunk has the bytes
/// after the metadata.
///
/// # Panics
/// If an array that is read at once differs from the array read row by row, or if an error does not
/// name the folder.
pub(crate) fn check(bytes: &[u8]) {
    let folder = workdir::path("in.zarr");
    let ([low, high], rest) = match bytes {
        [low, high, rest @ ..] => ([*low, *high], rest),
        _ => ([0xff; 2], bytes),
    };
    let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
    let (metadata, chunk) = rest.split_at(length);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(folder.join("c/0/0")).expect("folders in a folder of ours");
    let name = if metadata.starts_with(b"{") { "zarr.json" } else { ".zarray" };
    let metadata = metadata.strip_prefix(b"2").unwrap_or(metadata);
    workdir::file(&format!("in.zarr/{name}"), metadata);
    for chunk_name in ["c/0/0/0", "c/0/0/1", "0.0.0", "1.0.0", "c.0.0.0"] {
        workdir::file(&format!("in.zarr/{chunk_name}"), chunk);
    }
    let input = match Input::open(&folder, None) {
        Ok(input) => input,
        Err(error) => return workdir::refused(&error, &folder),
    };
    let layout = input.layout();
    let all = input.array().bytes();
    if all > READ_BYTES_MAX || layout.rows == 0 {
        return;
    }
    let mut whole = vec![0; usize::try_from(all).expect("a small array")];
    let read = input.read(0..layout.rows, &mut whole);
    if let Err(error) = &read {
        workdir::refused(error, &folder);
    }
    if layout.rows > ROWS_MAX {
        return;
    }
    let row = usize::try_from(layout.row_bytes).expect("a small row");
    let mut parts = vec![0; whole.len()];
    let outcomes: Vec<trijet::Result<()>> =
        (0..).zip(parts.chunks_mut(row)).map(|(n, part)| input.read(n..n + 1, part)).collect();
    assert_eq!(read.is_ok(), outcomes.iter().all(Result::is_ok));
    if read.is_ok() {
        assert_eq!(whole, parts);
    }
}
