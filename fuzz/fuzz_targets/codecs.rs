//! Fuzz target: a block of any bytes is decoded or refused.
#![no_main]

#[path = "../../crates/trijet-codecs/tests/fuzzed/codecs.rs"]
mod codecs;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| codecs::check(bytes));
