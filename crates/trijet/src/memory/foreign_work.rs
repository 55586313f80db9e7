//! Work of other libraries on memory of this library.
//!
//! Another library enqueues its work in a stream of this library, see [`Stream::foreign`]. The work
//! is an operation like any other. The program declares the memory of the work. So the work waits
//! for earlier users on other streams, and later users wait for the work.

use super::uses::Uses;
use crate::base::error::Result;
use crate::base::panic::called;
use crate::device::driver::{Action, ForeignWork};
use crate::log::calling;
use crate::stream::Stream;
use smallvec::SmallVec;
use std::cell::Cell;
use std::ffi::c_void;
use std::panic::Location;

impl Stream {
    /// Enqueues work of another library, for example of cuBLAS. This call calls `run` once, with
    /// the stream as a `CUstream`, and `run` enqueues the work in the stream. The work waits for
    /// earlier users of the memory on other streams, and later users wait for the work. `work` is a
    /// name for findings and timelines, or a [`Collective`](crate::Collective). A collective counts
    /// as communication and not as a kernel.
    ///
    /// `run` may call this library. If `run` returns an error, this call returns the same error,
    /// and the memory still counts as used. A panic of `run` is caught.
    ///
    /// ```
    /// use trijet::Uses;
    /// use trijet::{Device, ErrorKind, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let stream = device.stream()?;
    /// let mut x = stream.alloc::<f32>(64)?;
    /// let uses = Uses::new().update(&mut x);
    /// // SAFETY: nothing is enqueued.
    /// let done = unsafe { stream.foreign("nothing", uses, |_stream| Ok(())) };
    /// // The host device cannot run work that other libraries enqueue on a GPU.
    /// assert_eq!(done.map_err(|error| error.kind()), Err(ErrorKind::NoTwin));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Safety
    /// `run` enqueues work in the stream that it gets. `run` may also enqueue work in other
    /// streams. In this case, the other streams must wait for this stream before the work, and this
    /// stream must wait for the other streams after the work. Until the work is complete, the work
    /// accesses no memory of this library but the memory of `uses`, and this memory only as
    /// declared.
    ///
    /// # Errors
    /// The error of `run`; `InvalidValue` for memory of another driver, and for more than
    /// [`Uses::USES_MAX`] pieces of memory; `NoTwin` on the host device; `Panicked` if `run`
    /// panics; an error of the driver.
    #[track_caller]
    pub unsafe fn foreign<R>(
        &self,
        work: impl Into<ForeignWork>,
        uses: Uses<'_>,
        run: impl FnOnce(*mut c_void) -> Result<R>,
    ) -> Result<R> {
        self.enqueue_foreign(work.into(), uses, run)
    }

    /// Makes later work in this stream follow all work that was enqueued on its device before this
    /// call, in streams of any library, even in streams that were destroyed since. This counts as
    /// work of other libraries on the memory of `uses`: later users of this memory follow it too.
    ///
    /// It is for memory that another library used in streams that the program does not know, for
    /// example when this library's memory comes back from a consumer of DLPack. It also waits for
    /// work that never used this memory, so [`Stream::foreign`] in the stream of the other library
    /// is better where this stream is known.
    ///
    /// ```no_run
    /// use trijet::{Device, Select, Uses};
    /// let device = Device::open(Select::Auto)?;
    /// let stream = device.stream()?;
    /// let mut x = stream.alloc::<f32>(64)?;
    /// // Another library has enqueued work on `x`, in streams of its own.
    /// stream.follow_device(Uses::new().update(&mut x))?;
    /// let sum: f32 = stream.download(&x)?.iter().sum();
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` before CUDA 12.5: use [`Device::synchronize`](crate::Device::synchronize).
    /// `Capturing` if any stream of the device, also of another library, is in a capture; the
    /// driver ends this capture in error. `NoTwin` on the host device, where no other library has
    /// work. `InvalidValue` as for [`foreign`](Self::foreign).
    #[track_caller]
    pub fn follow_device(&self, uses: Uses<'_>) -> Result<()> {
        let (driver, stream) = (self.lane().driver(), self.lane().stream.handle);
        let run = |_| {
            self.lane().record_before_unknown()?;
            driver.follow_device(stream)
        };
        self.enqueue_foreign(ForeignWork::Kernels("work of other libraries"), uses, run)?;
        self.lane().note_unknown_wait();
        Ok(())
    }

    #[track_caller]
    fn enqueue_foreign<R>(
        &self,
        work: ForeignWork,
        uses: Uses<'_>,
        run: impl FnOnce(*mut c_void) -> Result<R>,
    ) -> Result<R> {
        calling::refuse("foreign work")?;
        uses.demand_few("foreign work")?;
        let touches: SmallVec<[_; 8]> =
            uses.all.iter().map(|one| (one.span.clone(), one.access.mode)).collect();
        let accesses: SmallVec<[_; 8]> = uses.all.into_iter().map(|one| one.access).collect();
        let (run, result) = (Cell::new(Some(run)), Cell::new(None));
        let enqueue = |raw| {
            let Some(run) = run.take() else { return Ok(()) };
            called("foreign work", || run(raw)).map(|value| result.set(Some(value)))
        };
        let action = Action::Foreign { work, run: &enqueue, touches: &touches };
        self.enqueue(action, &accesses, Location::caller())?;
        Ok(result.take().expect("the work was enqueued, so `run` returned a value"))
    }
}
