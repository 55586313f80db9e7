//! Fuzz target: a Zarr array of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/zarr.rs"]
mod zarr;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| zarr::check(bytes));
