//! Fuzz target: an HDF5 file of any bytes is read or refused.
#![no_main]

#[path = "../../crates/trijet-io/tests/fuzzed/workdir.rs"]
mod workdir;
#[path = "../../crates/trijet-io/tests/fuzzed/arrays.rs"]
mod arrays;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| arrays::check_hdf5(bytes));
