//! Tests of the command `trijet-bench` as users run it: the binary, its exit status and its output.
//! All runs use the host device, or a driver that does nothing.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod benchmarks;
#[path = "../../../trijet/tests/common/built.rs"]
mod built;
#[path = "../../../trijet-tools/tests/common/terminal.rs"]
mod on_terminal;
#[path = "../../../trijet-tools/tests/common/ran.rs"]
mod ran;
#[path = "../../../trijet-tools/tests/common/tables.rs"]
mod tables;
mod workdir;
