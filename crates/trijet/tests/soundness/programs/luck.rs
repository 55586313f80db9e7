//! Closures that end in the drawn way, and the reports of the library about them.

use super::step::End;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use trijet::{Error, ErrorKind, Result};

/// The outcome of a step; the text says what is wrong.
pub(super) type Checked = std::result::Result<(), String>;

/// The outcome of a call that must succeed.
pub(super) fn must<R>(outcome: Result<R>) -> std::result::Result<R, String> {
    outcome.map_err(|error| format!("{error} ({:?})", error.kind()))
}

/// A payload whose drop panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("drawn panic of a payload");
        }
    }
}

/// Panics with a payload of this kind.
pub(super) fn explode(kind: u8) {
    match kind {
        0 => panic!("drawn panic"),
        1 => panic_any(7_u32),
        _ => panic_any(Bomb),
    }
}

/// Whether a payload was drawn, so that nothing needs to be printed.
pub(super) fn is_drawn(payload: &(dyn std::any::Any + Send)) -> bool {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    // The message of an assertion begins with its own words.
    text.is_some_and(|text| text.contains("drawn panic") || text == "a scoped thread panicked")
        || payload.is::<u32>()
        || payload.is::<Bomb>()
}

/// Ends a closure in the drawn way.
pub(super) fn finish(end: End) -> Result<()> {
    match end {
        End::Well => Ok(()),
        End::Error => Err(Error::new(ErrorKind::Io, "drawn", "an error")),
        End::Panic(kind) => {
            explode(kind);
            Ok(())
        }
    }
}

/// The result of a call whose closures may panic; `None` if a panic came through it.
pub(super) fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(call)).map_err(std::mem::forget).ok()
}

/// Whether an error reports the panic of a host function.
pub(super) fn is_of_host_function(error: &Error) -> bool {
    error.kind() == ErrorKind::Panicked && error.to_string().starts_with("host function")
}

/// Panics of host functions, which a later call reports.
#[derive(Clone, Default)]
pub(super) struct Luck {
    drawn: Arc<AtomicU64>,
    reported: Arc<AtomicU64>,
    /// Whether a report may have been dropped.
    is_forgiven: Arc<AtomicBool>,
    complaints: Arc<Mutex<Vec<String>>>,
}

impl Luck {
    pub(super) fn will_panic(&self) {
        self.drawn.fetch_add(1, Relaxed);
    }

    pub(super) fn complain(&self, what: String) {
        self.complaints.lock().unwrap_or_else(|e| e.into_inner()).push(what);
    }

    /// Repeats a call that reports panics of host functions.
    pub(super) fn insist<R>(
        &self,
        mut call: impl FnMut() -> Result<R>,
    ) -> std::result::Result<R, String> {
        loop {
            match call() {
                Ok(value) => return Ok(value),
                Err(error) if is_of_host_function(&error) && self.may_report() => {}
                Err(error) => return Err(format!("{error} ({:?})", error.kind())),
            }
        }
    }

    /// Counts a report, unless there are more reports than panics of host functions.
    pub(super) fn may_report(&self) -> bool {
        let count = |reported| (reported < self.drawn.load(Relaxed)).then_some(reported + 1);
        self.reported.fetch_update(Relaxed, Relaxed, count).is_ok()
    }

    /// Reports may be dropped from here on.
    pub(super) fn forgive(&self) {
        self.is_forgiven.store(true, Relaxed);
    }

    /// Whether panics were reported, and functions of tasks found no fault.
    pub(super) fn verdict(&self) -> Checked {
        let complaints = self.complaints.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(first) = complaints.first() {
            return Err(first.clone());
        }
        let (drawn, reported) = (self.drawn.load(Relaxed), self.reported.load(Relaxed));
        if drawn > reported && !self.is_forgiven.load(Relaxed) {
            return Err(format!("{drawn} host functions panicked, and {reported} were reported"));
        }
        Ok(())
    }
}
