//! The check that the calling thread may call the driver.
//!
//! A host function must not call the driver (law A28), and neither must a child of `fork`. A
//! thread-local value names the host function that the thread runs. Every function that may call
//! the driver first calls [`refuse`], and returns the error of that call.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::{DeviceId, Position};
use crate::base::ledger::StreamClass;
use crate::device::fork;
use std::cell::{Cell, RefCell};

/// Maximum number of refused calls per host function that a ledger contains.
const REFUSED_MAX: usize = 16;

thread_local! {
    static DOES: Cell<Does> = const { Cell::new(Does::Program) };
    /// The names of the refused calls of the host function that this thread runs.
    static REFUSED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// The kind of code that this thread runs.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// The thread runs code of the program.
    Program,
    /// The thread runs a host function.
    HostFn(At),
    /// The thread runs code of the program whose operations are recorded.
    Recorded,
}

/// Returns an error if this thread runs a host function or if the process is a child of `fork`.
/// Calls that may reach the driver begin with this check.
#[inline]
pub(crate) fn refuse(op: &'static str) -> Result<()> {
    if inside() { Err(refused(op)) } else { Ok(()) }
}

#[cold]
fn refused(op: &'static str) -> Error {
    if forked() {
        return fork::refused(op);
    }
    // A thread of the driver that is ending no longer has the list. The calls of such a thread are
    // refused, but not noted.
    let noted = REFUSED.try_with(|calls| {
        let mut calls = calls.borrow_mut();
        if calls.len() < REFUSED_MAX {
            calls.push(op);
        }
    });
    noted.unwrap_or(());
    let cause = "called inside a host function, which must not call the driver";
    Error::new(ErrorKind::InCallback, op, cause)
}

/// Whether this thread must not call the driver, because it runs a host function or because the
/// process is a child of `fork`.
#[inline]
pub(crate) fn inside() -> bool {
    running().is_some() || forked()
}

/// Whether this thread may enqueue operations in every stream.
#[inline]
pub(crate) fn is_free() -> bool {
    matches!(DOES.get(), Does::Program) && !forked()
}

/// Whether this thread runs code of the program whose operations are recorded in a graph.
pub(crate) fn records() -> bool {
    matches!(DOES.get(), Does::Recorded)
}

/// Runs code of the program whose operations are recorded in a graph. The code can enqueue only in
/// streams of the recording.
pub(crate) fn recorded<R>(run: impl FnOnce() -> R) -> R {
    doing(Does::Recorded, run)
}

/// Runs code of the library itself, while the code around it is recorded in a graph.
pub(crate) fn not_recorded<R>(run: impl FnOnce() -> R) -> R {
    doing(if records() { Does::Program } else { DOES.get() }, run)
}

fn doing<R>(does: Does, run: impl FnOnce() -> R) -> R {
    /// Restores the previous state of the thread, even after a panic.
    struct Restore(Does);
    impl Drop for Restore {
        fn drop(&mut self) {
            DOES.set(self.0);
        }
    }
    let _restore = Restore(DOES.replace(does));
    run()
}

/// Whether the process is a child of `fork`. A child must not take locks: the thread that holds a
/// lock may exist only in the parent.
#[inline]
pub(crate) fn forked() -> bool {
    fork::is_child()
}

/// The host function that this thread runs. `None` if it runs none.
#[inline]
pub(crate) fn running() -> Option<At> {
    match DOES.get() {
        Does::HostFn(at) => Some(at),
        Does::Program | Does::Recorded => None,
    }
}

/// Calls `run` as the host function at `at`. Returns the result of `run`, and the names of the
/// calls that were refused meanwhile.
pub(crate) fn run_inside<R>(at: At, run: impl FnOnce() -> R) -> (R, Vec<&'static str>) {
    let outcome = doing(Does::HostFn(at), run);
    (outcome, REFUSED.try_with(RefCell::take).into_iter().flatten().collect())
}

/// The position, the device and the stream class of a host function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At {
    pub(crate) position: Position,
    pub(crate) device: DeviceId,
    pub(crate) class: StreamClass,
}
