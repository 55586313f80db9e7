//! Fuzz target: bytes choose a random program. Its results must equal the results of a serial run.
#![no_main]

#[path = "../../crates/trijet/tests/oracle/calls.rs"]
mod calls;
#[path = "../../crates/trijet/tests/oracle/clean.rs"]
mod clean;
#[path = "../../crates/trijet/tests/oracle/closure.rs"]
mod closure;
#[path = "../../crates/trijet/tests/oracle/draw.rs"]
mod draw;
#[path = "../../crates/trijet/tests/oracle/explore.rs"]
mod explore;
#[path = "../../crates/trijet/tests/oracle/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/trijet/tests/oracle/ledger.rs"]
mod ledger;
#[path = "../../crates/trijet/tests/oracle/program.rs"]
mod program;
#[path = "../../crates/trijet/tests/cases/reference.rs"]
mod reference;
#[path = "../../crates/trijet/tests/oracle/run.rs"]
mod run;
#[path = "../../crates/trijet/tests/oracle/serial.rs"]
mod serial;
#[path = "../../crates/trijet/tests/oracle/shrink.rs"]
mod shrink;
#[path = "../../crates/trijet/tests/oracle/switches.rs"]
mod switches;
#[path = "../../crates/trijet/tests/oracle/text.rs"]
mod text;
#[path = "../../crates/trijet/tests/oracle/turns.rs"]
mod turns;
#[path = "../../crates/trijet/tests/oracle/valid.rs"]
mod valid;
#[path = "../../crates/trijet/tests/oracle/verdict.rs"]
mod verdict;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzed::check(bytes));
