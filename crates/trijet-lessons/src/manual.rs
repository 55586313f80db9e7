//! Buffers that the programs order by hand. They have a separate file because `order_manually` is
//! unsafe.

use trijet::{Buffer, Element};

/// Lets the events of the program alone order the accesses to a buffer. The bad form of a lesson
/// lacks one of these events, so some of its accesses to the buffer have no order.
pub fn unordered<T: Element, S>(mut buffer: Buffer<T, S>) -> Buffer<T, S> {
    // SAFETY: the contract asks for an order between conflicting accesses, so that no bytes are
    // half written. The bad forms break this contract on purpose. Their results are arbitrary
    // words, which every element type allows. The words are only compared with the right words: no
    // index, length or address is computed from them. Frees and guards of the host still wait for
    // all streams. This does not hold if a kernel takes an address or the end of a loop from its
    // input.
    unsafe { buffer.order_manually() };
    buffer
}
