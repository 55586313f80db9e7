//! Damaged files whose checksums are not compared, so that every part of the structure is read with
//! wrong bytes. With checksums, nearly all damage ends at the first one.

use super::read::open_in;
use super::structure::ObjectTree;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use trijet::Result;
use trijet::testing::Prng;

/// The largest damaged array that is read.
const READ_BYTES_MAX: u64 = 1 << 16;
/// The number of bytes of a file for which it is damaged once. 1 takes two minutes.
const STEP: usize = 41;
/// The bits that are turned.
const BITS: [u8; 6] = [0xff, 0x01, 0x80, 0x08, 0x3c, 0x40];

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

/// Up to three edits of a file: turned bits, and numbers in the place of others. A number may be an
/// address, so the parts of a file contain each other then.
fn edits(prng: &mut Prng, good: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut below = |bound: usize| usize::try_from(prng.below(bound as u64)).unwrap();
    (0..=below(3))
        .map(|_| {
            let at = below(good.len());
            if below(2) == 0 {
                return (at, vec![good[at] ^ BITS[below(BITS.len())]]);
            }
            let bytes = (1 << below(4)).min(good.len() - at);
            let from = below(good.len() - bytes + 1);
            (at, good[from..from + bytes].to_vec())
        })
        .collect()
}

#[test]
fn a_damaged_structure_without_checksums_is_an_error_or_another_array() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    for (path, seed) in golden().into_iter().zip(0..) {
        let good = fs::read(&path).unwrap();
        fs::write(&bad, &good).unwrap();
        let file = File::options().read(true).write(true).open(&bad).unwrap();
        let mut prng = Prng::new(seed);
        for turn in 0..good.len() / STEP {
            let edits = edits(&mut prng, &good);
            for (at, bytes) in &edits {
                file.write_all_at(bytes, *at as u64).unwrap();
            }
            if let Err(error) = read(&bad, &file) {
                let name = path.display();
                assert!(error.to_string().contains("bad.h5"), "{name} {turn}: {error}");
            }
            for (at, bytes) in edits {
                file.write_all_at(&good[at..at + bytes.len()], at as u64).unwrap();
            }
        }
    }
}

/// An attribute in a heap of the file has a number of that heap in its record.
#[test]
fn attributes_in_a_heap_of_the_file_are_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hdf5");
    let mut bytes = fs::read(folder.join("attributes-dense.h5")).unwrap();
    let leaves = (0..bytes.len() - 6).filter(|at| bytes[*at..].starts_with(b"BTLF"));
    let leaf = leaves.into_iter().find(|at| bytes[at + 5] == 8).unwrap();
    // The flags of the second record.
    bytes[leaf + 6 + 17 + 8] |= 2;
    let bad = tempfile::NamedTempFile::new().unwrap();
    fs::write(bad.path(), &bytes).unwrap();
    let file = File::open(bad.path()).unwrap();
    let tree = ObjectTree::open_without_checksums(file, bytes.len() as u64).unwrap();
    let all = tree.attributes(&tree.find("data").unwrap());
    assert_eq!(all.found.len(), 18);
    assert!(all.unread.unwrap().to_string().contains("H5Pset_shared_mesg_index"));
}

/// Attributes are optional, and may be many.
#[test]
fn attributes_take_nothing_from_what_may_be_read_for_the_elements() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hdf5");
    let path = folder.join("attributes-levels.h5");
    let opens = |left: u64| {
        let file = File::open(&path).unwrap();
        let (copy, metadata) = (file.try_clone().unwrap(), file.metadata().unwrap());
        ObjectTree::open_with_left(copy, metadata.len(), left)
            .is_ok_and(|tree| open_in(&path, file, metadata, &tree, Some("data")).is_ok())
    };
    let limits: Vec<u64> = (0..10_000).step_by(8).collect();
    let first = limits.iter().position(|left| opens(*left)).unwrap();
    assert!(limits[first..].iter().all(|left| opens(*left)));
}

/// A tree with short records has many of them, each with the number of an object of a heap.
#[test]
fn the_records_of_names_have_one_size() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.h5");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/hdf5");
    for (name, object, bytes) in [("links-dense", "many", 11), ("attributes-dense", "data", 17)] {
        let good = fs::read(golden.join(format!("{name}.h5"))).unwrap();
        let trees = (0..good.len() - 12).filter(|at| good[*at..].starts_with(b"BTHD"));
        let at = trees.into_iter().find(|at| good[at + 10] == bytes).unwrap();
        for (record, count) in [(bytes, if bytes == 11 { 92 } else { 19 }), (bytes - 1, 0)] {
            let mut changed = good.clone();
            changed[at + 10] = record;
            let _ = fs::remove_file(&bad);
            fs::write(&bad, &changed).unwrap();
            let file = File::open(&bad).unwrap();
            let tree = ObjectTree::open_without_checksums(file, changed.len() as u64).unwrap();
            let object = tree.find(object).unwrap();
            let (found, fault) = match object.is_group() {
                true => match tree.links(&object) {
                    Ok(links) => (links.len(), None),
                    Err(fault) => (0, Some(fault)),
                },
                false => {
                    let all = tree.attributes(&object);
                    (all.found.len(), all.unread)
                }
            };
            assert_eq!(found, count, "{name}");
            let fault = fault.map(|fault| fault.to_string()).unwrap_or_default();
            let words = format!("records of {record} bytes");
            assert_eq!(fault.contains(&words), record != bytes, "{name}: {fault}");
        }
    }
}
