//! Tests of the command as users run it: the binary, real files, its exit status and its output.
//!
//! All runs use the host device, except in tests of the choice of a device.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod against;
mod bad_calls;
mod bad_files;
mod bad_places;
mod baseline;
mod bench;
#[path = "../../../trijet/tests/common/built.rs"]
mod built;
mod chain;
mod check;
mod checked;
mod claims;
mod devices;
mod doctor;
mod documents;
mod elements;
mod endings;
#[path = "../../../trijet-io/tests/common/files.rs"]
mod files;
mod formats;
mod held;
mod interruption;
mod json;
mod map;
#[path = "../../../trijet-tools/tests/common/terminal.rs"]
mod on_terminal;
mod operations;
mod outputs;
mod overlap;
mod overwrite;
mod own_kernel;
mod parts;
mod pipes;
mod printing;
#[path = "../../../trijet-tools/tests/common/ran.rs"]
mod ran;
mod reference;
mod replay;
mod sample;
mod shards;
mod shell;
mod skip_bad;
#[path = "../../../trijet-tools/tests/common/tables.rs"]
mod tables;
mod terminal;
mod trace;
mod words;
mod workdir;
