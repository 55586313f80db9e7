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

/// The buffer, ordered by nobody but the events of the program: in the bad half of a pair of programs,
/// which shows what a missing one does, by nobody at all.
pub(crate) fn unordered<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: the promise is that no conflict is without an order, so that no bytes are half written,
    // and the bad programs break it to show just that. What comes out are arbitrary words, which every
    // element type allows, and they are compared with the right ones and used for nothing else: no
    // index, length or address is made of them. Frees and guards of the host wait for all streams as
    // ever. It would be unsound with a kernel that takes an address or a loop's end from its input.
    unsafe { buffer.order_manually() };
    buffer
}
