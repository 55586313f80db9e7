//! The command as a user runs it: the real binary, real files, its exit code and its words.
//!
//! Every run is on the host device unless a test is about the choice of the device.
#![expect(clippy::unwrap_used, reason = "a helper that fails should fail its test")]

mod bad_calls;
mod bad_files;
mod bad_places;
mod check;
mod desk;
mod devices;
mod doctor;
#[path = "../common/files.rs"]
mod files;
mod interruption;
mod map;
mod overlap;
mod printing;
mod reference;
mod trace;
