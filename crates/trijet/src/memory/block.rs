//! A block: one allocation, and the stamps of the operations that use it.
//!
//! Every buffer owns a share of a block. When the last share is dropped, the memory goes back to
//! the source of the block. This does not wait for the operations that still use the memory.
#![forbid(unsafe_code)]

use super::source::BlockSource;
use crate::base::error::Result;
use crate::base::id::LaneId;
use crate::base::ledger::{HostStep, Mode, Named};
use crate::device::memory::Span;
use crate::heap::{Index, Owner, Users};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::track::Track;
use crate::stream::ready::{Point, Waiting};
use crate::stream::shared::OpenDevice;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// One allocation. Byte ranges count from the start of the block. The block may start after the
/// start of its memory.
#[derive(Debug)]
pub(crate) struct Block {
    /// The span of the whole block. Operations on the whole block borrow this span, because a new
    /// span would be another counted reference to the memory.
    whole: Span,
    pub(crate) track: Track,
    /// The source of the block. `None` after the block was dropped and the source has got the
    /// memory back.
    pub(super) source: Option<Arc<dyn BlockSource>>,
    /// The number of the block in its source. 0 if the source does not number its blocks.
    pub(super) number: u32,
    /// The lane that may keep the block when its last buffer is dropped. `None` if the block always
    /// returns to its source.
    pub(super) home: Option<Home>,
}

/// The lane that allocated a block of a heap and may keep it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Home {
    pub(super) lane: LaneId,
    /// The size of the block in granules. It may be larger than the allocation needs.
    pub(super) granules: u64,
    /// The number of the first byte of the block among the bytes of the heap, as ledgers state it
    /// (`Taken::place`).
    pub(super) place: u64,
}

impl Block {
    /// A block with the bytes `whole`, without stamps.
    pub(super) fn new(source: Arc<dyn BlockSource>, whole: Span) -> Arc<Self> {
        let place = whole.memory().space().place();
        let track = Track::new(source.device().domain.id(), whole.bytes(), place);
        Self::with_track(source, whole, track)
    }

    /// A block with the bytes `whole` and the stamps of `track`.
    pub(super) fn with_track(source: Arc<dyn BlockSource>, whole: Span, track: Track) -> Arc<Self> {
        Self::numbered(source, whole, track, 0, None)
    }

    /// A block with the bytes `whole` and the stamps of `track`. `number` is its number in the
    /// source, and `home` is the lane that may keep the block.
    ///
    /// This function is inlined so that the track is built at its final address. A copy of the
    /// track would cost as much as the rest of an allocation.
    #[inline(always)]
    pub(super) fn numbered(
        source: Arc<dyn BlockSource>,
        whole: Span,
        track: Track,
        number: u32,
        home: Option<Home>,
    ) -> Arc<Self> {
        Arc::new(Self { whole, track, source: Some(source), number, home })
    }

    /// Turns a block that a lane kept into an allocation of `bytes`.
    #[inline]
    pub(super) fn wake(&mut self, source: Arc<dyn BlockSource>, bytes: u64) {
        self.whole.resize(bytes);
        self.track.wake(bytes);
        self.source = Some(source);
    }

    /// The span of the bytes `range` of the block.
    #[inline]
    pub(crate) fn span(&self, range: Range<u64>) -> Span {
        self.whole.memory().span(self.in_memory(&range))
    }

    /// The span of the bytes `range` of the block. If `range` is the whole block, borrows the span
    /// of the block, which is cheaper than another reference to the memory. Otherwise stores a new
    /// span in `part`.
    #[inline]
    pub(crate) fn span_in<'s>(&'s self, range: Range<u64>, part: &'s mut Option<Span>) -> &'s Span {
        if range == (0..self.whole.bytes()) {
            return &self.whole;
        }
        part.insert(self.span(range))
    }

    /// Converts a range of the block to a range of its memory, in bytes.
    #[inline]
    pub(super) fn in_memory(&self, range: &Range<u64>) -> Range<u64> {
        let first = self.whole.range().start;
        first + range.start..first + range.end
    }

    /// The span of the whole block.
    pub(super) fn whole(&self) -> &Span {
        &self.whole
    }

    /// The address of the bytes `range` of the block, for kernels and other code. Other code may
    /// use the bytes from now on. On a host device, this function zeroes bytes that are not
    /// initialised yet. So no later call zeroes bytes that other code has written.
    pub(super) fn expose(&self, range: &Range<u64>) -> u64 {
        if let Some(host) = self.whole.memory().host() {
            host.expose(&self.in_memory(range));
        }
        self.whole.address() + range.start
    }

    /// The address of the byte `start` of the block, for drawings of memory. Other code must not
    /// use the bytes, because they are not initialised.
    pub(super) fn unexposed_address(&self, start: u64) -> u64 {
        self.whole.address() + start
    }

    pub(crate) fn name(&self, name: &str) {
        let of = Named::Block(self.track.id);
        self.domain().log().tracers.name_object(of, self.device().id, name);
    }

