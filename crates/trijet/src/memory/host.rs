//! Blocks of host memory, page-locked or pageable.
//!
//! Memory goes back to a list of the domain with its stamps, and is handed out again when its users are
//! complete. Its pages are never unlocked while the process uses the driver, because that waits for
//! the device, and a pageable copy may touch its bytes after the call (law A17).
#![forbid(unsafe_code)]

use super::block::Block;
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{Mode, OpKind};
use crate::base::units::Bytes;
use crate::device::driver::Readiness;
use crate::device::memory::{Memory, Space};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::track::{Needs, Track};
use crate::stream::device::Device;
use crate::stream::shared::Shared;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// Page-locked sizes are rounded up to pages.
const PAGE: u64 = 4096;

/// Allocates `bytes` of host memory: some that no operation uses any more, or new.
#[track_caller]
pub(super) fn alloc(device: &Device, bytes: Bytes, space: Space) -> Result<Block> {
    let op = if space == Space::Pinned { "pinned" } else { "pageable" };
    calling::refuse(op)?;
    let shared = Arc::clone(device.shared());
    let memory = match reuse(&shared.domain, bytes, space) {
        Some(memory) => memory,
        None => {
            let size = bytes.0.checked_next_multiple_of(PAGE).ok_or_else(|| {
                Error::new(ErrorKind::InvalidValue, op, format!("{bytes} is too much"))
            })?;
            let size = Bytes(size.max(PAGE));
            match space {
                Space::Pageable => Memory::pageable(size)?,
                Space::Pinned | Space::Device(_) => lock_pages(&shared, size, Location::caller())?,
            }
        }
    };
    Ok(Block::new(Arc::new(HostSource(shared)), memory.span(0..bytes.0)))
}

/// The host memory of a domain.
#[derive(Debug)]
struct HostSource(Arc<Shared>);

impl BlockSource for HostSource {
    fn device(&self) -> &Arc<Shared> {
        &self.0
    }

    fn give_back(self: Arc<Self>, memory: Memory, track: Track) {
        let kept = &self.0.domain.kept;
        kept.lock().expect("no panic under this lock").push((memory, track));
    }
}

/// Page-locks new memory. What is in it is no business of a checker: it is never given back.
fn lock_pages(device: &Shared, bytes: Bytes, site: &'static Location<'static>) -> Result<Memory> {
    let domain = &device.domain;
    let begun = domain.log().begin_call();
    let locked = domain.driver().pinned_alloc(device.id, bytes);
    let memory = locked.map_err(|error| device.failed(error))?;
    if let Some(begun) = begun {
        domain.log().note_call(begun, OpKind::AllocNow, device.id, |op| {
            op.label = Cow::Borrowed("pinned");
            op.bytes = bytes.0;
            op.site = Some(site.into());
        });
    }
    Ok(memory)
}

/// The smallest kept memory that fits without wasting more than half, and that no operation uses.
///
/// The list is not locked while the driver is asked: that may run a host function here, which may
/// drop page-locked memory into it.
fn reuse(domain: &Arc<Domain>, bytes: Bytes, space: Space) -> Option<Memory> {
    let fits = |memory: &Memory| {
        let size = memory.bytes();
        memory.space() == space && size >= bytes.0 && size / 2 <= bytes.0.max(PAGE)
    };
    let mut busy = Vec::new();
    let found = loop {
        let mut kept = domain.kept.lock().expect("no panic under this lock");
        let fitting = (0..kept.len()).filter(|index| fits(&kept[*index].0));
        let Some(index) = fitting.min_by_key(|index| kept[*index].0.bytes()) else { break None };
        let (memory, track) = kept.swap_remove(index);
        drop(kept);
        // Memory whose users a lost device can tell nothing of is as good as busy.
        if is_idle(domain, &track).unwrap_or(false) {
            break Some(memory);
        }
        busy.push((memory, track));
    };
    domain.kept.lock().expect("no panic under this lock").extend(busy);
    found
}

/// Whether every operation that used the memory is complete, asking the driver without waiting.
pub(super) fn is_idle(domain: &Arc<Domain>, track: &Track) -> Result<bool> {
    let mut needs = Needs::new();
    track.all_users(&(0..u64::MAX), Mode::Write, |p| domain.is_done(p), &mut needs);
    for need in needs {
        let mark = domain.mark_for(need)?;
        if domain.gate.query_event(mark.device, mark.event)? == Readiness::NotReady {
            return Ok(false);
        }
        domain.observe(&mark.snapshot);
    }
    Ok(true)
}
