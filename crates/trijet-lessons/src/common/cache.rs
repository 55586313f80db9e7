//! The memory of a cache whose length grows from step to step.
#![forbid(unsafe_code)]

use super::ground::Ground;
use trijet::memory::GrowingBuffer;
use trijet::{Buffer, Device, Result, Select, Stream, View, ViewMut};

pub(crate) enum Cache {
    /// An ordinary buffer. If the buffer is too short, the cache is copied to a larger buffer.
    Copied(Buffer<u32>),
    /// A buffer that grows and keeps its address.
    InPlace(GrowingBuffer<u32>),
}

/// The device that allocates the caches. On a GPU, this is a second handle of the GPU: the handle
/// of the lessons allocates from a pool of the driver, but only a heap has memory that grows.
pub(crate) fn device_of_caches(ground: &Ground) -> Result<Device> {
    let device = &ground.device;
    match device.info().compute.0 {
        0 => Ok(device.clone()),
        _ => Device::open(Select::Cuda(device.id().0)),
    }
}

impl Cache {
    pub(crate) fn copied(s: &Stream) -> Result<Self> {
        s.alloc(0).map(Self::Copied)
    }

    /// An empty cache that can grow in place to `len_max` words. A host device has no memory that
    /// grows, so there the cache is a buffer of `len_max` words, which is never copied.
    pub(crate) fn in_place(device: &Device, s: &Stream, len_max: usize) -> Result<Self> {
        match device.info().compute.0 {
            0 => s.alloc(len_max).map(Self::Copied),
            _ => s.growing(0, len_max).map(Self::InPlace),
        }
    }

    /// Makes room for `len` words. The first `used` words keep their values.
    pub(crate) fn grow(&mut self, s: &Stream, used: usize, len: usize) -> Result<()> {
        match self {
            Self::InPlace(cache) => cache.grow_to(len),
            Self::Copied(cache) if cache.len() < len => {
                let mut larger = s.alloc(len)?;
                s.copy(cache, &mut larger.slice_mut(..used))?;
                *cache = larger;
                Ok(())
            }
            Self::Copied(_) => Ok(()),
        }
    }

    pub(crate) fn view(&self) -> View<'_, u32> {
        match self {
            Self::Copied(cache) => cache.view(),
            Self::InPlace(cache) => cache.slice(..),
        }
    }

    pub(crate) fn view_mut(&mut self) -> ViewMut<'_, u32> {
        match self {
            Self::Copied(cache) => cache.view_mut(),
            Self::InPlace(cache) => cache.slice_mut(..),
        }
    }
}
