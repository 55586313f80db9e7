//! Blocks in memory that belongs to no stream: page-locked or pageable host memory, or device
//! memory.
//!
//! When a block is dropped, its memory goes to a list of the domain, with its stamps. The memory
//! can be allocated again when its users are complete. Small blocks of page-locked memory are parts
//! of slabs (`heap/slabs.rs`). Freeing page-locked or device memory may wait for the device (laws
//! A20 and A24). So only [`Device::release_memory`] frees such memory.
#![forbid(unsafe_code)]

use super::{GROWTHS_MAX, QUERIES_MAX, query};
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{MemoryCall, Mode};
use crate::base::units::Bytes;
use crate::device::driver::Readiness;
use crate::device::memory::{Memory, Space, Span};
use crate::heap::Users;
use crate::heap::slabs::BLOCK_MAX;
use crate::log::calling;
use crate::memory::block::Block;
use crate::memory::buffer::{Buffer, Element, bytes_of};
use crate::memory::source::BlockSource;
use crate::order::domain::Domain;
use crate::order::track::{NeededPositions, Track};
use crate::stream::device::Device;
use crate::stream::shared::OpenDevice;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// The size of a page of the host in bytes. The size of new memory is a multiple of the page.
const PAGE: u64 = 4096;

/// The name of an allocation in this kind of memory, for errors and entries.
fn op_name(space: Space) -> &'static str {
    match space {
        Space::Pinned => "pinned",
        Space::Pageable => "pageable",
        Space::Device(_) => "device alloc",
    }
}

/// Allocates `bytes`. Takes kept memory without pending users, if there is some, and otherwise new
/// memory.
#[track_caller]
pub(in crate::memory) fn alloc(
    device: &Arc<OpenDevice>,
    bytes: Bytes,
    space: Space,
) -> Result<Arc<Block>> {
    let op = op_name(space);
    calling::refuse(op)?;
    if space == Space::Pinned && bytes.0 <= BLOCK_MAX {
        return small(device, bytes, Location::caller());
    }
    let shared = Arc::clone(device);
    let memory = match reuse(&shared.domain, bytes, space) {
        Some(memory) => memory,
        None => {
            let size = bytes.0.checked_next_multiple_of(PAGE).ok_or_else(|| {
                let cause = format!("{bytes} cannot be rounded up to whole pages");
                Error::new(ErrorKind::InvalidValue, op, cause)
            })?;
            let size = Bytes(size.max(PAGE));
            allocate(&shared, size, space, Location::caller())?
        }
    };
    Ok(Block::new(Arc::new(KeptSource(shared)), memory.span(0..bytes.0)))
}

/// Allocates a small block of page-locked memory.
fn small(
    device: &Arc<OpenDevice>,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    let found = |(span, index): (Span, u32)| {
        let track = Track::new(device.domain.id(), bytes.0, span.memory().space().place());
        let source = Arc::new(SlabSource(Arc::clone(device)));
        Block::numbered(source, span, track, index, None)
    };
    for _ in 0..GROWTHS_MAX {
        if let Some(taken) = take_small(&device.domain, bytes) {
            return Ok(found(taken));
        }
        // Another thread may take all of the new slab before this thread gets its block.
        let slabs = &device.domain.slabs;
        slabs.add(allocate(device, slabs.next_size(bytes), Space::Pinned, site)?);
    }
    let cause = format!("other threads took {GROWTHS_MAX} new slabs before {bytes} were allocated");
    Err(Error::new(ErrorKind::OutOfMemory, op_name(Space::Pinned), cause))
}

/// Takes a small block with complete users, if there is one.
fn take_small(domain: &Domain, bytes: Bytes) -> Option<(Span, u32)> {
    let slabs = &domain.slabs;
    let retired = || {
        slabs.retire(|user| domain.is_done(user));
        slabs.take(bytes)
    };
    if let Some(found) = slabs.take(bytes).or_else(retired) {
        return Some(found);
    }
    // If the device is lost, the query fails, and the users count as pending.
    let is_found = query(domain, &slabs.awaited(QUERIES_MAX)).unwrap_or(false);
    is_found.then(retired).flatten()
}

/// The source of small blocks of page-locked memory, which are parts of the slabs of a domain.
#[derive(Debug)]
struct SlabSource(Arc<OpenDevice>);

impl BlockSource for SlabSource {
    fn device(&self) -> &OpenDevice {
        &self.0
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.0)
    }

    fn give_back(self: Arc<Self>, _: &Memory, track: &mut Track, number: u32) {
        let domain = &self.0.domain;
        let mut users = Users::new();
        track.all_users(&(0..u64::MAX), Mode::Write, |user| domain.is_done(user), &mut users);
        domain.slabs.give(number, users);
    }
}

/// The source of blocks whose memory returns to the list of kept memory of a domain.
#[derive(Debug)]
struct KeptSource(Arc<OpenDevice>);

impl BlockSource for KeptSource {
    fn device(&self) -> &OpenDevice {
        &self.0
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::clone(&self.0)
    }

    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, _: u32) {
        let kept = &self.0.domain.kept;
        kept.lock()
            .expect("no thread panicked while it held this lock")
            .push((memory.clone(), track.take()));
    }
}

/// Allocates new memory. The ledger entry of the call has no access to bytes, because the checker
/// does not follow the lifetime of kept memory.
fn allocate(
    device: &OpenDevice,
    bytes: Bytes,
    space: Space,
    site: &'static Location<'static>,
) -> Result<Memory> {
    let domain = &device.domain;
    let begun = domain.log().begin_call();
    let allocated = match space {
        Space::Pageable => return Memory::pageable(bytes),
        Space::Pinned => domain.driver().pinned_alloc(device.id, bytes),
        Space::Device(home) => domain.driver().device_alloc(home, bytes),
    };
    let memory = allocated.map_err(|error| device.failed(error))?;
    if let Some(begun) = begun {
        domain.log().note_call(begun, MemoryCall::AllocNow, device.id, |op| {
            op.label = Cow::Borrowed(op_name(space));
            op.bytes = bytes.0;
            op.site = Some(site.into());
        });
    }
    Ok(memory)
}

