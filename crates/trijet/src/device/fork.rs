//! Whether this process is a child that a `fork` made after a driver was opened.
//!
//! Such a child has the memory of its parent and none of its threads: the workers of a host device
//! are gone, CUDA works in no child (its documentation), and any lock may be held by a thread that
//! does not exist. Every call there would hang or fail without a reason, so it is refused, and drops
//! leak. A child that goes on to another program (`exec`), as [`std::process::Command`] makes it,
//! never asks.

use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Up in a child of `fork`, and never let down again.
static FORKED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn in_child() {
    // The thread that forked is the only one of the child.
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether the process is a child in which no driver works.
#[inline]
pub(crate) fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Notices every `fork` from now on. Drivers call it before they start anything.
///
/// # Errors
/// `Forked` in a child; `Unsupported` when the system has no room for the handler.
pub(in crate::device) fn watch() -> Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    refuse("open")?;
    // SAFETY: the handler stores into a static atomic and nothing else, which is allowed between
    // `fork` and `exec`; it is a function of the program, so it is there as long as the process.
    let code = REGISTERED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(in_child)) });
    if *code == 0 {
        return Ok(());
    }
    let cause = format!("the system cannot tell of a fork (error {code})");
    Err(Error::new(ErrorKind::Unsupported, "open", cause))
}

/// Refuses a call in a child.
///
/// # Errors
/// `Forked`.
pub(crate) fn refuse(op: &'static str) -> Result<()> {
    if is_child() { Err(refused(op)) } else { Ok(()) }
}

/// The refusal of a call in a child.
#[cold]
pub(crate) fn refused(op: &'static str) -> Error {
    let cause = "called in a child that forked after a driver was opened, which has none of its \
                 threads; open devices after the fork, or start another program with exec";
    Error::new(ErrorKind::Forked, op, cause)
}
