//! Recognizes the format of the images of a folder.

use super::contract::has_extension;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// The extensions of TIFF files that are read and written.
const TIFF: [&str; 4] = ["tif", "tiff", "btf", "tf8"];

/// Whether a file has an extension of TIFF files.
pub(super) fn is_tiff(path: &Path) -> bool {
    TIFF.iter().any(|own| has_extension(path, own))
}

/// Whether a folder has TIFF files and no PNG file, except files whose names start with a dot. Any
/// other folder is a folder of PNG images, or of none.
pub(super) fn has_only_tiff(folder: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder) else { return false };
    let mut has_tiff = false;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if is_hidden(&name) {
            continue;
        }
        if has_extension(Path::new(&name), "png") {
            return false;
        }
        has_tiff |= is_tiff(Path::new(&name));
    }
    has_tiff
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}
