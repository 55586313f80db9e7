//! Errors of the operating system in `trijet trace`.
#![forbid(unsafe_code)]

use std::io;
use trijet::{Error, ErrorKind};

pub(super) fn failed(doing: &'static str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Io, doing, error.to_string())
}
