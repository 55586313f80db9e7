//! A block: one allocation with its stamps, freed when its last buffer goes.
//!
//! Dropping never blocks. Device memory is freed in stream order on the stream that allocated it,
//! which then waits for every other user; if a stream may have no room for that, at the next call
//! that allocates or waits. Memory of the host goes back to a list of the domain
//! with its stamps; it is handed out again when its users are complete. Its pages are never
//! unlocked while the process uses the driver, because that waits for the device, and a pageable
//! copy may touch its bytes after the call (law A17).
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{Mode, Named, OpKind, Place};
use crate::base::units::Bytes;
use crate::device::driver::{Action, Readiness, StreamKind};
use crate::device::memory::{Memory, Space, Span};
use crate::log::calling;
use crate::order::domain::Domain;
use crate::order::legacy::Origin;
use crate::order::submission::Submission;
use crate::order::track::{Needs, Track, Use};
use crate::stream::device::Device;
use crate::stream::ready::{Point, Waiting};
use crate::stream::shared::Shared;
use crate::stream::stream::{Inner, Stream};
use std::borrow::Cow;
use std::ops::Range;
use std::panic::Location;
use std::sync::Arc;

/// Page-locked sizes are rounded up to pages.
const PAGE: u64 = 4096;

#[derive(Debug)]
enum Home {
    /// Allocated, and to be freed, in this stream.
    Stream(Arc<Inner>),
    /// Of the host, to be kept.
    Host(Arc<Shared>),
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Block {
    /// All of its bytes. Copies of a whole allocation borrow it: a share in the memory is counted.
    pub(crate) whole: Span,
    pub(crate) track: Track,
    home: Home,
}

impl Block {
    /// The span of `range`, lent if it is all of the allocation.
    #[inline]
    pub(crate) fn borrowed(&self, range: Range<u64>) -> Cow<'_, Span> {
        if range == self.whole.range() {
            return Cow::Borrowed(&self.whole);
        }
        Cow::Owned(self.whole.memory().span(range))
    }

    /// Allocates in stream order.
    pub(crate) fn on_stream(
        stream: &Stream,
        bytes: Bytes,
        site: &'static Location<'static>,
    ) -> Result<Self> {
        stream.device().run_deferred();
        let track = Track::new(stream.lane().domain.id(), bytes.0, Place::Device);
        let pool = stream.device().pool;
        let uses = [Use { track: &track, range: 0..bytes.0, mode: Mode::Write }];
        let alloc = Action::Alloc { pool: Some(pool), bytes: Bytes(bytes.0.max(1)) };
        let memory = stream.enqueue(alloc, &uses, site)?;
        let memory = memory.expect("an allocation returns its memory");
        let whole = memory.span(0..bytes.0);
        Ok(Self { whole, track, home: Home::Stream(Arc::clone(stream.inner())) })
    }