/// Takes the smallest kept memory that has at least `bytes` and no pending users. Memory is too
/// large if it has more than twice `bytes` and more than two pages.
///
/// The list is not locked while the driver is queried. The query may run a host function on this
/// thread. If the function drops host memory, the memory goes to the list.
fn reuse(domain: &Arc<Domain>, bytes: Bytes, space: Space) -> Option<Memory> {
    let fits = |memory: &Memory| {
        let size = memory.bytes();
        memory.space() == space && size >= bytes.0 && size / 2 <= bytes.0.max(PAGE)
    };
    let mut busy = Vec::new();
    let found = loop {
        let mut kept = domain.kept.lock().expect("no thread panicked while it held this lock");
        let fitting = (0..kept.len()).filter(|index| fits(&kept[*index].0));
        let Some(index) = fitting.min_by_key(|index| kept[*index].0.bytes()) else { break None };
        let (memory, track) = kept.swap_remove(index);
        drop(kept);
        // If the device is lost, the query fails, and the users count as pending.
        if is_idle(domain, &track).unwrap_or(false) {
            break Some(memory);
        }
        busy.push((memory, track));
    };
    domain.kept.lock().expect("no thread panicked while it held this lock").extend(busy);
    found
}

/// Whether every operation that used the memory is complete. Queries the driver, but does not wait.
pub(in crate::memory) fn is_idle(domain: &Arc<Domain>, track: &Track) -> Result<bool> {
    let mut needs = NeededPositions::new();
    track.all_users(&(0..u64::MAX), Mode::Write, |p| domain.is_done(p), &mut needs);
    for need in needs {
        let mark = domain.mark_for(need)?;
        if domain.gate.query_event(mark.device, mark.event)? == Readiness::NotReady {
            return Ok(false);
        }
        domain.settle(&mark);
    }
    Ok(true)
}

/// Removes one piece of memory from the list of kept memory. No operation uses this memory, and
/// `device` may free it. Returns the memory with its stamps; `None` if the list has no such memory.
fn take_idle(device: &OpenDevice) -> Option<(Memory, Track)> {
    let domain = &device.domain;
    let may_free = |memory: &Memory| match memory.space() {
        Space::Device(home) => home == device.id,
        Space::Pinned | Space::Pageable => true,
    };
    let mut busy = Vec::new();
    let found = loop {
        let mut kept = domain.kept.lock().expect("no thread panicked while it held this lock");
        let Some(index) = kept.iter().position(|(memory, _)| may_free(memory)) else { break None };
        let (memory, track) = kept.swap_remove(index);
        drop(kept);
        if is_idle(domain, &track).unwrap_or(false) {
            break Some((memory, track));
        }
        busy.push((memory, track));
    };
    domain.kept.lock().expect("no thread panicked while it held this lock").extend(busy);
    found
}

impl Device {
    /// Allocates device memory for `len` elements that belongs to no stream; the values are
    /// arbitrary. When the buffer is dropped, the device keeps the memory for later allocations,
    /// see [`Device::release_memory`].
    ///
    /// ```
    /// use trijet::{Device, Select};
    /// let device = Device::open(Select::Host(0))?;
    /// let mut x = device.alloc::<u8>(64)?;
    /// device.stream()?.fill_bytes(&mut x, 1)?;
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// `OutOfMemory`, with the requested size and the free memory; `InvalidValue` if the size
    /// overflows or an element has no bytes.
    #[track_caller]
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>> {
        let bytes = bytes_of::<T>("device alloc", len)?;
        Ok(Buffer::new(alloc(self.shared(), bytes, Space::Device(self.id()))?, len))
    }

    /// Frees kept memory that no operation uses: host memory, and memory of [`Device::alloc`].
    /// Returns the size of the freed memory. May wait for the device (laws [A20](crate::laws#a20)
    /// and [A24](crate::laws#a24)).
    ///
    /// ```
    /// use trijet::{Bytes, Device};
    /// use trijet::sim::HostConfig;
    /// let device = Device::host(HostConfig::default())?.remove(0);
    /// drop(device.pinned::<u8>(1 << 20)?);
    /// assert_eq!(device.release_memory()?, Bytes(1 << 20));
    /// # Ok::<(), trijet::Error>(())
    /// ```
    ///
    /// # Errors
    /// An error of the driver.
    pub fn release_memory(&self) -> Result<Bytes> {
        calling::refuse("release memory")?;
        self.run_deferred();
        let shared = self.shared();
        let driver = shared.domain.driver();
        let mut released = 0;
        while let Some((memory, _)) = take_idle(shared) {
            let freed = match memory.space() {
                Space::Pinned => driver.pinned_free(&memory),
                Space::Device(_) => driver.device_free(&memory),
                // The bytes are freed when the last reference to the memory is dropped.
                Space::Pageable => Ok(()),
            };
            freed.map_err(|error| shared.failed(error))?;
            released += memory.bytes();
        }
        let domain = &shared.domain;
        domain.slabs.retire(|user| domain.is_done(user));
        while let Some(slab) = domain.slabs.take_idle() {
            driver.pinned_free(&slab).map_err(|error| shared.failed(error))?;
            released += slab.bytes();
        }
        Ok(Bytes(released))
    }
}
