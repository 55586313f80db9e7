//! The position of the call that enqueues: an error of an operation can then say which one it was.
//!
//! The floors above number operations; a driver does not know their numbers. While they keep a
//! record they say here what the calling thread enqueues next, and the host device keeps it with the
//! operation until it is complete.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use std::cell::Cell;

thread_local! {
    static ENQUEUED: Cell<Option<Position>> = const { Cell::new(None) };
}

/// What the calling thread enqueues from now on has this position, or none that is known.
#[inline]
pub(crate) fn set(position: Option<Position>) {
    ENQUEUED.set(position);
}

/// The position of what the calling thread enqueues.
#[inline]
pub(in crate::device) fn get() -> Option<Position> {
    ENQUEUED.get()
}