    pub(crate) fn given_name(&self) -> Option<String> {
        self.domain().log().tracers.block_name(self.track.id)
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        &self.device().domain
    }

    fn device(&self) -> &OpenDevice {
        self.source().device()
    }

    #[inline]
    fn source(&self) -> &Arc<dyn BlockSource> {
        self.source.as_ref().expect("a live block has a source")
    }

    /// The device that the block belongs to.
    pub(super) fn device_handle(&self) -> Arc<OpenDevice> {
        Arc::clone(self.source()).device_handle()
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow. The
    /// access is to the bytes `range`, in the mode `mode`.
    pub(crate) fn host_wait(
        &self,
        range: Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.domain().host_wait_for(&self.track, range, mode, site)
    }

    /// Appends the ledger entry of an access by the host. The access begins after this function
    /// returns.
    pub(crate) fn note_host(
        &self,
        range: Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) {
        let access = || self.track.access(range, mode);
        self.domain().log().note_host(HostStep::Access, self.device().id, access, site);
    }

    /// Starts the wait of a future for the operations that an access by the host must follow.
    /// Appends the ledger entry for the creation of the future.
    pub(crate) fn host_waiting(
        &self,
        range: Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Waiting {
        let marks = calling::refuse("ready")
            .and_then(|()| self.domain().host_marks(&self.track, range.clone(), mode));
        let points = marks.map(|marks| marks.into_iter().map(Point::Mark).collect());
        let access = || self.track.access(range, mode);
        self.domain().log().note_host(HostStep::Lent, self.device().id, access, site);
        Waiting::new(&self.device_handle(), points, site)
    }
}

impl Owner for Block {
    fn number(&self) -> Index {
        self.number
    }

    fn users(&self) -> Users {
        self.track.before().clone()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        if let Some(source) = self.source.take() {
            source.device().domain.log().tracers.forget_block(self.track.id);
            source.give_back(self.whole.memory(), &mut self.track, self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::units::Bytes;
    use crate::device::memory::Memory;
    use crate::device::{Executor, HostConfig, Order};
    use crate::memory::buffer::{Buffer, Pageable};
    use crate::stream::Device;

    /// A source that never frees its memory.
    #[derive(Debug)]
    struct Lasting(Arc<OpenDevice>);

    impl BlockSource for Lasting {
        fn device(&self) -> &OpenDevice {
            &self.0
        }

        fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
            Arc::clone(&self.0)
        }

        fn give_back(self: Arc<Self>, _: &Memory, _: &mut Track, _: u32) {}
    }

    /// A device without threads of its own. Miri reports a thread that outlives the tests as a
    /// leak.
    fn device() -> Result<Device> {
        let executor = Executor::Virtual(Order::Greedy);
        Ok(Device::host(HostConfig::new().executor(executor))?.remove(0))
    }

    /// A block may start after the start of its memory.
    #[test]
    fn bytes_of_a_block_count_from_its_beginning() -> Result<()> {
        let device = device()?;
        let s = device.stream()?;
        let memory = Memory::pageable(Bytes(96))?;
        let part = |range| -> Buffer<u32, Pageable> {
            let source = Arc::new(Lasting(Arc::clone(device.shared())));
            Buffer::new(Block::new(source, memory.span(range)), 8)
        };
        let (mut left, mut right) = (part(0..32), part(32..64));
        left.write()?.fill(1);
        right.write()?.copy_from_slice(&[0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(right.address() - left.address(), 32);
        assert_eq!(&*left.read()?, &[1; 8], "the blocks lie beside each other");
        let mut x = s.alloc::<u32>(4)?;
        s.copy(&right.slice(2..6), &mut x)?;
        let mut h = device.pinned::<u32>(4)?;
        s.copy(&x, &mut h)?;
        assert_eq!(&*h.read()?, &[2, 3, 4, 5]);
        s.copy(&h, &mut right.slice_mut(4..))?;
        assert_eq!(&*right.read()?, &[0, 1, 2, 3, 2, 3, 4, 5]);
        Ok(())
    }

    #[test]
    fn an_operation_is_given_the_bytes_of_a_block_and_not_those_of_its_memory() -> Result<()> {
        let device = device()?;
        let s = device.stream()?;
        let memory = s.alloc::<u32>(16)?;
        s.synchronize()?;
        let whole = memory.block.whole().memory().clone();
        let part = |range| -> Buffer<u32> {
            let source = Arc::new(Lasting(Arc::clone(device.shared())));
            Buffer::new(Block::new(source, whole.span(range)), 8)
        };
        let (mut x, mut y) = (part(0..32), part(32..64));
        s.fill_bytes(&mut x, 0)?;
        s.fill_bytes(&mut y, 1)?;
        let mut h = device.pinned::<u32>(16)?;
        s.copy(&y, &mut h.slice_mut(..8))?;
        s.copy(&x, &mut h.slice_mut(8..))?;
        assert_eq!(h.read()?[..8], [0x0101_0101; 8]);
        assert_eq!(h.read()?[8..], [0; 8]);
        Ok(())
    }
}
