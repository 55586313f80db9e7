//! Any bytes choose a program; it computes what it computes one call after the other.
#![no_main]

#[path = "../../crates/trijet/tests/oracle/closure.rs"]
mod closure;
#[path = "../../crates/trijet/tests/oracle/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/trijet/tests/oracle/program.rs"]
mod program;
#[path = "../../crates/trijet/tests/cases/reference.rs"]
mod reference;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
