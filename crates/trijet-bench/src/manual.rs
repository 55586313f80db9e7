//! Memory whose ordering the benchmarks take over. Apart, because saying so is unsafe.

use trijet::{Buffer, Element};

/// The buffer, ordered by hand: the benchmarks use it on one stream only.
pub(crate) fn by_hand<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: every operation on it is enqueued on the one stream of its burst, in whose order
    // they run, and the stream is synchronised before another burst begins.
    unsafe { buffer.order_manually() };
    buffer
}
