//! Memory that other code uses in a stream directly, without [`Stream::foreign`]: what an allocator for other libraries
//! needs.
//!
//! The library does not see such work. So the program says before it which memory the stream will use, and after it that the
//! stream has used the memory. Between the two, the program orders all uses of the memory.
#![forbid(unsafe_code)]

use super::buffer::{AsView, Buffer, Element};
use crate::base::error::Result;
use crate::log::calling;
use crate::stream::Stream;
use std::panic::Location;

impl Stream {
    /// Makes this stream follow every operation that may still use the memory of a buffer, also those of an earlier owner of
    /// its bytes. What other code enqueues in the stream from now on can use the memory. If the stream follows these
    /// operations anyway, or if they are known to be complete, no call of the driver is made.
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
    /// `InvalidValue` for memory of another driver, and on the default stream of another thread; `Capturing` if a wait is
    /// necessary and the stream is being captured, and for a stream of a recording; what the driver reports.
    #[track_caller]
    pub fn follow_users<T: Element>(&self, buffer: &Buffer<T>) -> Result<()> {
        calling::refuse("follow users")?;
        let used = buffer.as_view();
        let used = used.read_use();
        self.lane().follow_users((used.track, used.range), Location::caller())
    }

    /// Notes that work which other code enqueued in this stream until now uses the memory of a buffer. When the buffer is
    /// dropped, the next owner of the bytes follows that work, and so does an access by the host. Operations of this library
    /// on the same buffer do not: the program orders them. The call enqueues nothing and makes no call of the driver, except
    /// for a record on the default stream of a thread. Ledgers have no entry of it.
    ///
    /// # Errors
    /// As for [`Stream::follow_users`].
    pub fn note_user<T: Element>(&self, buffer: &Buffer<T>) -> Result<()> {
        calling::refuse("note user")?;
        let used = buffer.as_view();
        self.lane().note_user(used.read_use().track)
    }
}
