//! Archives of numpy, and damaged ones.

use super::{assert_equals, golden};
use std::fs;
use std::path::{Path, PathBuf};
use trijet::ErrorKind;
use trijet_io::Input;

fn of(archive: &str) -> PathBuf {
    golden("npz", archive)
}

#[test]
fn the_members_of_archives_have_their_arrays() {
    for (archive, array) in [
        ("only.npz", "whole"),
        ("long.npz", "whole"),
        ("only.npz::whole", "whole"),
        ("only.npz::/whole.npy", "whole"),
        ("several.npz::whole", "whole"),
        ("several.npz::turned", "turned"),
        ("other.npz::folder/whole", "whole"),
    ] {
        assert_equals(&Input::open(&of(archive), None).unwrap(), "npz", array);
    }
}

#[track_caller]
fn refused(path: &Path, words: &[&str]) {
    let error = Input::open(path, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidValue, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{error}` has no `{word}`");
    }
}

#[test]
fn a_member_that_is_not_read_is_refused_with_what_helps() {
    refused(&of("several.npz"), &["2 arrays", "several.npz::whole", "(it has whole, turned)"]);
    refused(&of("several.npz::none"), &["no array none", "it has whole, turned"]);
    refused(&of("other.npz::readme.txt"), &["no array readme.txt"]);
    refused(&of("other.npz::bzip2"), &["method 12"]);
    let line = "numpy.save('";
    refused(&of("compressed.npz"), &["whole.npy is compressed", line, "compressed.npz')['whole']"]);
    refused(&golden("mrc", "image.npy::x"), &["has one array"]);
}

#[test]
fn a_damaged_archive_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.npz");
    let open = |bytes: &[u8]| {
        fs::write(&bad, bytes).unwrap();
        Input::open(&bad, None)
    };
    for name in ["only.npz", "long.npz"] {
        let good = fs::read(of(name)).unwrap();
        open(&good).unwrap();
        for length in 0..good.len() {
            let error = open(&good[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{name} {length}: {error}");
        }
        // Each byte of the records and of the header, with all of its bits.
        for at in (0..good.len()).filter(|at| !(200..250).contains(at)) {
            let mut bytes = good.clone();
            bytes[at] ^= 0xff;
            if let Err(error) = open(&bytes) {
                assert!(error.to_string().contains("bad.npz"), "{error}");
            }
        }
    }
}
