//! The requirement for an error.

use trijet::{Error, ErrorKind};

/// Asserts that the result is an error of `kind` whose message contains the file's name and all of
/// `words`.
#[track_caller]
pub(crate) fn demand<T>(
    result: Result<T, Error>,
    kind: ErrorKind,
    name: &str,
    words: &[&str],
) -> Error {
    let Err(error) = result else { panic!("{name} was accepted") };
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(name), "`{text}` does not name {name}");
    for word in words {
        assert!(text.contains(word), "`{text}` does not contain `{word}`");
    }
    error
}
