//! Traces that other tools wrote, as the activities that `trijet trace` reports about.
//!
//! [`kineto`] reads the traces of PyTorch's profiler, and [`nsys`] the exports of Nsight Systems.
//! [`clocks`] compares the clocks of several files. [`chrome`] and [`table`] write activities in
//! forms that other tools read. A trace has what its tool recorded: the report states in its notes
//! which questions it cannot answer.
#![forbid(unsafe_code)]

pub mod chrome;
pub mod clocks;
pub mod kineto;
mod microseconds;
mod names;
pub mod nsys;
pub mod table;
mod words;

use flate2::bufread::MultiGzDecoder;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use trijet_cupti::file::NAME_BYTES_MAX;

/// The reason why a trace was not read.
#[derive(Debug)]
pub enum TraceError {
    /// The system did not read the file, or its compression is damaged.
    Io(io::Error),
    /// The file is no trace of this kind, or contradicts itself.
    Format(String),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Format(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for TraceError {}

/// Whether a file that begins with these bytes may be JSON, which gzip may have compressed.
#[must_use]
pub fn is_json(start: &[u8]) -> bool {
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    start.starts_with(&GZIP) || first.is_some_and(|byte| matches!(byte, b'{' | b'['))
}

/// The clock of traces whose times are by the clock of the host.
pub(crate) const CLOCK: &str = "the times are by the clock of the host; ranks of several hosts are compared only as well as \
     their clocks agree";

/// The note about events whose time is missing or wrong.
pub(crate) fn without_time(count: u64) -> String {
    counted(count, "event has no time that can be read", "events have no time that can be read")
}

/// A number with the words for one and for several.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    let words = if count == 1 { one } else { several };
    format!("{count} {words}")
}

/// A text that is at most as long as a name.
pub(crate) fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(NAME_BYTES_MAX)].to_owned()
}

/// The first bytes of a file of gzip.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The bytes of a file, without the compression of gzip if it has one.
pub(crate) fn plain<'a>(file: impl Read + 'a) -> Result<Box<dyn Read + 'a>, TraceError> {
    let mut file = BufReader::with_capacity(1 << 20, file);
    let start = file.fill_buf().map_err(TraceError::Io)?;
    Ok(if start.starts_with(&GZIP) {
        Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}
