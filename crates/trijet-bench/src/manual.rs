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

/// Makes `buffer` manual memory that only the events of the program order. The bad program of a
/// pair lacks one of these events, so some of its accesses to the buffer have no order.
pub(crate) fn unordered<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: the contract asks for an order between conflicting accesses, so that no bytes are
    // half written. The bad programs break it on purpose. Their results are arbitrary words, which
    // every element type allows. The words are compared with the right ones and used for nothing
    // else: no index, length or address is made of them. Frees and guards of the host still wait
    // for all streams. A kernel that takes an address or a loop's end from its input would make
    // this unsound.
    unsafe { buffer.order_manually() };
    buffer
}
