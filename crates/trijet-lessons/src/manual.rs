//! Buffers that the programs order by hand. They have a separate file because `order_manually` is
//! unsafe.

use trijet::{Buffer, Element};

/// Orders a buffer by the events of the program alone. The bad form of a lesson lacks one of these
/// events, so some of its accesses to the buffer have no order.
pub fn unordered<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: the contract asks for an order between conflicting accesses, so that no bytes are
    // half written. The bad forms break it on purpose. Their results are arbitrary words, which
    // every element type allows. The words are compared with the right ones and used for nothing
    // else: no index, length or address is made of them. Frees and guards of the host still wait
    // for all streams. A kernel that takes an address or a loop's end from its input would make
    // this unsound.
    unsafe { buffer.order_manually() };
    buffer
}
