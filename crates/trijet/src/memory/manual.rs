//! Manual ordering of a buffer: the program places the events, not the library.

use super::buffer::{Buffer, Element};

impl<T: Element, S> Buffer<T, S> {
    /// Switches to manual ordering for the whole allocation. From now on the library inserts no
    /// waits and records no events for uses of the allocation; the caller must order these uses.
    /// Frees and host accesses still wait: for each stream, they wait for its last operation on any
    /// part of the allocation. They do not wait for an operation that the thread knows to be
    /// complete, for example because the thread synchronized with a later event.
    ///
    /// # Safety
    /// Until the buffer and all parts split from it are gone, streams and events order every two
    /// operations if one of them writes bytes that the other accesses. Otherwise an operation may
    /// read bytes that are half written.
    pub unsafe fn order_manually(&mut self) {
        self.block.track.set_manual();
    }
}
