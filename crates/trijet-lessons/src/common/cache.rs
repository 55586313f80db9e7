//! The memory of a cache that becomes longer.
#![forbid(unsafe_code)]

use super::ground::Ground;
use trijet::memory::GrowingBuffer;
use trijet::{Buffer, Device, Result, Select, Stream, View, ViewMut};

pub(crate) enum Cache {
    /// The cache is copied to a larger buffer if it is too short.
    Copied(Buffer<u32>),
    /// The cache keeps its address.
    InPlace(GrowingBuffer<u32>),
}

/// The device of the caches. The device of the lessons allocates from a pool, and only a heap has
/// memory that grows, so on a GPU this is another handle.
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

    /// An empty cache that grows in place to `len_max` words. On a host device, memory of the
    /// largest size stands in for it, which is not copied either.
    pub(crate) fn in_place(device: &Device, s: &Stream, len_max: usize) -> Result<Self> {
        match device.info().compute.0 {
            0 => s.alloc(len_max).map(Self::Copied),
            _ => s.growing(0, len_max).map(Self::InPlace),
        }
    }

    /// Makes room for `len` words. Only the first `used` words have values.
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
