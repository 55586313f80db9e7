//! Fuzz target: an .npy file of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/npy.rs"]
mod npy;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| npy::check(bytes));
