//! The call that fails, and the log of all calls.

use crate::target::Target;
use libc::{AT_FDCWD, c_int, c_long, c_void};
use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What happens to the call.
#[derive(Clone, Copy)]
enum Fault {
    None,
    Error(c_int),
    Short,
    Tear,
    Before,
    After,
}

struct Settings {
    root: &'static [u8],
    log: c_long,
    at: u64,
    fault: Fault,
}

static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
/// The number of the last watched call.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// The value of an environment variable, which the program does not change.
fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` is a string of C.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value that exists is a string of C.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn settings() -> Option<&'static Settings> {
    let read = || {
        let root = variable(c"FAILING_FILES_ROOT")?.to_bytes();
        let log = variable(c"FAILING_FILES_LOG")?;
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: the name of the log is a string of C.
        let log = unsafe { libc::syscall(libc::SYS_openat, AT_FDCWD, log.as_ptr(), flags, 0o600) };
        let text = |name| variable(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        let fault = match text(c"FAILING_FILES_FAULT") {
            "short" => Fault::Short,
            "tear" => Fault::Tear,
            "before" => Fault::Before,
            "after" => Fault::After,
            other => {
                let error = other.strip_prefix("error=").and_then(|error| error.parse().ok());
                error.map_or(Fault::None, Fault::Error)
            }
        };
        let at = text(c"FAILING_FILES_AT").parse().unwrap_or(0);
        Some(Settings { root, log, at, fault })
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// Makes a call, or lets it fail. `real` makes it, and takes the number of bytes where the call moves
/// bytes.
pub(crate) fn call(
    name: &str,
    target: &Target,
    bytes: Option<usize>,
    real: impl Fn(usize) -> c_long,
) -> c_long {
    let whole = bytes.unwrap_or(0);
    let Some(settings) = settings() else { return real(whole) };
    let Some(below) = target.below(settings.root) else { return real(whole) };
    let number = CALLS.fetch_add(1, Ordering::SeqCst) + 1;
    log(settings, name, below);
    if number != settings.at {
        return real(whole);
    }
    let half = if whole > 1 { whole / 2 } else { whole };
    match settings.fault {
        Fault::None => real(whole),
        Fault::Error(error) => {
            // SAFETY: the C library has a place for the error of each thread.
            unsafe { *libc::__errno_location() = error };
            -1
        }
        Fault::Short => real(half),
        Fault::Tear => {
            if bytes.is_some() {
                real(half);
            }
            die()
        }
        Fault::Before => die(),
        Fault::After => {
            real(whole);
            die()
        }
    }
}

/// Ends the process as the system does.
fn die() -> ! {
    loop {
        // SAFETY: the signal goes to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// Appends a line with one call, so that lines of threads do not mix.
fn log(settings: &Settings, name: &str, below: &[u8]) {
    let mut line = [0; 512];
    let mut length = 0;
    for part in [name.as_bytes(), b" ", below, b"\n"] {
        let part = &part[..part.len().min(line.len() - length)];
        line[length..][..part.len()].copy_from_slice(part);
        length += part.len();
    }
    // SAFETY: `line` has `length` bytes.
    unsafe { libc::syscall(libc::SYS_write, settings.log, line.as_ptr().cast::<c_void>(), length) };
}
