//! Errors of `trijet trace` about the operating system.
#![forbid(unsafe_code)]

use std::io;
use trijet::{Error, ErrorKind};

pub(super) fn failed(doing: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, doing, error.to_string())
}
