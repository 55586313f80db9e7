//! The JSON documents of the option `--json`. docs/json.md names their fields. A test compares this
//! list with the printed fields.
#![forbid(unsafe_code)]

use super::print::print_text;
use serde::Serialize;
use serde_json::Value;
use trijet::{Error, ErrorKind, Result};
use trijet_io::escaped;

/// The version of all JSON documents. The version changes if a field is renamed or removed, or if
/// it gets another meaning. A new field does not change the version.
const VERSION: u32 = 1;

/// A JSON document. Its first fields are the version and the command.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    command: &'a str,
    #[serde(flatten)]
    fields: &'a Value,
}

/// Prints the JSON document of a command.
///
/// # Errors
/// `Io`.
pub fn print_json(command: &str, fields: &Value) -> Result<()> {
    let document = Document { version: VERSION, command, fields };
    let text = serde_json::to_string_pretty(&document).map_err(|error| {
        Error::new(ErrorKind::InvalidValue, "print", error.to_string()).caused_by(error)
    })?;
    // JSON does not demand escapes for the control characters U+007F to U+009F, so they are escaped
    // here.
    print_text(&escaped(&text))
}
