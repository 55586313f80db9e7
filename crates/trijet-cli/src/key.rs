//! Keys of JSON, made from the words of a report.
#![forbid(unsafe_code)]

/// The key of words: small letters, digits and `_`.
///
/// ```
/// assert_eq!(trijet_cli::key::key("after the last operation"), "after_the_last_operation");
/// ```
#[must_use]
pub fn key(words: &str) -> String {
    let parts = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_").to_ascii_lowercase()
}
