//! Fuzz target: a folder of PNG images of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/images.rs"]
mod images;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| images::check(bytes));
