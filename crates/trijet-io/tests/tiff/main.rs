//! TIFF files: of other writers, damaged, written, and in folders.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod damaged;
#[path = "../common/demand.rs"]
mod demand;
mod folders;
mod golden;
mod refused;
mod written;

use std::path::{Path, PathBuf};
use trijet::Source;
use trijet_io::Input;

/// All bytes of an input.
fn whole(input: &Input) -> Vec<u8> {
    let layout = input.layout();
    let mut bytes = vec![0; usize::try_from(layout.bytes().unwrap()).unwrap()];
    input.read(0..layout.rows, &mut bytes).unwrap();
    bytes
}

/// The path of a file that `golden/tiff/make.py` has written.
fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiff").join(name)
}

/// A little-endian file of one directory with these tags, each with one value of 32 bits. Text of
/// the description and pixels follow at the offsets 1000 and 2000.
fn file(tags: &[(u16, u32)], description: &str) -> Vec<u8> {
    let mut all = b"II*\0\x08\0\0\0".to_vec();
    let text = format!("{description}\0");
    let length = u32::try_from(text.len()).unwrap();
    let mut entries: Vec<(u16, u16, u32, u32)> =
        tags.iter().map(|(tag, value)| (*tag, 4, 1, *value)).collect();
    if !description.is_empty() {
        entries.push((270, 2, length.max(5), 1000));
    }
    entries.sort_unstable();
    all.extend(u16::try_from(entries.len()).unwrap().to_le_bytes());
    for (tag, kind, count, value) in entries {
        all.extend([&tag.to_le_bytes()[..], &kind.to_le_bytes()].concat());
        all.extend([count.to_le_bytes(), value.to_le_bytes()].concat());
    }
    all.resize(1000, 0);
    all.extend(text.bytes());
    all.resize(all.len().max(2000), 0);
    all
}

/// The tags of an image of 2 x 3 pixels of 8 bits, changed by `changes`.
fn tags(changes: &[(u16, u32)]) -> Vec<(u16, u32)> {
    let usual = [(256, 3), (257, 2), (258, 8), (259, 1), (262, 1), (273, 2000), (278, 2), (279, 6)];
    let kept = usual.into_iter().filter(|(tag, _)| changes.iter().all(|(own, _)| own != tag));
    kept.chain(changes.iter().copied()).collect()
}
