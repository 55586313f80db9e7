//! Whether this process is a child that a `fork` made after a driver was opened.
//!
//! Such a child has the memory of its parent, but only the thread that called `fork`. The workers
//! of a host device do not exist in the child. A lock may be held for ever by a thread that does
//! not exist in the child. CUDA does not support such a child. Calls of the library would hang or
//! fail for no visible reason. So every call is refused, and drops leak. A child that starts
//! another program with `exec`, as [`std::process::Command`] does, is not affected.

use crate::base::error::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process is a child of `fork`. Once set, the flag is never cleared.
static FORKED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
}

extern "C" fn in_child() {
    // No ordering is needed: the child has one thread.
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether the process is a child in which no driver works.
#[inline]
pub(crate) fn is_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Registers a handler for every later `fork`. A driver calls this before it starts threads.
///
/// # Errors
/// `Forked` in a child; `Unsupported` when the system does not register the handler.
pub(in crate::device) fn watch() -> Result<()> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    refuse("open")?;
    // SAFETY: `in_child` has the C signature that the call expects. `in_child` only stores into a
    // static atomic, which a child may do between `fork` and `exec`. This does not hold if
    // `in_child` takes a lock or allocates. The system stores the address of `in_child` until the
    // process ends, and the code of `in_child` is never unloaded. This does not hold in a shared
    // library that is closed again.
    let code = REGISTERED.get_or_init(|| unsafe { pthread_atfork(None, None, Some(in_child)) });
    if *code == 0 {
        return Ok(());
    }
    let cause = format!("pthread_atfork failed with error {code}: a fork would go unnoticed");
    Err(Error::new(ErrorKind::Unsupported, "open", cause))
}

/// Refuses a call in a child of `fork`.
///
/// # Errors
/// `Forked`.
pub(crate) fn refuse(op: &'static str) -> Result<()> {
    if is_child() { Err(refused(op)) } else { Ok(()) }
}

/// The error of a call in a child of `fork`.
#[cold]
pub(crate) fn refused(op: &'static str) -> Error {
    let cause = "the process was forked after a driver was opened, and the threads of the driver \
                 do not exist in the child; open devices after the fork, or start another \
                 program with exec";
    Error::new(ErrorKind::Forked, op, cause)
}
