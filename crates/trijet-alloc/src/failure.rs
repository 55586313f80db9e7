//! The errors of C functions, which cannot return a Rust error. Each thread stores the message of
//! its last error. For each C function, the first error is printed on standard error.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use trijet::{Error, ErrorKind, Result, probe};

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// A C function. Only the first error of this function is printed.
#[derive(Debug)]
pub(crate) struct Shown {
    call: &'static str,
    printed: AtomicBool,
}

impl Shown {
    pub(crate) const fn new(call: &'static str) -> Self {
        Self { call, printed: AtomicBool::new(false) }
    }
}

/// Stores the message of an error, so that [`last`] returns it.
fn keep(error: &Error) {
    let text = error.to_string().replace('\0', " ");
    let text = CString::new(text).unwrap_or_default();
    // If the thread is ending, the thread-local variable no longer exists, and the message is
    // discarded.
    drop(LAST.try_with(|last| last.replace(Some(text))));
}

/// The message of the last call of this thread that failed. Null if no call failed. The message is
/// valid until another call of the thread fails.
pub(crate) fn last() -> *const c_char {
    let found =
        LAST.try_with(|last| last.borrow().as_ref().map_or(std::ptr::null(), |s| s.as_ptr()));
    found.unwrap_or(std::ptr::null())
}

/// Runs the body `run` of a C function, and returns `refused` if `run` fails. A panic becomes an
/// error. The first error of each C function is printed, because callers such as PyTorch do not ask
/// for the message.
pub(crate) fn entered<R>(shown: &Shown, refused: R, run: impl FnOnce() -> Result<R>) -> R {
    let call = || {
        probe::refuse_in_child(shown.call)?;
        run()
    };
    let error = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error,
        Err(payload) => {
            // The drop of an unknown payload might panic again.
            std::mem::forget(payload);
            Error::new(
                ErrorKind::Panicked,
                shown.call,
                "the call panicked; standard error shows where",
            )
        }
    };
    keep(&error);
    if !shown.printed.swap(true, Ordering::Relaxed) {
        // If standard error is closed, there is no other place for the message. An error of the
        // write is therefore ignored.
        let call = shown.call;
        drop(writeln!(std::io::stderr(), "{error} (further errors of {call} are not shown)"));
    }
    refused
}

/// Stores an error without printing it, and returns `refused`. This is for requests of 0 bytes,
/// which PyTorch makes for empty tensors.
pub(crate) fn quiet<R>(refused: R, error: &Error) -> R {
    keep(error);
    refused
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Option<String> {
        LAST.with_borrow(|last| last.as_ref().map(|text| text.to_string_lossy().into_owned()))
    }

    #[test]
    fn a_panic_becomes_a_message_and_does_not_unwind() {
        static SHOWN: Shown = Shown::new("a call");
        assert_eq!(message(), None);
        assert_eq!(entered(&SHOWN, 7, || Ok(3)), 3);
        assert_eq!(message(), None);
        assert_eq!(entered(&SHOWN, 7, || panic!("broken")), 7);
        assert!(message().is_some_and(|text| text.contains("the call panicked")));
    }

    #[test]
    fn a_message_stays_with_its_thread() {
        static SHOWN: Shown = Shown::new("a call");
        let error = |what: &'static str| Err(Error::new(ErrorKind::InvalidValue, "a call", what));
        entered(&SHOWN, (), || error("of this thread\0with a zero"));
        std::thread::spawn(move || entered(&SHOWN, (), || error("of another one")))
            .join()
            .expect("the thread ends");
        assert!(message().is_some_and(|text| text.contains("of this thread with a zero")));
    }
}
