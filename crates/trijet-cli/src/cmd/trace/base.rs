//! The base of a comparison of traces.
#![forbid(unsafe_code)]

use super::json::json;
use super::show::{analysed, load};
use serde_json::Value;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use trijet::{Error, ErrorKind, Result};
use trijet_io::{file_error, shown};
use trijet_ledger::profile::FiguresOf;

/// The bytes of a file that tell whether it is a document of `trijet trace --json`.
const START_BYTES: u64 = 256;

/// The base of a comparison: the report in a JSON document of `trijet trace --json`, or the report
/// about a trace.
pub(super) fn base(path: &Path, extent: FiguresOf) -> Result<Value> {
    let io = |error| file_error::io("compare", path, error);
    let mut start = Vec::new();
    let file = File::open(path).map_err(io)?;
    file.take(START_BYTES).read_to_end(&mut start).map_err(io)?;
    let start = String::from_utf8_lossy(&start);
    let is_report = start.starts_with('{') && start.contains("\"command\": \"trace\"");
    if !is_report {
        return Ok(json(&analysed(&mut load(path)?, extent), None));
    }
    let file = BufReader::new(File::open(path).map_err(io)?);
    serde_json::from_reader(file).map_err(|error| {
        let cause = format!("{}: {error}", shown(path));
        Error::new(ErrorKind::InvalidValue, "compare", cause)
    })
}
