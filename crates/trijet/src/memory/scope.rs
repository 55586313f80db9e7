//! Scopes: copies from and to plain slices within a closure.
//!
//! The bytes pass through page-locked memory of the library. An upload copies its slice to this
//! memory during the call. A download copies from this memory to its slice when the scope ends. No
//! operation ever has the address of a slice, so the soundness of scopes needs no destructor.
#![forbid(unsafe_code)]

use super::buffer::{AsView, AsViewMut, Element};
use super::pinned::{self, PinnedBuffer};
use crate::base::error::{Error, ErrorKind, Result};
use crate::stream::{Device, Stream};

/// Copies from and to plain slices. [`Device::scope`] makes this value.
#[derive(Debug)]
pub struct Scope<'env> {
    device: Device,
    /// For each download, the page-locked memory with its bytes, and the slice to which they are
    /// copied.
    downloads: Vec<(PinnedBuffer<u8>, &'env mut [u8])>,
}

impl Device {
    /// Calls `work` with a scope. In the scope, plain slices can be copied to the device and from
    /// the device. If `work` succeeds, this call waits for the downloads and copies them to their
    /// slices.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let s = device.stream()?;
    /// let (source, mut target) = ([3u16, 1, 4], [0u16; 3]);
    /// device.scope(|scope| {
    ///     let mut x = s.alloc::<u16>(3)?;
    ///     scope.upload(&s, &source, &mut x)?;
    ///     scope.download(&s, &x, &mut target)
    /// })?;
    /// assert_eq!(target, source);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`, or the error of the work for which a download waits. Some slices may
    /// then not have their bytes.
    pub fn scope<'env, R>(&self, work: impl FnOnce(&mut Scope<'env>) -> Result<R>) -> Result<R> {
        let mut scope = Scope { device: self.clone(), downloads: Vec::new() };
        let result = work(&mut scope)?;
        for (staged, target) in scope.downloads {
            target.copy_from_slice(&staged.read()?);
        }
        Ok(result)
    }
}

impl<'env> Scope<'env> {
    /// Copies a plain slice to `dst`. The slice may be changed as soon as this call returns.
    ///
    /// # Errors
    /// `InvalidValue` if the lengths differ; `OutOfMemory` if there is no page-locked memory for
    /// the bytes; `Capturing` in a stream that belongs to a recording or is being captured; an
    /// error of the driver.
    #[track_caller]
    pub fn upload<T: Element, W: AsViewMut<Element = T> + ?Sized>(
        &mut self,
        stream: &Stream,
        src: &[T],
        dst: &mut W,
    ) -> Result<()> {
        stream.lane().refuse_staged("upload")?;
        stream.copy(&pinned::staged(self.device.shared(), src)?, dst)
    }

    /// Copies `src` to a plain slice. The slice has the bytes when [`Device::scope`] returns
    /// without an error.
    ///
    /// # Errors
    /// `InvalidValue` if the lengths differ; `OutOfMemory` if there is no page-locked memory for
    /// the bytes; `Capturing` in a stream that belongs to a recording or is being captured; an
    /// error of the driver.
    #[track_caller]
    pub fn download<T: Element, R: AsView<Element = T> + ?Sized>(
        &mut self,
        stream: &Stream,
        src: &R,
        dst: &'env mut [T],
    ) -> Result<()> {
        stream.lane().refuse_staged("download")?;
        let src = src.as_view();
        if src.len() != dst.len() {
            let cause =
                format!("the source has {} elements, and the target has {}", src.len(), dst.len());
            return Err(Error::new(ErrorKind::InvalidValue, "download", cause));
        }
        let target: &'env mut [u8] = bytemuck::cast_slice_mut(dst);
        let mut staged = self.device.pinned::<u8>(target.len())?;
        let mut typed = super::buffer::ViewMut::<T>::from_bytes(staged.view_mut());
        stream.copy(&src, &mut typed)?;
        self.downloads.push((staged, target));
        Ok(())
    }
}
