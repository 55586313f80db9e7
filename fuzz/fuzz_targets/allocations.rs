//! Fuzz target: a trace of allocations of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-tools/tests/fuzzed/allocations.rs"]
mod allocations;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| allocations::check(bytes));
