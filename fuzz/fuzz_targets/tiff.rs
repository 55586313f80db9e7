//! Fuzz target: a TIFF file of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/tiff.rs"]
mod tiff;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tiff::check(bytes));
