//! Fuzz target: a journal of any bytes is resumed or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/journal.rs"]
mod journal;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| journal::check(bytes));
