//! Libraries that cargo built with the tests, for several test programs.

use std::path::PathBuf;

/// The library with this file name.
pub(crate) fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    let file = program.with_file_name(name);
    assert!(file.exists(), "{} is built with the tests", file.display());
    file
}

/// The driver of empty functions, which is also a run-time compiler.
pub(crate) fn empty_driver() -> PathBuf {
    library("libempty_cuda.so")
}
