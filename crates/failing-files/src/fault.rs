//! The fault at one watched call, the calls that a file system lacks, and the log of all watched
//! calls.
//!
//! An environment variable that cannot be parsed ends the program. Otherwise a test would see a run
//! in which nothing fails.

use crate::target::Target;
use libc::{AT_FDCWD, c_int, c_long, c_void, timespec};
use std::ffi::CStr;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};

/// The call that `FAILING_FILES_AT` names.
#[derive(Clone, Copy)]
enum FaultyCall {
    Number(u64),
    /// The first call with this line in the log.
    Line(&'static [u8]),
}

/// The fault of this call.
#[derive(Clone, Copy)]
enum Fault {
    None,
    Error(c_int),
    Short,
    Tear,
    Before,
    After,
    /// The process stops before this call, and again before each later call. `SIGCONT` continues
    /// it.
    Stop,
    /// After the call, a file with this path appears.
    Appear(&'static CStr),
}

struct Settings {
    root: &'static [u8],
    log: c_long,
    at: FaultyCall,
    fault: Fault,
    /// The calls that the file system lacks: pairs `NAME=ERROR`, separated by commas.
    without: &'static [u8],
}

/// The number of bytes from which a read takes longer. A read of a header is shorter.
const PAGE_BYTES: usize = 4096;

/// The exit status of a program whose settings are wrong. `trijet` never ends with this status.
const REFUSED: c_int = 99;

static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
/// The number of watched calls so far.
static CALLS: AtomicU64 = AtomicU64::new(0);
/// Whether the call with the fault was made.
static REACHED: AtomicBool = AtomicBool::new(false);

/// The value of an environment variable. The program does not change this variable.
pub(crate) fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: `name` is a string of C.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: a value that exists is a string of C.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

fn settings() -> Option<&'static Settings> {
    let read = || {
        let root = variable(c"FAILING_FILES_ROOT")?.to_bytes();
        let Some(log) = variable(c"FAILING_FILES_LOG") else {
            refuse("FAILING_FILES_LOG is not set")
        };
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
        // SAFETY: the name of the log is a string of C.
        let log = unsafe { libc::syscall(libc::SYS_openat, AT_FDCWD, log.as_ptr(), flags, 0o600) };
        if log < 0 {
            refuse("the file FAILING_FILES_LOG cannot be opened");
        }
        let fault = variable(c"FAILING_FILES_FAULT").map_or(Fault::None, fault_of);
        let at = match variable(c"FAILING_FILES_AT").map(CStr::to_bytes) {
            None => FaultyCall::Number(0),
            Some(line) if line.contains(&b' ') => FaultyCall::Line(line),
            Some(text) => match number(text) {
                Some(at) => FaultyCall::Number(at),
                None => refuse("FAILING_FILES_AT is neither a number nor a line of the log"),
            },
        };
        let without = variable(c"FAILING_FILES_WITHOUT").map_or(&b""[..], CStr::to_bytes);
        Some(Settings { root, log, at, fault, without })
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// The fault that a setting names.
fn fault_of(text: &'static CStr) -> Fault {
    const APPEAR: &[u8] = b"appear=";
    match text.to_bytes() {
        b"short" => Fault::Short,
        b"tear" => Fault::Tear,
        b"before" => Fault::Before,
        b"after" => Fault::After,
        b"stop" => Fault::Stop,
        other if other.starts_with(APPEAR) => {
            let name = &text.to_bytes_with_nul()[APPEAR.len()..];
            Fault::Appear(CStr::from_bytes_with_nul(name).unwrap_or_default())
        }
        other => match other.strip_prefix(b"error=").and_then(number) {
            Some(error) => Fault::Error(error),
            None => refuse("FAILING_FILES_FAULT does not name a fault"),
        },
    }
}

/// Whether the file `target` is watched and its file system lacks the call `name`. If so, sets
/// `errno` to the error of this call.
pub(crate) fn lacks(name: &str, target: &Target) -> bool {
    let Some(settings) = settings() else { return false };
    if target.below(settings.root).is_none() {
        return false;
    }
    let mut pairs = settings.without.split(|byte| *byte == b',');
    let Some(error) = pairs
        .find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=").and_then(number))
    else {
        return false;
    };
    fail(error);
    true
}

/// Sets `errno` for a call that fails.
fn fail(error: c_int) {
    // SAFETY: the C library returns the address of the `errno` of this thread.
    unsafe { *libc::__errno_location() = error };
}

pub(crate) fn number<T: FromStr>(text: &[u8]) -> Option<T> {
    str::from_utf8(text).ok()?.parse().ok()
}

/// The value of a variable as a number; 0 if the variable is not set.
pub(crate) fn number_of(name: &'static CStr) -> c_long {
    let Some(text) = variable(name) else { return 0 };
    match number(text.to_bytes()) {
        Some(value) => value,
        None => refuse("FAILING_FILES_DELAY or FAILING_FILES_CLOCK is not a number"),
    }
}

/// Waits for the time that a read takes in addition. The slow disk serves one read of a process
/// after another.
fn delay_read() {
    static DELAY: OnceLock<c_long> = OnceLock::new();
    static DISK: Mutex<()> = Mutex::new(());
    let delay = *DELAY.get_or_init(|| number_of(c"FAILING_FILES_DELAY"));
    if delay > 0 {
        let _served = DISK.lock();
        let time = timespec { tv_sec: delay / 1000, tv_nsec: delay % 1000 * 1_000_000 };
        // SAFETY: `time` is a valid time, and the remaining time is not asked for.
        unsafe { libc::nanosleep(&raw const time, std::ptr::null_mut()) };
    }
}

/// Makes a call, or makes it fail. `real` makes the system call. For a call that moves bytes,
/// `bytes` is their number. `real` gets the number of bytes to move, which is smaller after a
/// fault.
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
    if lacks(name, target) {
        return -1;
    }
    if name == "read" && whole >= PAGE_BYTES {
        delay_read();
    }
    let is_at = match settings.at {
        FaultyCall::Number(at) => number == at,
        FaultyCall::Line(line) => {
            line.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b" "))
                == Some(below)
        }
    };
    // Only one call has the fault, and after it each call of a process that stops.
    let is_first = is_at && !REACHED.swap(true, Ordering::SeqCst);
    let is_later = matches!(settings.fault, Fault::Stop) && REACHED.load(Ordering::SeqCst);
    if !is_first && !is_later {
        return real(whole);
    }
    let half = if whole > 1 { whole / 2 } else { whole };
    match settings.fault {
        Fault::None => real(whole),
        Fault::Error(error) => {
            fail(error);
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
        Fault::Stop => {
            // SAFETY: `raise` sends the signal to this thread. The signal stops the whole process,
            // and this thread before the call returns.
            unsafe { libc::raise(libc::SIGSTOP) };
            real(whole)
        }
        Fault::Appear(path) => {
            let result = real(whole);
            // SAFETY: the C library returns the address of the `errno` of this thread.
            let error = unsafe { *libc::__errno_location() };
            appear(path);
            fail(error);
            result
        }
    }
}

/// Creates the file `path` with the bytes `mine`. Does nothing if `path` already exists.
fn appear(path: &CStr) {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the path is a string of C.
    let file = unsafe { libc::syscall(libc::SYS_openat, AT_FDCWD, path.as_ptr(), flags, 0o600) };
    if file >= 0 {
        // SAFETY: the call reads 4 bytes, and the string has that many.
        unsafe { libc::syscall(libc::SYS_write, file, b"mine".as_ptr(), 4) };
        // SAFETY: this function has opened the file, and nothing else uses it.
        unsafe { libc::syscall(libc::SYS_close, file) };
    }
}

/// Ends the process with a message and a distinct status.
pub(crate) fn refuse(cause: &str) -> ! {
    for part in ["failing-files: ", cause, "\n"] {
        // SAFETY: the call reads `part.len()` bytes, and `part` has that many.
        unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, part.as_ptr(), part.len()) };
    }
    // SAFETY: the call takes a status and does not return.
    unsafe { libc::_exit(REFUSED) }
}

/// Ends the process at once, as `kill -9` does.
fn die() -> ! {
    loop {
        // SAFETY: the signal goes to this process.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// Appends one line about a call to the log. One system call writes the line, so that lines of
/// several threads do not mix.
fn log(settings: &Settings, name: &str, below: &[u8]) {
    let mut line = [0; 512];
    let mut length = 0;
    for part in [name.as_bytes(), b" ", below, b"\n"] {
        let part = &part[..part.len().min(line.len() - length)];
        line[length..][..part.len()].copy_from_slice(part);
        length += part.len();
    }
    // SAFETY: `line` has `length` bytes.
    let written = unsafe {
        libc::syscall(libc::SYS_write, settings.log, line.as_ptr().cast::<c_void>(), length)
    };
    if usize::try_from(written) != Ok(length) {
        refuse("the file FAILING_FILES_LOG cannot be written");
    }
}
