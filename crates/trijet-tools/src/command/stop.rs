//! Signals. Ctrl-C, SIGTERM and SIGHUP stop a run between two chunks, or a benchmark between two
//! runs. SIGXFSZ, which the system sends for a file that is too large, does not stop the process.
#![forbid(unsafe_code)]

use super::print::print_stderr;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;
use trijet::{Cancel, Error, ErrorKind, Result};

/// The number of the signal that has cancelled the run. 0 if there was no signal.
static STOPPED_BY: AtomicI32 = AtomicI32::new(0);

/// The exit status that shells define for a process that this signal has ended.
fn status_of(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(u8::MAX)
}

/// The exit status of a run that a signal has cancelled.
#[must_use]
pub fn status() -> u8 {
    status_of(STOPPED_BY.load(Ordering::SeqCst))
}

/// Whether SIGTERM has cancelled the run. Engines of clusters send this signal before they take a
/// machine away.
#[must_use]
pub fn is_terminated() -> bool {
    STOPPED_BY.load(Ordering::SeqCst) == SIGTERM
}

/// Installs a handler for signals. The first signal cancels the run, which then ends at its next
/// suitable point. The second signal ends the process at once. `when` is the name of the suitable
/// point in the message about the first signal.
///
/// # Errors
/// `Unsupported` if the system does not allow a handler or a thread.
pub fn cancel_on_signals(when: &'static str) -> Result<Cancel> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
    // `nohup` ignores SIGHUP, so that a program continues after its terminal is closed. An ignored
    // SIGHUP stays ignored.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP).map_err(refused)?;
    }
    let cancel = Cancel::new();
    let stopped = cancel.clone();
    let wait = move || {
        for signal in signals.forever() {
            if stopped.is_cancelled() {
                std::process::exit(i32::from(status_of(signal)));
            }
            let again = if signal == SIGINT { "press Ctrl-C again" } else { "signal again" };
            print_stderr(format_args!("\nstopping {when}; {again} to stop immediately"));
            STOPPED_BY.store(signal, Ordering::SeqCst);
            stopped.cancel();
        }
    };
    thread::Builder::new().name("signals".to_owned()).spawn(wait).map_err(refused)?;
    Ok(cancel)
}

/// Makes a write beyond the limit of file sizes (`ulimit -f`) return an error. Without this
/// handler, such a write would end the process with a signal.
///
/// # Errors
/// `Unsupported` if the system does not allow a handler.
pub fn outlive_file_limit() -> Result<()> {
    let is_reached = Arc::new(AtomicBool::new(false));
    // The flag is not read, because the write returns an error.
    flag::register(SIGXFSZ, is_reached).map(drop).map_err(refused)
}

fn refused(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unsupported, "signals", "cannot install a handler for signals")
        .caused_by(error)
}

/// Whether the signal was already ignored when this process started. `false` if the system does not
/// report this.
fn is_ignored(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_else(|_| String::new());
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
