//! Red zones: bytes around allocations that no operation may write, and poison in the memory of
//! dropped buffers.
//!
//! A kernel may write bytes that it did not declare. On a device with red zones, a check finds such
//! a write in a zone before or after a buffer, and in the memory of a dropped buffer. So the memory
//! of a dropped buffer is checked twice before it gets a new owner. The first check examines the
//! zones around the buffer, and then poisons the whole memory. The second check examines the
//! poison.
#![forbid(unsafe_code)]

use super::block::Block;
use super::buffer::Buffer;
use super::heap;
use super::pinned::PinnedBuffer;
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::units::Bytes;
use crate::device::memory::{Memory, Span};
use crate::heap::{GRANULE, Heap};
use crate::log::calling;
use crate::order::track::Track;
use crate::stream::shared::OpenDevice;
use crate::stream::watched::{Damage, DamagePlace, Dropped, Watched, Zoned};
use crate::stream::{Device, Stream};
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The size of the zone before a buffer, in bytes. The zone after a buffer is at least as large.
/// The size equals the granule of the heap, so buffers have the same alignment as on a device
/// without red zones.
const ZONE: u64 = GRANULE;
/// The value of bytes in zones and in poison. Numbers that consist of these bytes are conspicuous:
/// floats near -1e17, and large integers.
const POISON: u8 = 0xdb;
/// The number of bytes that a check copies to the host and compares at a time.
const PIECE: usize = 4 << 20;
/// Maximum total size of dropped allocations that wait for a check, in bytes. If this is exceeded,
/// the next allocation makes the check.
const DROPPED_MAX: u64 = 1 << 30;

/// The source of a block with red zones. After the drop of the block, the memory waits for the two
/// checks.
#[derive(Debug)]
struct ZonedSource {
    device: Arc<OpenDevice>,
    of: Zoned,
    is_poisoned: bool,
}

impl BlockSource for ZonedSource {
    fn device(&self) -> &OpenDevice {
        &self.device
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.device)
    }

    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, number: u32) {
        let Some(watched) = &self.device.watched else { return };
        if !self.of.is_filled.load(Ordering::Relaxed) {
            return Arc::clone(&self.device).give_back(memory, track, number);
        }
        let (of, track, is_poisoned) = (self.of.clone(), track.take(), self.is_poisoned);
        let dropped = Dropped { of, track, number, is_poisoned };
        watched.add_dropped([dropped]);
    }
}

/// Allocates `bytes` between two zones. Returns the block, and the offset of the allocated bytes
/// from the start of the block.
pub(super) fn alloc(
    stream: &Stream,
    heap: &Heap,
    watched: &Watched,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<(Arc<Block>, u64)> {
    let device = Device::of_shared(stream.device());
    if watched.dropped_bytes() > DROPPED_MAX {
        device.look(watched)?;
    }
    let whole = Bytes(bytes.0.saturating_add(2 * ZONE).next_multiple_of(GRANULE));
    let is_filled = Arc::new(AtomicBool::new(false));
    let zoned = |whole: &Span| {
        let is_filled = Arc::clone(&is_filled);
        Zoned { whole: whole.clone(), bytes: bytes.0, site, is_filled }
    };
    let allocate = || {
        let source = |whole: &Span| -> Arc<dyn BlockSource> {
            let device = Arc::clone(stream.device());
            Arc::new(ZonedSource { device, of: zoned(whole), is_poisoned: false })
        };
        heap::admit(stream)?;
        heap::alloc_from(stream, heap, whole, site, source, false)
    };
    let block = match allocate() {
        Err(error) if error.kind() == ErrorKind::OutOfMemory => {
            // Two checks are necessary: the first check poisons dropped memory, and the second
            // check releases it.
            device.look(watched)?;
            device.look(watched)?;
            allocate()?
        }
        outcome => outcome?,
    };
    let of = zoned(block.whole());
    block.track.set_parts();
    for (range, _) in zones(&of) {
        stream.fill_bytes(&mut part(&block, range), POISON)?;
    }
    is_filled.store(true, Ordering::Relaxed);
    watched.watch(Arc::<Block>::clone(&block), of);
    Ok((block, ZONE))
}

/// The zones before and after the buffer of a block, as ranges of bytes from the start of the
/// block.
fn zones(of: &Zoned) -> [(Range<u64>, DamagePlace); 2] {
    let behind = ZONE + of.bytes..of.whole.bytes();
    [(0..ZONE, DamagePlace::Before), (behind, DamagePlace::Behind)]
}

fn part(block: &Arc<Block>, range: Range<u64>) -> Buffer<u8> {
    Buffer::at(Arc::clone(block), range.start, Bytes(range.end - range.start).to_usize())
}

/// A running check of the memory that a device watches. All work of the device is complete before
/// the check.
struct ZoneLook<'a> {
    device: &'a Arc<OpenDevice>,
    watched: &'a Watched,
    stream: Stream,
    staging: PinnedBuffer<u8>,
}

