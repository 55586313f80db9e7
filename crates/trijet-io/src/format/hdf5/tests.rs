//! Damaged files whose checksums are not compared, so that every part of the structure is read with
//! wrong bytes. With checksums, nearly all damage ends at the first one.

use super::read::open_in;
use super::structure::ObjectTree;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use trijet::Result;

/// The largest damaged array that is read.
const READ_BYTES_MAX: u64 = 1 << 16;
/// The distance of the bytes that are damaged. 1 takes two minutes.
const STEP: usize = 41;
/// The bits that are turned, one after another.
const BITS: [u8; 5] = [0xff, 0x01, 0x80, 0x08, 0x3c];

fn golden() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hdf5");
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|extension| extension == "h5")).collect();
    all.sort();
    all
}

fn read(path: &Path, file: &File) -> Result<()> {
    let metadata = file.metadata().unwrap();
    let (copy, bytes) = (file.try_clone().unwrap(), metadata.len());
    let Ok(tree) = ObjectTree::open_without_checksums(file.try_clone().unwrap(), bytes) else {
        return Ok(());
    };
    let opened = open_in(path, copy, metadata, &tree, None)?;
    let (layout, bytes) = (opened.array.layout(), opened.array.bytes());
    let mut rows = vec![0; usize::try_from(bytes.min(READ_BYTES_MAX)).unwrap()];
    match bytes {
        0..=READ_BYTES_MAX => opened.reader.read(0..layout.rows, &mut rows),
        _ => Ok(()),
    }
}

#[test]
fn a_damaged_structure_without_checksums_is_an_error_or_another_array() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    for path in golden() {
        let good = fs::read(&path).unwrap();
        fs::write(&bad, &good).unwrap();
        let file = File::options().read(true).write(true).open(&bad).unwrap();
        for (turn, at) in (0..good.len()).step_by(STEP).enumerate() {
            let damaged = good[at] ^ BITS[turn % BITS.len()];
            file.write_all_at(&[damaged], at as u64).unwrap();
            if let Err(error) = read(&bad, &file) {
                assert!(error.to_string().contains("bad.h5"), "{} {at}: {error}", path.display());
            }
            file.write_all_at(&good[at..=at], at as u64).unwrap();
        }
    }
}