    /// Memory of the host, page-locked or pageable: some that nobody uses any more, or new.
    #[track_caller]
    pub(crate) fn on_host(device: &Device, bytes: Bytes, space: Space) -> Result<Self> {
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
                    _ => lock_pages(&shared, size, Location::caller())?,
                }
            }
        };
        let place = if space == Space::Pinned { Place::Pinned } else { Place::Pageable };
        let track = Track::new(shared.domain.id(), bytes.0, place);
        Ok(Self { whole: memory.span(0..bytes.0), track, home: Home::Host(shared) })
    }

    pub(crate) fn name(&self, name: &str) {
        let of = Named::Block(self.track.id);
        self.domain().log().tracers.name_object(of, self.device(), name);
    }

    pub(crate) fn domain(&self) -> &Arc<Domain> {
        match &self.home {
            Home::Stream(stream) => &stream.lane().domain,
            Home::Host(shared) => &shared.domain,
        }
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait(
        &self,
        range: std::ops::Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.domain().host_wait_for((&self.track, range), mode, site)
    }

    /// The host is lent the memory, and uses it from now on.
    pub(crate) fn note_host(
        &self,
        range: std::ops::Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) {
        let access = || self.track.access(range, mode);
        self.domain().log().note_host(OpKind::Host, self.device(), access, site);
    }

    fn device(&self) -> DeviceId {
        match &self.home {
            Home::Stream(stream) => stream.lane().device,
            Home::Host(shared) => shared.id,
        }
    }

    /// The same wait, to be awaited.
    pub(crate) fn host_waiting(
        &self,
        range: std::ops::Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Waiting {
        let device = match &self.home {
            Home::Stream(stream) => stream.device(),
            Home::Host(shared) => shared,
        };
        let marks = calling::refuse("ready")
            .and_then(|()| self.domain().host_marks(&self.track, range.clone(), mode));
        let points = marks.map(|marks| marks.into_iter().map(Point::Mark).collect());
        let access = || self.track.access(range, mode);
        self.domain().log().note_host(OpKind::Lent, self.device(), access, site);
        Waiting::new(device, points, site)
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
fn is_idle(domain: &Arc<Domain>, track: &Track) -> Result<bool> {
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

/// When memory is freed, and what becomes of it if that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// In a drop, which must not wait.
    Dropped,
    /// In a call that may wait. If it is refused, the next such call tries once more.
    Later,
    /// The last try: if it is refused, the memory leaks.
    Last,
}

/// Frees in stream order, after every user.
#[track_caller]
fn free(memory: Memory, track: Track, stream: Arc<Inner>, when: When) {
    let later = |memory, track, stream: Arc<Inner>, when| {
        let device = Arc::clone(stream.device());
        device.defer(Box::new(move || free(memory, track, stream, when)));
    };
    if calling::inside() || when == When::Dropped && !has_room(&track, &stream) {
        return later(memory, track, stream, When::Later);
    }
    if stream.lane().legacy.as_ref().is_some_and(|legacy| !legacy.is_own()) {
        // The stream belongs to another thread; a free may come in any stream of the device.
        let origin = Origin::Created(StreamKind::NonBlocking);
        return match Stream::new(stream.device(), origin, 0) {
            Ok(other) => free(memory, track, Arc::clone(other.inner()), when),
            Err(error) if when == When::Last || error.is_loss() => {
                stream.device().keep_error(error);
            }
            Err(_) => later(memory, track, stream, When::Last),
        };
    }
    let range = 0..memory.bytes();
    let uses = [Use { track: &track, range, mode: Mode::Write }];
    let submission = Submission {
        action: Action::Free(&memory),
        uses: &uses,
        chunk: None,
        site: Location::caller(),
        slot: None,
    };
    let outcome = stream.lane().enqueue(&submission);
    let Err(error) = outcome else { return };
    if when == When::Last || error.is_loss() {
        stream.device().keep_error(error);
    } else {
        later(memory, track, stream, When::Last);
    }
}

/// Whether a free in the stream, after every user, is enqueued without waiting for room.
fn has_room(track: &Track, stream: &Inner) -> bool {
    let mut users = Needs::new();
    track.all_users(&(0..u64::MAX), Mode::Write, |_| false, &mut users);
    stream.lane().domain.has_room_for(stream.lane().id, &users)
}

impl Drop for Block {
    fn drop(&mut self) {
        if calling::forked() {
            return;
        }
        self.domain().log().tracers.forget_block(self.track.id);
        let nothing = Track::new(self.domain().id(), 0, Place::Device);
        let track = std::mem::replace(&mut self.track, nothing);
        match &self.home {
            Home::Stream(stream) => {
                free(self.whole.memory().clone(), track, Arc::clone(stream), When::Dropped);
            }
            Home::Host(shared) => {
                let mut kept = shared.domain.kept.lock().expect("no panic under this lock");
                kept.push((self.whole.memory().clone(), track));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::error::{ErrorKind, Result};
    use crate::device::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
    use crate::stream::device::Device;

    /// A host device that refuses to create the events of these numbers, counted from 1.
    fn refusing(events: &[u64]) -> Result<Device> {
        let refused = |nth| Fault { verb: Verb::EventCreate, nth, kind: FaultKind::Refused };
        let faults = events.iter().copied().map(refused).collect();
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig { executor, faults, ..HostConfig::default() };
        Ok(Device::host(config)?.remove(0))
    }

    /// The operation is enqueued, and only then its time cannot be noted. If the call failed, no
    /// stamp would tell of the operation, and its bytes would be lent at once.
    #[test]
    fn an_operation_whose_time_cannot_be_noted_is_stamped() -> Result<()> {
        // Two are for time zero and for the moment before the operation.
        let device = refusing(&[3])?;
        let stream = device.stream()?;
        let mut h = device.pinned::<u8>(64)?;
        device.start_trace(&stream)?;
        stream.fill_bytes(&mut h, 7)?;
        assert_eq!(&*h.read()?, &[7; 64]);
        let error = device.take_trace().expect_err("one time is missing");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        device.close()
    }

    /// The end of a stream cannot be recorded when the stream is dropped, but later it can: until
    /// then the stream stays, and its work can be waited for.
    #[test]
    fn a_stream_whose_end_cannot_be_recorded_stays_until_it_can() -> Result<()> {
        let device = refusing(&[1])?;
        let stream = device.stream()?;
        let mut h = device.pinned::<u8>(64)?;
        stream.fill_bytes(&mut h, 7)?;
        let (driver, handle) =
            (device.shared().domain.driver().clone(), stream.lane().stream.handle);
        drop(stream);
        assert!(driver.stream_query(handle).is_ok(), "the driver still has the stream");
        assert_eq!(&*h.read()?, &[7; 64]);
        device.close()?;
        let error = driver.stream_query(handle).expect_err("it was destroyed");
        assert_eq!(error.code(), Some(400), "CUDA_ERROR_INVALID_HANDLE");
        Ok(())
    }

    /// The end of a stream cannot be recorded when the stream is dropped, nor later. A call that
    /// needs its work then fails, and the driver is never handed the stream that is gone: it would
    /// answer with `InvalidValue`.
    #[test]
    fn a_stream_that_is_gone_is_never_recorded() -> Result<()> {
        let device = refusing(&[1, 2])?;
        let (stream, other) = (device.stream()?, device.stream()?);
        let (mut h, mut x) = (device.pinned::<u8>(64)?, other.alloc::<u8>(64)?);
        other.synchronize()?;
        stream.fill_bytes(&mut h, 7)?;
        drop(stream);
        // The next call that waits tries once more to drop it.
        other.synchronize()?;
        let errors = [h.read().map(|_| ()), other.copy(&h, &mut x)];
        for error in errors {
            assert_eq!(error.expect_err("its end is unknown").kind(), ErrorKind::Closed);
        }
        // Waiting for the device needs no record.
        device.synchronize()?;
        assert_eq!(&*h.read()?, &[7; 64]);
        let error = device.close().expect_err("dropping the stream failed");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        Ok(())
    }
}
