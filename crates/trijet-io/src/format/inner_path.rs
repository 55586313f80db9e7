//! The path of an array inside a file or a folder with several arrays: `scan.zarr::/raw/0`.

use std::fs;
use std::path::{Path, PathBuf};

/// The characters between the name of the file and the path inside the file.
const SEPARATOR: &str = "::";

/// Splits `path` into the path of a file or folder, and the path of an array inside it. The inner
/// path has no slash at its start or end, and is empty for the root. `None` if `path` has no inner
/// path: it has no `::`, or a file or folder with exactly this name exists, or no part before a
/// `::` exists.
pub(crate) fn split(path: &Path) -> (PathBuf, Option<String>) {
    let whole = (path.to_owned(), None);
    if fs::symlink_metadata(path).is_ok() {
        return whole;
    }
    let Some(text) = path.to_str() else { return whole };
    let cuts = text.match_indices(SEPARATOR).map(|(at, _)| text.split_at(at));
    cuts.map(|(file, inner)| (Path::new(file), inner[SEPARATOR.len()..].trim_matches('/')))
        .find(|(file, _)| fs::symlink_metadata(file).is_ok())
        .map_or(whole, |(file, inner)| (file.to_owned(), Some(inner.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_inner_path_follows_the_first_name_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a.h5", "b::c.h5", "d"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let of = |name: &str| {
            let (file, inner) = split(&folder.path().join(name));
            (file.strip_prefix(folder.path()).unwrap().to_str().unwrap().to_owned(), inner)
        };
        let inner = |file: &str, inner: &str| (file.to_owned(), Some(inner.to_owned()));
        assert_eq!(of("a.h5::/entry/data"), inner("a.h5", "entry/data"));
        assert_eq!(of("a.h5::entry/"), inner("a.h5", "entry"));
        assert_eq!(of("a.h5::/"), inner("a.h5", ""));
        assert_eq!(of("a.h5::/x::y"), inner("a.h5", "x::y"));
        assert_eq!(of("b::c.h5::/x"), inner("b::c.h5", "x"));
        for whole in ["b::c.h5", "a.h5", "missing.h5::/x", "d:/x"] {
            assert_eq!(of(whole), (whole.to_owned(), None));
        }
    }
}
