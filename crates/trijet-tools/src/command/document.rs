//! The documents of `--json`. docs/json.md names their fields, and a test compares it with the
//! printed fields.
#![forbid(unsafe_code)]

use super::print::print_text;
use serde::Serialize;
use serde_json::Value;
use trijet::{Error, ErrorKind, Result};
use trijet_io::escaped;

/// The version of all documents. It changes if a field is renamed or removed, or gets another
/// meaning; new fields do not change it.
const VERSION: u32 = 1;

/// A document. Its version and its command come first.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    command: &'a str,
    #[serde(flatten)]
    fields: &'a Value,
}

/// Prints the document of a command.
///
/// # Errors
/// `Io`.
pub fn print_json(command: &str, fields: &Value) -> Result<()> {
    let document = Document { version: VERSION, command, fields };
    let text = serde_json::to_string_pretty(&document).map_err(|error| {
        Error::new(ErrorKind::InvalidValue, "print", error.to_string()).caused_by(error)
    })?;
    // The only other control characters in strings are from the C1 set, which JSON may escape but
    // need not.
    print_text(&escaped(&text))
}
