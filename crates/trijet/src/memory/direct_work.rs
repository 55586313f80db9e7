//! Memory that code outside of this library uses in a stream, without [`Stream::foreign`]. An
//! allocator for other libraries needs this.
//!
//! The library does not see such work. So the program makes two declarations. Before the work, it
//! declares which memory the stream will use. After the work, it declares that the stream has used
//! the memory. Between the two declarations, the program orders all uses of the memory.
#![forbid(unsafe_code)]

use super::buffer::{AsView, Buffer, Element};
use crate::base::error::Result;
use crate::log::calling;
use crate::stream::Stream;
use std::panic::Location;

impl Stream {
    /// Makes this stream follow every operation that may still use the memory of a buffer,
    /// including operations of earlier owners of the bytes. Work that other code enqueues in the
    /// stream from now on can use the memory. This function calls the driver only if the stream
    /// does not follow these operations yet and some of them may be pending.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let stream = device.stream()?;
    /// let x = stream.alloc::<f32>(64)?;
    /// stream.follow_users(&x)?;
    /// // Other code enqueues work on `x.address()` in `stream.as_raw()`.
    /// stream.note_user(&x)?;
    /// drop(x); // The next owner of the bytes follows that work.
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidValue` for memory of another driver, and on the default stream of another thread.
    /// `Capturing` for a stream of a recording, and if a wait is necessary while the stream is
    /// being captured. An error of the driver.
    #[track_caller]
    pub fn follow_users<T: Element>(&self, buffer: &Buffer<T>) -> Result<()> {
        calling::refuse("follow users")?;
        let used = buffer.as_view();
        let used = used.read_use();
        self.lane().follow_users(used.track, used.range, Location::caller())
    }

    /// Declares that work of other code in this stream uses the memory of a buffer. The declaration
    /// covers the work that is enqueued already. When the buffer is dropped, the next owner of the
    /// bytes follows that work. An access by the host follows the work too. Operations of this
    /// library on the same buffer do not follow it: the program must order them. The call enqueues
    /// nothing and makes no call of the driver, except for an event record on the default stream of
    /// a thread. Ledgers have no entry for the call.
    ///
    /// # Errors
    /// The errors of [`Stream::follow_users`].
    pub fn note_user<T: Element>(&self, buffer: &Buffer<T>) -> Result<()> {
        calling::refuse("note user")?;
        let used = buffer.as_view();
        self.lane().note_user(used.read_use().track)
    }
}
