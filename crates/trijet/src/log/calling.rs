//! The right of the calling thread to call the driver.
//!
//! A host function must not call the driver (law A28), and neither must a child of `fork`. A mark of
//! the thread is up while it runs a host function; every verb that may reach the driver asks
//! [`refuse`] first and returns its error.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::StreamClass;
use crate::device::fork;
use std::cell::{Cell, RefCell};

/// Refused calls of one host function that a record keeps.
const REFUSED_MAX: usize = 16;

thread_local! {
    static INSIDE: Cell<Option<At>> = const { Cell::new(None) };
    /// Calls that the host function made which runs on this thread.
    static REFUSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// Refuses a call that may reach the driver while this thread runs a host function, and in a child
/// of `fork`.
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

/// Whether this thread must not call the driver: it runs a host function at the moment, or the
/// process is a child of `fork`.
#[inline]
pub(crate) fn inside() -> bool {
    INSIDE.get().is_some() || forked()
}

/// Whether the process is a child of `fork`: then no lock may be taken either, since a thread that
/// is not there any more may have it.
#[inline]
pub(crate) fn forked() -> bool {
    fork::is_child()
}

/// The host function that this thread runs at the moment.
#[inline]
pub(crate) fn running() -> Option<At> {
    INSIDE.get()
}

/// Runs a host function that stands at `at`; returns what `run` returns, and the calls that were
/// refused meanwhile.
pub(crate) fn run_inside<R>(at: At, run: impl FnOnce() -> R) -> (R, Vec<&'static str>) {
    INSIDE.set(Some(at));
    let outcome = run();
    INSIDE.set(None);
    (outcome, REFUSED.take())
}

/// Where a host function stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) position: Position,
    pub(crate) device: DeviceId,
    pub(crate) class: StreamClass,
}
