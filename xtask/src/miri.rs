//! The tests of unsafe code under Miri, which sees what a test cannot: reads of bytes that nobody
//! wrote, references that alias, data races, and memory that leaks.
//!
//! Miri is a component of the nightly compiler. Where that is missing nothing runs, and the last
//! line says so, with the number of tests that were not run.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::{Command, Output};

/// Which tests: the arguments of `cargo test`, and the filters of the harness.
struct Part {
    cargo: &'static [&'static str],
    filters: &'static [&'static str],
}

/// The bytes of the host device with their locks, the guards of page-locked memory, host functions.
/// What opens a library is left out, because Miri loads none, and so is what only computes: searches
/// and properties of safe code take hours here. These take two minutes together.
const PARTS: [Part; 2] = [
    Part {
        cargo: &["--lib"],
        filters: &["device::region", "memory::", "stream::callback", "launch::"],
    },
    Part {
        cargo: &["--test", "semantics"],
        filters: &[
            "threads::a_buffer_dropped_inside_a_host_function_is_freed_later",
            "threads::a_copy_of_nothing_does_nothing",
            "threads::a_host_function_runs_after_prior_and_before_later_work",
            "threads::a_panic_of_a_host_function_is_returned_once",
            "threads::a_scope_lands_its_downloads",
            "threads::a_ticket_orders_the_thread_that_waits",
            "threads::dropping_a_stream_with_pending_work_still_delivers",
            "threads::over_waits_of_a_first_crossing_are_counted",
            "threads::pinned_guards_wait_for_the_users_of_their_range_only",
            "threads::wait_before_record_is_noop",
            "greedy::a_scope_lands_its_downloads",
            "greedy::pinned_guards_wait_for_the_users_of_their_range_only",
        ],
    },
];

/// Runs every part.
pub(crate) fn run() -> Result<()> {
    if let Err(why) = available() {
        println!("== miri: SKIPPED {} parts: {why}", PARTS.len());
        return Ok(());
    }
    for part in &PARTS {
        let status = Command::new("cargo")
            .args(["+nightly", "miri", "test", "--package", "trijet"])
            .args(part.cargo)
            .arg("--")
            .args(part.filters)
            .current_dir(root())
            // The host device asks for the number of processors, and threads for the time.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .status()?;
        if !status.success() {
            return Err(format!("miri: {:?} failed", part.cargo).into());
        }
    }
    Ok(())
}

/// Whether Miri is there, after asking for it.
fn available() -> std::result::Result<(), String> {
    let outcome = |output: std::io::Result<Output>| match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(text.lines().next().unwrap_or("no word why").to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    let version = || Command::new("cargo").args(["+nightly", "miri", "--version"]).output();
    outcome(version()).or_else(|_| {
        let components = ["+nightly", "component", "add", "miri", "rust-src"];
        outcome(Command::new("rustup").args(components).output())?;
        outcome(version())
    })
}