impl ZoneLook<'_> {
    /// Checks the zones of a block. Restores a damaged zone.
    fn zones(&mut self, block: &Arc<Block>, of: &Zoned) -> Result<()> {
        for (range, place) in zones(of) {
            if self.compare(block, of, range.clone(), place)? {
                self.stream.fill_bytes(&mut part(block, range), POISON)?;
            }
        }
        Ok(())
    }

    /// Checks a dropped allocation. The first check examines its zones and poisons its bytes. The
    /// second check examines its zones and the poison, and then returns the memory to the heap.
    fn dropped(&mut self, dropped: Dropped) -> Result<()> {
        let Dropped { of, track, number, is_poisoned } = dropped;
        let is_filled = Arc::new(AtomicBool::new(false));
        let source: Arc<dyn BlockSource> = if is_poisoned {
            Arc::<OpenDevice>::clone(self.device)
        } else {
            let device = Arc::clone(self.device);
            let of = Zoned { is_filled: Arc::clone(&is_filled), ..of.clone() };
            Arc::new(ZonedSource { device, of, is_poisoned: true })
        };
        let block = Block::numbered(source, of.whole.clone(), track, number, None);
        self.zones(&block, &of)?;
        let data = ZONE..ZONE + of.bytes;
        if is_poisoned {
            self.compare(&block, &of, data, DamagePlace::AfterDrop)?;
            return Ok(());
        }
        self.stream.fill_bytes(&mut part(&block, data), POISON)?;
        is_filled.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Compares bytes of a block with the value that zones and poison have. If some bytes differ,
    /// adds a finding and returns true.
    fn compare(
        &mut self,
        block: &Arc<Block>,
        of: &Zoned,
        range: Range<u64>,
        place: DamagePlace,
    ) -> Result<bool> {
        let first = range.start;
        let all = part(block, range);
        let mut found: Option<(u64, u64)> = None;
        for at in (0..all.len()).step_by(PIECE) {
            let len = PIECE.min(all.len() - at);
            self.stream.copy(&all.slice(at..at + len), &mut self.staging.slice_mut(..len))?;
            let bytes = self.staging.read()?;
            let is_other = |byte: &u8| *byte != POISON;
            let Some(from) = bytes[..len].iter().position(is_other) else { continue };
            let to = bytes[..len].iter().rposition(is_other).unwrap_or(from);
            let [from, to] = [from, to].map(|byte| first + (at + byte) as u64);
            found = Some((found.map_or(from, |(first, _)| first), to));
        }
        let Some((from, to)) = found else { return Ok(false) };
        // Memory is far smaller than 2^63 bytes, so the conversion to signed numbers is exact.
        let from_begin = |byte: u64| byte.cast_signed() - ZONE.cast_signed();
        let bytes = (from_begin(from), from_begin(to));
        let damage = Damage { place, bytes, size: Bytes(of.bytes), site: of.site };
        self.watched.found.lock().expect("no thread panicked while it held this lock").push(damage);
        Ok(true)
    }
}

impl Device {
    /// Looks for bytes that were written although no operation declared the write. The check covers
    /// the bytes before and after the buffers of this device, and the memory of dropped buffers.
    /// Waits until all work of the device is complete. Returns the findings since the last call.
    ///
    /// Each allocation has zones of at least 256 bytes before and after it. A write beyond the
    /// zones, into another buffer, is not found. Growing buffers, memory of graphs and foreign
    /// memory have no zones.
    ///
    /// After a buffer was dropped, the first call poisons its memory, and the second call returns
    /// the memory to the heap. An allocation that finds no memory makes these calls itself, and
    /// keeps the findings for the next call.
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::builder().select(Select::Host(0)).red_zones().open()?;
    /// let s = device.stream()?;
    /// let mut x = s.alloc::<u8>(1000)?;
    /// s.fill_bytes(&mut x, 1)?;
    /// assert_eq!(device.check_memory()?, []);
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `Unsupported` if the device was opened without
    /// [`DeviceBuilder::red_zones`](crate::DeviceBuilder::red_zones); `Capturing` while work of the
    /// device is captured into a graph; an error of the driver.
    #[track_caller]
    pub fn check_memory(&self) -> Result<Vec<Damage>> {
        calling::refuse("check memory")?;
        let Some(watched) = &self.shared().watched else {
            let cause = "the device was opened without red zones: call `red_zones` of its builder";
            return Err(Error::new(ErrorKind::Unsupported, "check memory", cause));
        };
        self.look(watched)?;
        Ok(std::mem::take(
            &mut *watched.found.lock().expect("no thread panicked while it held this lock"),
        ))
    }

    #[track_caller]
    fn look(&self, watched: &Watched) -> Result<()> {
        self.synchronize()?;
        let (device, stream) = (self.shared(), self.stream()?);
        let mut look = ZoneLook { device, watched, stream, staging: self.pinned(PIECE)? };
        for (block, of) in watched.live() {
            if let Ok(block) = block.downcast::<Block>() {
                look.zones(&block, &of)?;
            }
        }
        let mut dropped = watched.take_dropped();
        let looked = loop {
            let Some(one) = dropped.pop() else { break Ok(()) };
            if let Err(error) = look.dropped(one) {
                break Err(error);
            }
        };
        watched.add_dropped(dropped);
        looked
    }
}
