//! Transfers of slices: a slice becomes a buffer on the device, and a buffer becomes a `Vec`.
//!
//! The bytes pass through page-locked memory, so an upload does not wait for the device. The device
//! keeps this memory for the next transfer.
#![forbid(unsafe_code)]

use super::buffer::{AsView, Buffer, Element};
use super::pinned;
use crate::base::error::Result;
use crate::log::calling;
use crate::stream::Stream;

impl Stream {
    /// Allocates device memory like [`Stream::alloc`], and copies `data` to it. The slice may be
    /// changed as soon as this call returns. The upload runs in the stream.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let mut x = s.upload(&[3_u16, 1, 4])?;
    /// s.fill_bytes(&mut x.slice_mut(..1), 0)?;
    /// assert_eq!(s.download(&x)?, [0, 1, 4]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OutOfMemory` if there is no memory on the device or no page-locked memory for the bytes;
    /// `Capturing` in a stream that belongs to a recording or is being captured; an error of the
    /// driver.
    #[track_caller]
    pub fn upload<T: Element>(&self, data: &[T]) -> Result<Buffer<T>> {
        calling::refuse("upload")?;
        self.lane().refuse_staged("upload")?;
        let staged = pinned::staged(self.device(), data)?;
        let mut target = self.alloc(data.len())?;
        self.copy(&staged, &mut target)?;
        Ok(target)
    }

    /// Copies `src` to a new `Vec`. Waits until the copy and all operations that write `src` are
    /// complete.
    ///
    /// # Errors
    /// `OutOfMemory` if there is no page-locked memory for the bytes; `Capturing` in a stream that
    /// belongs to a recording or is being captured; the error of work that failed, or `Stalled`.
    #[track_caller]
    pub fn download<R: AsView + ?Sized>(&self, src: &R) -> Result<Vec<R::Element>> {
        calling::refuse("download")?;
        self.lane().refuse_staged("download")?;
        let src = src.as_view();
        let mut staged = pinned::alloc(self.device(), src.len())?;
        self.copy(&src, &mut staged)?;
        Ok(staged.read()?.to_vec())
    }

    /// Allocates device memory for `len` elements like [`Stream::alloc`], and sets every byte to 0.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// assert_eq!(s.download(&s.alloc_zeroed::<f64>(3)?)?, [0.0; 3]);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Stream::alloc`]; an error of the driver.
    #[track_caller]
    pub fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let mut zeros = self.alloc(len)?;
        self.fill_bytes(&mut zeros, 0)?;
        Ok(zeros)
    }
}
