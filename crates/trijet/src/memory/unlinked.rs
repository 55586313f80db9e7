//! Copies between two devices without a link.
//!
//! CUDA itself copies such bytes through the host, but refuses memory that is mapped into a range
//! of addresses, such as memory of a heap. So the library copies chunk by chunk, with a stream of
//! each device: a download into page-locked memory, and an upload from there. Traces show both
//! operations.
#![forbid(unsafe_code)]

use super::buffer::{Element, View, ViewMut};
use super::pinned;
use crate::base::error::{Error, ErrorKind, Result};
use crate::stream::{Device, Stream};

/// The size of a chunk in bytes.
const CHUNK_BYTES: usize = 4 << 20;
const SLOTS: usize = 2;

impl Stream {
    /// Copies `src` to `dst` in the order of this stream, through page-locked memory.
    #[cold]
    #[track_caller]
    pub(super) fn copy_unlinked<T: Element>(
        &self,
        src: &View<'_, T>,
        mut dst: ViewMut<'_, T>,
    ) -> Result<()> {
        if self.lane().recorder().is_some() {
            let cause = "there is no link between the devices, and a copy through the host cannot be recorded";
            return Err(Error::new(ErrorKind::Unsupported, "copy", cause));
        }
        let here = self.device().id;
        let helper = |device: &Device| (device.id() != here).then(|| device.stream()).transpose();
        let (source, target) = (src.device(), dst.device());
        if src.device_id().is_none() || dst.device_id().is_none() || source.id() == target.id() {
            // One device makes the whole copy: the device of the side that is not host memory.
            let owner = if src.device_id().is_none() { target } else { source };
            let Some(other) = helper(&owner)? else { return Ok(()) };
            follow(&other, self)?;
            other.copy(src, &mut dst)?;
            return follow(self, &other);
        }
        let (down, up) = (helper(&source)?, helper(&target)?);
        // The download follows earlier work of this stream, and later work of this stream follows
        // the upload.
        if let Some(down) = &down {
            follow(down, self)?;
        }
        let (download, upload) = (down.as_ref().unwrap_or(self), up.as_ref().unwrap_or(self));
        let chunk = (CHUNK_BYTES / size_of::<T>()).max(1).min(src.len());
        let slot = |_| pinned::alloc::<T>(source.shared(), chunk);
        let mut slots = (0..SLOTS).map(slot).collect::<Result<Vec<_>>>()?;
        for (number, begin) in (0..src.len()).step_by(chunk).enumerate() {
            let range = begin..src.len().min(begin + chunk);
            let mut slot = slots[number % SLOTS].slice_mut(..range.len());
            download.copy(&src.slice(range.clone()), &mut slot)?;
            upload.copy(&slot, &mut dst.reborrow().slice(range))?;
        }
        up.as_ref().map_or(Ok(()), |up| follow(self, up))
    }
}

/// Makes later work of `later` follow the work that `earlier` has now.
fn follow(later: &Stream, earlier: &Stream) -> Result<()> {
    let event = Device::of_shared(earlier.device()).event()?;
    event.record(earlier)?;
    later.wait(&event)
}
