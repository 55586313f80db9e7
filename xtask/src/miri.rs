//! `miri`: runs the tests of unsafe code under Miri, which detects reads of uninitialised bytes,
//! aliasing references, data races and memory leaks.
//!
//! Miri is a component of the nightly compiler. If it is missing and cannot be installed, the task
//! prints SKIPPED and the number of parts that were not run.
#![forbid(unsafe_code)]

use crate::tools::{Result, root};
use std::process::{Command, Output};
use std::thread;

/// A selection of tests: arguments of `cargo test`, and filters of the test harness.
struct Part {
    cargo: &'static [&'static str],
    filters: &'static [&'static str],
}

/// The tests of the memory of the host device and its locks, of the guards of page-locked memory,
/// and of host functions. Tests that open a library are left out, because Miri cannot load one.
/// Searches and property tests of safe code are left out, because they take hours under Miri. The
/// remaining tests take two minutes.
const PARTS: [Part; 3] = [
    Part {
        cargo: &["--lib"],
        // Two modules are skipped: `device::host::memory` has long searches, and `launch::compiled`
        // opens a library.
        filters: &[
            "device::region",
            "memory::",
            "launch::",
            "log::",
            "--skip=device::host::memory",
            "--skip=launch::compiled",
        ],
    },
    Part {
        cargo: &["--test", "semantics"],
        filters: &[
            "threads::a_buffer_dropped_inside_a_host_function_is_freed_later",
            "threads::a_copy_of_nothing_does_nothing",
            "threads::a_host_function_runs_after_prior_and_before_later_work",
            "threads::a_panic_of_a_host_function_is_returned_once",
            "threads::a_scope_lands_its_downloads",
        ],
    },
    Part {
        cargo: &["--test", "semantics"],
        filters: &[
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

impl Part {
    fn run(&self) -> std::io::Result<Output> {
        Command::new("cargo")
            .args(["+nightly", "miri", "test", "--package", "trijet"])
            .args(self.cargo)
            .arg("--")
            .args(self.filters)
            .current_dir(root())
            // The host device reads the number of processors, and threads read the time.
            .env("MIRIFLAGS", "-Zmiri-disable-isolation")
            .output()
    }
}

/// Runs all parts at the same time, because Miri uses one processor per part. Prints their outputs.
pub(crate) fn run() -> Result<()> {
    if let Err(reason) = available() {
        println!("== miri: SKIPPED {} parts: {reason}", PARTS.len());
        return Ok(());
    }
    let outputs = thread::scope(|scope| {
        let parts = PARTS.each_ref().map(|part| scope.spawn(|| part.run()));
        parts.map(|part| part.join().expect("a part does not panic"))
    });
    let mut failed = Vec::new();
    for (part, output) in PARTS.iter().zip(outputs) {
        let output = output?;
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            failed.push(part.cargo.join(" "));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("miri: failed: {failed:?}").into()) }
}

/// Prepares Miri, and installs it first if it is missing.
fn available() -> std::result::Result<(), String> {
    let outcome = |output: std::io::Result<Output>| match output {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Err(text.lines().next().unwrap_or("the command printed no reason").to_owned())
        }
        Err(error) => Err(error.to_string()),
    };
    // The standard library for Miri is built once, before several parts need it at the same time.
    let setup = || Command::new("cargo").args(["+nightly", "miri", "setup"]).output();
    outcome(setup()).or_else(|_| {
        let components = ["+nightly", "component", "add", "miri", "rust-src"];
        outcome(Command::new("rustup").args(components).output())?;
        outcome(setup())
    })
}
