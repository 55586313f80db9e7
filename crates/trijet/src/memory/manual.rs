//! Manual ordering: the user places the events.

use super::buffer::{Buffer, Element};

impl<T: Element, S> Buffer<T, S> {
    /// Takes the ordering of the whole allocation over: from now on no waits are inserted for
    /// uses of it and no events recorded; the caller must order them. Frees and host accesses
    /// still wait: for the last operation of each stream on any part of the allocation, unless
    /// the thread knows it to be complete, as after synchronising with a later event.
    ///
    /// # Safety
    /// Until the buffer and all parts split from it are gone, every two operations of which one
    /// writes bytes that the other touches are ordered by streams and events. Otherwise a kernel
    /// reads or a copy delivers bytes that are half written.
    pub unsafe fn order_manually(&mut self) {
        self.block.track.set_manual();
    }
}
