//! Buffers that the benchmarks order by hand. These functions have a separate file because
//! `order_manually` is unsafe.

use trijet::{Buffer, Element};

/// Makes `buffer` manual memory: the program, and not the library, orders the kernels and copies
/// that use the buffer. The benchmarks use such a buffer on one stream only, or for races of
/// kernels on the host device.
pub(crate) fn by_hand<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: every operation on the buffer is enqueued on the one stream of its burst, runs in the
    // order of that stream, and is complete before another burst begins. In a search through all
    // orders, the kernels accept any order, and the host device never runs two of them at once on
    // the same bytes.
    unsafe { buffer.order_manually() };
    buffer
}
