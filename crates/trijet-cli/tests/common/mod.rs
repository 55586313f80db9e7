//! What the tests of formats and outputs need.

mod files;

pub(crate) use files::{GRAY8, GRAY16, dictionary, npy, png};

use trijet::{Error, ErrorKind};

/// The error is of `kind`, names the file and says all of `words`.
#[track_caller]
pub(crate) fn demand<T>(
    result: Result<T, Error>,
    kind: ErrorKind,
    name: &str,
    words: &[&str],
) -> Error {
    let Err(error) = result else { panic!("{name} was taken") };
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(name), "`{text}` does not name {name}");
    for word in words {
        assert!(text.contains(word), "`{text}` does not say `{word}`");
    }
    error
}
