//! Reads files of metadata, and takes values from them.

use super::reason::{Checked, Reason, damaged, refused};
use crate::file_error;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use trijet::Result;

/// Maximum size of a file of metadata. Consolidated metadata have the metadata of all arrays of a
/// group.
const BYTES_MAX: u64 = 16 << 20;
/// Maximum number of axes, as in NumPy.
const AXES_MAX: usize = 64;

/// Reads a file of metadata. `None` if there is no such file.
pub(super) fn read_json(path: &Path) -> Result<Option<Map<String, Value>>> {
    let io = |error| file_error::io("open", path, error);
    match std::fs::metadata(path) {
        Ok(state) if state.is_file() => {}
        Ok(_) => return Err(file_error::damaged("open", path, "is not a regular file")),
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(io(error)),
    }
    let mut text = Vec::new();
    File::open(path)
        .and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text))
        .map_err(io)?;
    if text.len() as u64 > BYTES_MAX {
        let cause = format!("has more than {BYTES_MAX} bytes of metadata");
        return Err(file_error::refused("open", path, cause));
    }
    let parsed = serde_json::from_slice(&text)
        .or_else(|error| serde_json::from_slice(&without_nan(&text)).map_err(|_| error));
    match parsed {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err(file_error::damaged("open", path, "is not a JSON object")),
        Err(error) => Err(file_error::damaged("open", path, format!("is not JSON: {error}"))),
    }
}

/// Whether there is no file with this name.
pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The text with strings in the place of numbers that JSON does not have. Python writes such
/// numbers as `NaN`, `Infinity` and `-Infinity`.
fn without_nan(text: &[u8]) -> Vec<u8> {
    let mut valid = Vec::with_capacity(text.len());
    let (mut is_string, mut at) = (false, 0);
    while let Some(&byte) = text.get(at) {
        let words: [&[u8]; 3] = [b"NaN", b"Infinity", b"-Infinity"];
        let word = words.into_iter().find(|word| !is_string && text[at..].starts_with(word));
        if let Some(word) = word {
            valid.push(b'"');
            valid.extend(word);
            valid.push(b'"');
            at += word.len();
            continue;
        }
        // The byte after a backslash does not end a string.
        let bytes = if is_string && byte == b'\\' { 2 } else { 1 };
        is_string ^= byte == b'"';
        valid.extend(&text[at..text.len().min(at + bytes)]);
        at += bytes;
    }
    valid
}

/// The value of a key that must exist.
pub(super) fn need<'v>(object: &'v Map<String, Value>, key: &str) -> Checked<&'v Value> {
    object.get(key).map_or_else(|| damaged(format!("`{key}` is missing")), Ok)
}

/// The text of a key that must exist.
pub(super) fn text<'v>(object: &'v Map<String, Value>, key: &str) -> Checked<&'v str> {
    let value = need(object, key)?.as_str();
    value.map_or_else(|| damaged(format!("`{key}` is not a text")), Ok)
}

/// The lengths of axes.
pub(super) fn axes(object: &Map<String, Value>, key: &str) -> Checked<Vec<u64>> {
    let wrong = || Reason::Damaged(format!("`{key}` is not a list of lengths of axes"));
    let axes = need(object, key)?.as_array().ok_or_else(wrong)?;
    if axes.len() > AXES_MAX {
        return refused(format!("{} axes; at most {AXES_MAX} are supported", axes.len()));
    }
    axes.iter().map(|axis| axis.as_u64().ok_or_else(wrong)).collect()
}

/// The attributes of an array or of a group. Empty if the value is not an object.
pub(super) fn attributes(value: Option<&Value>) -> Map<String, Value> {
    value.and_then(Value::as_object).cloned().unwrap_or_default()
}

/// A separator of the names of chunks.
pub(super) fn separator(value: Option<&Value>, default: char) -> Checked<char> {
    match value {
        None => Ok(default),
        Some(value) => match value.as_str() {
            Some("/") => Ok('/'),
            Some(".") => Ok('.'),
            _ => damaged(format!("the separator {value} of chunk names is not / or .")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_json_lacks_become_strings() {
        let of = |text: &str| String::from_utf8(without_nan(text.as_bytes())).unwrap();
        assert_eq!(of(r#"{"a": NaN, "b": [-Infinity]}"#), r#"{"a": "NaN", "b": ["-Infinity"]}"#);
        assert_eq!(of(r#"{"NaN": "a\"NaN\\", "b": NaN}"#), r#"{"NaN": "a\"NaN\\", "b": "NaN"}"#);
        assert_eq!(of(r#""\"#), r#""\"#);
    }
}
