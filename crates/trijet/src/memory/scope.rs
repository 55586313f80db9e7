//! Plain slices, inside a closure: what is borrowed comes back before the closure's caller goes
//! on, whatever happens.
//!
//! The bytes travel through page-locked memory of the pool. An upload is staged when it is
//! called; a download lands in the slice when the scope ends. So no operation ever holds a
//! borrowed address, and nothing here needs a destructor to be sound.
#![forbid(unsafe_code)]

use super::buffer::{AsView, AsViewMut, Element};
use super::pinned::PinnedBuffer;
use crate::base::error::{Error, ErrorKind, Result};
use crate::stream::{Device, Stream};

/// Lets plain slices be copied from and to; made by [`Device::scope`].
#[derive(Debug)]
pub struct Scope<'env> {
    device: Device,
    landings: Vec<(PinnedBuffer<u8>, &'env mut [u8])>,
}

impl Device {
    /// Runs `work` with a scope in which plain slices can be copied to and from the device. When
    /// it returns, every download that `work` asked for has landed.
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
    /// What `work` returns, else the error of a download that did not land.
    pub fn scope<'env, R>(&self, work: impl FnOnce(&mut Scope<'env>) -> Result<R>) -> Result<R> {
        let mut scope = Scope { device: self.clone(), landings: Vec::new() };
        let result = work(&mut scope)?;
        for (landed, target) in scope.landings {
            target.copy_from_slice(&landed.read()?);
        }
        Ok(result)
    }
}

impl<'env> Scope<'env> {
    /// Copies a plain slice to `dst`. The slice may be changed as soon as this returns.
    ///
    /// # Errors
    /// `InvalidValue` when the lengths differ; `OutOfMemory` for the staging.
    #[track_caller]
    pub fn upload<T: Element, W: AsViewMut<Element = T> + ?Sized>(
        &mut self,
        stream: &Stream,
        src: &[T],
        dst: &mut W,
    ) -> Result<()> {
        let mut staged = self.device.pinned::<T>(src.len())?;
        staged.write()?.copy_from_slice(src);
        stream.copy(&staged, dst)
    }

    /// Copies `src` to a plain slice, which has the bytes when the scope ends.
    ///
    /// # Errors
    /// `InvalidValue` when the lengths differ; `OutOfMemory` for the staging.
    #[track_caller]
    pub fn download<T: Element, R: AsView<Element = T> + ?Sized>(
        &mut self,
        stream: &Stream,
        src: &R,
        dst: &'env mut [T],
    ) -> Result<()> {
        let src = src.as_view();
        if src.len() != dst.len() {
            let cause = format!("{} elements into {}", src.len(), dst.len());
            return Err(Error::new(ErrorKind::InvalidValue, "download", cause));
        }
        let target: &'env mut [u8] = bytemuck::cast_slice_mut(dst);
        let mut landing = self.device.pinned::<u8>(target.len())?;
        let mut typed = super::buffer::ViewMut::<T>::from_bytes(landing.view_mut());
        stream.copy(&src, &mut typed)?;
        self.landings.push((landing, target));
        Ok(())
    }
}
