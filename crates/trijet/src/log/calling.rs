//! The check that the calling thread may call the driver.
//!
//! A host function must not call the driver (law A28), and neither must a child of `fork`. A
//! thread-local value says which host function the thread runs. Every function that may reach the
//! driver calls [`refuse`] first and returns its error.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::StreamClass;
use crate::device::fork;
use std::cell::{Cell, RefCell};

/// The most refused calls of one host function that a ledger gets.
const REFUSED_MAX: usize = 16;

thread_local! {
    static INSIDE: Cell<Option<At>> = const { Cell::new(None) };
    /// The refused calls of the host function that this thread runs.
    static REFUSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Refuses a call that may reach the driver, if this thread runs a host function or if the process
/// is a child of `fork`.
#[inline]
pub(crate) fn refuse(op: &'static str) -> Result<()> {
    if inside() { Err(refused(op)) } else { Ok(()) }
}

#[cold]
fn refused(op: &'static str) -> Error {
    if forked() {
        return fork::refused(op);
    }
    REFUSED.with_borrow_mut(|calls| {
        if calls.len() < REFUSED_MAX {
            calls.push(op);
        }
    });
    let cause = "called inside a host function, which must not call the driver";
    Error::new(ErrorKind::InCallback, op, cause)
}

/// Whether this thread must not call the driver, because it runs a host function or because the
/// process is a child of `fork`.
#[inline]
pub(crate) fn inside() -> bool {
    INSIDE.get().is_some() || forked()
}

/// Whether the process is a child of `fork`. A child must not take locks either, because a thread
/// that holds one may exist only in the parent.
#[inline]
pub(crate) fn forked() -> bool {
    fork::is_child()
}

/// The host function that this thread runs, if any.
#[inline]
pub(crate) fn running() -> Option<At> {
    INSIDE.get()
}

/// Runs the host function at `at`. Returns the result of `run`, and the calls that were refused
/// meanwhile.
pub(crate) fn run_inside<R>(at: At, run: impl FnOnce() -> R) -> (R, Vec<&'static str>) {
    INSIDE.set(Some(at));
    let outcome = run();
    INSIDE.set(None);
    (outcome, REFUSED.take())
}

/// The position, the device and the stream class of a host function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) position: Position,
    pub(crate) device: DeviceId,
    pub(crate) class: StreamClass,
}
