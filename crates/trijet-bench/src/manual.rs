//! Memory whose ordering the benchmarks take over. Apart, because saying so is unsafe.

use trijet::{Buffer, Element};

/// The buffer, ordered by hand: the benchmarks use it on one stream only, or to have kernels race on
/// the host device.
pub(crate) fn by_hand<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: every operation on it is enqueued on the one stream of its burst, in whose order
    // they run, and the stream is synchronised before another burst begins. Where all orders of a
    // program are tried, the kernels mix numbers, whichever comes first, and the host device keeps
    // them apart.
    unsafe { buffer.order_manually() };
    buffer
}
