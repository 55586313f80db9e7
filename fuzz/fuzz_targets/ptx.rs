//! Fuzz target: a PTX text of any bytes is scanned.
#![no_main]

#[path = "../../crates/trijet/tests/ptx/fuzzed.rs"]
mod fuzzed;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
