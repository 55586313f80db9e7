//! The bodies of the fuzz targets `hdf5`, `mrc`, `nifti` and `npz`: a file of one array, of any
//! bytes.

use crate::workdir;
use trijet::Source;
use trijet_io::Input;

/// The largest array that is read. Larger ones are only opened, because a small file may claim many
/// elements that are not stored.
const READ_BYTES_MAX: u64 = 1 << 20;
/// The number of parts in which an array is read a second time.
const PARTS: u64 = 3;

/// Reads a file with the name `name` and these bytes.
///
/// # Panics
/// If rows that are read at once differ from rows that are read in parts, or if an error does not
/// name the file.
fn check(name: &str, bytes: &[u8]) {
    let path = workdir::file(name, bytes);
    let input = match Input::open(&path, None) {
        Ok(input) => input,
        Err(error) => return workdir::refused(&error, &path),
    };
    let (layout, all) = (input.layout(), input.array().bytes());
    assert_eq!(layout.rows * layout.row_bytes, all);
    if all > READ_BYTES_MAX {
        return;
    }
    let mut whole = vec![0; usize::try_from(all).expect("a small array")];
    let read = input.read(0..layout.rows, &mut whole);
    if let Err(error) = &read {
        workdir::refused(error, &path);
    }
    let step = layout.rows.div_ceil(PARTS).max(1);
    let mut parts = whole.clone();
    let size = usize::try_from(step * layout.row_bytes).expect("a small array");
    let outcomes: Vec<_> = (0..)
        .zip(parts.chunks_mut(size))
        .map(|(part, into)| {
            let rows = part * step..layout.rows.min((part + 1) * step);
            input.read(rows, into)
        })
        .collect();
    if read.is_ok() {
        assert!(outcomes.iter().all(Result::is_ok));
        assert_eq!(whole, parts);
    }
}

pub(crate) fn check_hdf5(bytes: &[u8]) {
    check("in.h5", bytes);
}

pub(crate) fn check_mrc(bytes: &[u8]) {
    check("in.mrc", bytes);
}

/// The first byte decides whether the file has the name of a compressed one.
pub(crate) fn check_nifti(bytes: &[u8]) {
    match bytes.split_first() {
        Some((b'z', rest)) => check("in.nii.gz", rest),
        Some((_, rest)) => check("in.nii", rest),
        None => check("in.nii", bytes),
    }
}

pub(crate) fn check_npz(bytes: &[u8]) {
    check("in.npz", bytes);
}
