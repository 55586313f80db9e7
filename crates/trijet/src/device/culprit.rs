//! The position (the stream and the number in the stream) of the operation that the calling thread
//! enqueues. An error of the operation names this position.
//!
//! The layers above number the operations. A driver does not know these numbers. While a trace is
//! taken, the layers above set the position before each call. The host device stores the position
//! with the operation until the operation is complete.
#![forbid(unsafe_code)]

use crate::base::id::Position;
use std::cell::Cell;

thread_local! {
    static ENQUEUED: Cell<Option<Position>> = const { Cell::new(None) };
}

/// Sets the position of the next operation of the calling thread; `None` if the position is not
/// known.
#[inline]
pub(crate) fn set(position: Option<Position>) {
    ENQUEUED.set(position);
}

/// The position of the operation that the calling thread enqueues.
#[inline]
pub(in crate::device) fn get() -> Option<Position> {
    ENQUEUED.get()
}
