//! A block: one allocation with its stamps, freed when its last buffer goes.
//!
//! Dropping never blocks. Device memory is freed in stream order on the stream that allocated it,
//! which then waits for every other user. Page-locked memory goes back to a list of the universe
//! with its stamps; it is handed out again when its users are complete, and its pages are never
//! unlocked while the process uses the driver, because that waits for the device.
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{Engine, Mode, OpKind};
use crate::base::units::Bytes;
use crate::device::driver::Readiness;
use crate::device::memory::Memory;
use crate::stream::callback;
use crate::stream::device::{Device, Shared};
use crate::stream::lane::Spec;
use crate::stream::queue::{Inner, Stream};
use crate::stream::track::{Needs, Track, Use};
use crate::stream::universe::Universe;
use std::panic::Location;
use std::sync::Arc;

/// Page-locked sizes are rounded up to pages.
const PAGE: u64 = 4096;

#[derive(Debug)]
enum Home {
    /// Allocated, and to be freed, in this stream.
    Stream(Arc<Inner>),
    /// Page-locked, to be kept.
    Pinned(Arc<Shared>),
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) memory: Memory,
    pub(crate) track: Track,
    home: Home,
}

impl Block {
    /// Allocates in stream order.
    pub(crate) fn on_stream(
        stream: &Stream,
        bytes: Bytes,
        site: &'static Location<'static>,
    ) -> Result<Self> {
        stream.device().run_deferred();
        let track = Track::new(stream.lane().universe.id);
        let spec = stream.spec(OpKind::Alloc, Engine::None, "alloc", site);
        let pool = stream.device().pool;
        let uses = [Use { track: &track, range: 0..bytes.0, mode: Mode::Write }];
        let run =
            |driver: &dyn crate::device::driver::Driver, handle| driver.alloc(handle, pool, bytes);
        let (_, memory) = stream.lane().enqueue(&spec, &uses, run)?;
        Ok(Self { memory, track, home: Home::Stream(Arc::clone(stream.inner())) })
    }

    /// Page-locked memory: some that nobody uses any more, or new.
    pub(crate) fn pinned(device: &Device, bytes: Bytes) -> Result<Self> {
        callback::refuse("pinned")?;
        let shared = Arc::clone(device.shared());
        let memory = match reuse(&shared.universe, bytes)? {
            Some(memory) => memory,
            None => {
                let size = bytes.0.checked_next_multiple_of(PAGE).ok_or_else(|| {
                    Error::new(ErrorKind::InvalidValue, "pinned", format!("{bytes} is too much"))
                })?;
                shared.universe.driver.pinned_alloc(shared.id, Bytes(size.max(PAGE)))?
            }
        };
        let track = Track::new(shared.universe.id);
        Ok(Self { memory, track, home: Home::Pinned(shared) })
    }

    pub(crate) fn universe(&self) -> &Arc<Universe> {
        match &self.home {
            Home::Stream(stream) => &stream.lane().universe,
            Home::Pinned(shared) => &shared.universe,
        }
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait(&self, range: std::ops::Range<u64>, mode: Mode) -> Result<()> {
        let universe = self.universe();
        let mut needs = Needs::new();
        crate::stream::thread::with_known(universe.id, |known| {
            self.track.host_needs(range, mode, |p| known.covers(p), &mut needs);
        });
        for need in needs {
            let mark = universe.mark_for(need)?;
            universe.host_wait(&mark)?;
        }
        Ok(())
    }
}

/// The smallest kept memory that fits without wasting more than half, and that no operation uses.
fn reuse(universe: &Arc<Universe>, bytes: Bytes) -> Result<Option<Memory>> {
    let mut kept = universe.pinned.lock().expect("no panic under this lock");
    let fits = |size: u64| size >= bytes.0 && size / 2 <= bytes.0.max(PAGE);
    let mut order: Vec<usize> =
        (0..kept.len()).filter(|index| fits(kept[*index].0.bytes())).collect();
    order.sort_unstable_by_key(|index| kept[*index].0.bytes());
    for index in order {
        if is_idle(universe, &kept[index].1)? {
            return Ok(Some(kept.swap_remove(index).0));
        }
    }
    Ok(None)
}

/// Whether every operation that used the memory is complete, asking the driver without waiting.
fn is_idle(universe: &Arc<Universe>, track: &Track) -> Result<bool> {
    let mut needs = Needs::new();
    track.host_needs(0..u64::MAX, Mode::Write, |p| universe.is_done(p), &mut needs);
    for need in needs {
        let mark = universe.mark_for(need)?;
        if universe.driver.event_query(mark.event)? == Readiness::NotReady {
            return Ok(false);
        }
        universe.observe(&mark.snapshot);
    }
    Ok(true)
}

/// Frees in stream order, after every user.
#[track_caller]
fn free(memory: Memory, track: Track, stream: Arc<Inner>) {
    if callback::inside() {
        let device = Arc::clone(stream.device());
        device.defer(Box::new(move || free(memory, track, stream)));
        return;
    }
    let range = 0..memory.bytes();
    let spec = Spec {
        kind: OpKind::Free,
        engine: Engine::None,
        label: "free",
        chunk: None,
        site: Location::caller(),
    };
    let uses = [Use { track: &track, range, mode: Mode::Write }];
    let outcome =
        stream.lane().enqueue(&spec, &uses, |driver, handle| driver.free(handle, &memory));
    if let Err(error) = outcome {
        stream.device().keep_error(error);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let nothing = Track::new(self.universe().id);
        let track = std::mem::replace(&mut self.track, nothing);
        match &self.home {
            Home::Stream(stream) => free(self.memory.clone(), track, Arc::clone(stream)),
            Home::Pinned(shared) => {
                let mut kept = shared.universe.pinned.lock().expect("no panic under this lock");
                kept.push((self.memory.clone(), track));
            }
        }
    }
}
