//! The body of the fuzz target `images`: a folder of PNG images of any bytes.

use crate::workdir;
use std::fs;
use trijet::Source;
use trijet_io::Input;

/// The largest stack that is read. Larger ones are only opened, because a small file may claim many
/// pixels.
const READ_BYTES_MAX: u64 = 1 << 20;

/// Reads a stack of two images. The first two bytes are the length of the first one; the second one
/// follows it.
///
/// # Panics
/// If a stack that is read at once differs from the stack read image by image, or if an error does
/// not name the folder.
pub(crate) fn check(bytes: &[u8]) {
    let folder = workdir::path("stack");
    fs::create_dir_all(&folder).expect("a folder in a folder of ours");
    let ([low, high], images) = match bytes {
        [low, high, images @ ..] => ([*low, *high], images),
        _ => ([0xff; 2], bytes),
    };
    let length = usize::from(u16::from_le_bytes([low, high])).min(images.len());
    let (first, second) = images.split_at(length);
    workdir::file("stack/a.png", first);
    let second_path = workdir::file("stack/b.png", second);
    if second.is_empty() {
        fs::remove_file(&second_path).expect("it was just written");
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
    let mut whole = vec![0; usize::try_from(all).expect("a small stack")];
    let read = input.read(0..layout.rows, &mut whole);
    let image = usize::try_from(layout.granule * layout.row_bytes).expect("a small image");
    let mut parts = vec![0; whole.len()];
    let outcomes: Vec<trijet::Result<()>> = (0..)
        .zip(parts.chunks_mut(image))
        .map(|(n, part)| input.read(n * layout.granule..(n + 1) * layout.granule, part))
        .collect();
    assert_eq!(read.is_ok(), outcomes.iter().all(Result::is_ok));
    match read {
        Ok(()) => assert_eq!(whole, parts),
        Err(error) => workdir::refused(&error, &folder),
    }
}
