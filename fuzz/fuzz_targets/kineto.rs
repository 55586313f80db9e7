//! Fuzz target: a trace of another tool of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-traces/tests/fuzzed/kineto.rs"]
mod kineto;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| kineto::check(bytes));
