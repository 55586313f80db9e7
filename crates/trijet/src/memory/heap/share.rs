//! Shares of blocks: references that are counted. When the last share of a block is dropped, the
//! lane that allocated the block may keep the whole block. The next allocation of this size then
//! needs neither the heap nor memory of the process.
#![forbid(unsafe_code)]

use crate::base::error::Result;
use crate::base::units::Bytes;
use crate::heap::{Heap, Kept};
use crate::log::calling;
use crate::memory::block::Block;
use crate::memory::heap::{self, granules, note_from_heap, users_of_freed};
use crate::stream::shared::{MemorySource, OpenDevice};
use crate::stream::stream::Stream;
use std::any::Any;
use std::ops::Deref;
use std::panic::Location;
use std::sync::Arc;

/// A share of a block. `None` after the share was dropped.
#[derive(Debug, Clone)]
pub(crate) struct Share(Option<Arc<Block>>);

impl Share {
    #[inline]
    pub(in crate::memory) fn new(block: Arc<Block>) -> Self {
        Self(Some(block))
    }
}

impl Deref for Share {
    type Target = Arc<Block>;

    #[inline]
    fn deref(&self) -> &Arc<Block> {
        self.0.as_ref().expect("a share has its block until the share is dropped")
    }
}

impl Drop for Share {
    #[inline]
    fn drop(&mut self) {
        if let Some(block) = self.0.take() {
            keep(block);
        }
    }
}

/// Drops a share. If it was the last share of a block and a lane may keep the block, the lane keeps
/// it.
fn keep(mut block: Arc<Block>) {
    let Some(only) = Arc::get_mut(&mut block) else { return };
    let Some(home) = only.home.filter(|_| !calling::forked()) else { return };
    let Some(source) = only.source.take() else { return };
    let device = source.device();
    let MemorySource::Heap(heap) = &device.source else { return };
    let domain = &*device.domain;
    domain.log().tracers.forget_block(only.track.id);
    let mut users = users_of_freed(device, heap, &only.track);
    if !domain.may_keep(heap.mode(), home.lane, &mut users) {
        return domain.give_to_heap(heap, only.number, users);
    }
    let is_pending = !users.is_empty();
    only.track.rest(users);
    let kept = Kept { granules: home.granules, is_pending, owner: block };
    let leaving = heap.caches.keep(home.lane, kept);
    leaving.iter().for_each(|kept| domain.give_kept_to_heap(heap, kept));
}

/// Allocates `bytes`. The first use is in `stream`. Takes a block that the lane of the stream
/// keeps, or a block of the heap.
pub(in crate::memory) fn alloc(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    heap::admit(stream)?;
    match take_kept(stream, heap, bytes, site) {
        Some(block) => Ok(block),
        None => heap::alloc(stream, heap, bytes, site),
    }
}

/// Takes a block that the lane of `stream` keeps, and turns it into an allocation of `bytes`.
#[inline]
fn take_kept(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Option<Arc<Block>> {
    let device = stream.device();
    let owner: Arc<dyn Any + Send + Sync> = heap.caches.take(stream.lane().id, granules(bytes))?;
    let mut block = owner.downcast::<Block>().expect("lanes keep blocks");
    let only = Arc::get_mut(&mut block).expect("the cache had the only share");
    let place = only.home.map_or(0, |home| home.place);
    heap.live.add(bytes.0);
    only.wake(Arc::<OpenDevice>::clone(device), bytes.0);
    if let Some(begun) = device.domain.log().begin_call() {
        note_from_heap(device, begun, &only.track, place, bytes.0, site);
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use crate::base::error::Result;
    use crate::base::id::DeviceId;
    use crate::device::{Executor, HostConfig, Order};
    use crate::stream::Device;
    use std::sync::Arc;

    /// A kept block has no handle of its device. So it does not keep the device open.
    #[test]
    fn the_last_handle_of_a_device_returns_what_lanes_keep() -> Result<()> {
        let executor = Executor::Virtual(Order::Greedy);
        let device = Device::host(HostConfig::new().executor(executor))?.remove(0);
        let domain = Arc::clone(&device.shared().domain);
        let s = device.stream()?;
        s.fill_bytes(&mut s.alloc::<u8>(1000)?, 1)?;
        drop(s.alloc::<u8>(5000)?);
        s.synchronize()?;
        drop((s, device));
        let (free, total) = domain.driver().memory_info(DeviceId(0))?;
        assert_eq!(free, total);
        Ok(())
    }
}
