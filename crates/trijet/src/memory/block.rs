//! A block: one allocation with its stamps, freed when its last buffer goes.
//!
//! Dropping never blocks. Device memory is freed in stream order on the stream that allocated it,
//! which then waits for every other user; if a stream may have no room for that, at the next call
//! that allocates or waits. Memory of the host goes back to a list of the universe
//! with its stamps; it is handed out again when its users are complete. Its pages are never
//! unlocked while the process uses the driver, because that waits for the device, and a pageable
//! copy may touch its bytes after the call (law A17).
#![forbid(unsafe_code)]

use crate::base::error::{Error, ErrorKind, Result};
use crate::base::id::DeviceId;
use crate::base::ledger::{Engine, Mode, Named, OpKind, Place};
use crate::base::mutant;
use crate::base::units::Bytes;
use crate::device::driver::{Readiness, StreamKind};
use crate::device::memory::{Memory, Space, Span};
use crate::stream::callback;
use crate::stream::default::Origin;
use crate::stream::device::{Device, Shared};
use crate::stream::enqueue::{Call, Returns, Spec};
use crate::stream::queue::{Inner, Stream};
use crate::stream::ready::Waiting;
use crate::stream::track::{Needs, Track, Use};
use crate::stream::universe::Universe;
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
        let track = Track::new(stream.lane().universe.id, bytes.0, Place::Device);
        let spec = stream.spec(OpKind::Alloc, Engine::None, "alloc", site);
        let pool = stream.device().pool;
        let uses = [Use { track: &track, range: 0..bytes.0, mode: Mode::Write }];
        let run = |driver: &dyn crate::device::driver::Driver, handle| {
            driver.alloc(handle, Some(pool), Bytes(bytes.0.max(1)))
        };
        let (_, memory) = stream.lane().enqueue(&spec, &uses, run)?;
        let whole = memory.span(0..bytes.0);
        Ok(Self { whole, track, home: Home::Stream(Arc::clone(stream.inner())) })
    }

    /// Memory of the host, page-locked or pageable: some that nobody uses any more, or new.
    #[track_caller]
    pub(crate) fn on_host(device: &Device, bytes: Bytes, space: Space) -> Result<Self> {
        let op = if space == Space::Pinned { "pinned" } else { "pageable" };
        callback::refuse(op)?;
        let shared = Arc::clone(device.shared());
        let memory = match reuse(&shared.universe, bytes, space) {
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
        let track = Track::new(shared.universe.id, bytes.0, place);
        Ok(Self { whole: memory.span(0..bytes.0), track, home: Home::Host(shared) })
    }

    pub(crate) fn name(&self, name: &str) {
        let of = Named::Block(self.track.id);
        self.universe().recorders.name_object(of, self.device(), name);
    }

    pub(crate) fn universe(&self) -> &Arc<Universe> {
        match &self.home {
            Home::Stream(stream) => &stream.lane().universe,
            Home::Host(shared) => &shared.universe,
        }
    }

    /// Makes the calling thread wait for the operations that an access by the host must follow.
    pub(crate) fn host_wait(
        &self,
        range: std::ops::Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) -> Result<()> {
        self.universe().host_wait_for((&self.track, range), mode, site)
    }

    /// The host is lent the memory, and uses it from now on.
    pub(crate) fn note_host(
        &self,
        range: std::ops::Range<u64>,
        mode: Mode,
        site: &'static Location<'static>,
    ) {
        let access = || self.track.access(range, mode);
        self.universe().note_host(OpKind::Host, self.device(), access, site);
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
        let points = callback::refuse("ready")
            .and_then(|()| self.universe().host_points(&self.track, range.clone(), mode));
        let access = || self.track.access(range, mode);
        self.universe().note_host(OpKind::Lent, self.device(), access, site);
        Waiting::new(device, points, site)
    }
}

/// Page-locks new memory. What is in it is no business of a checker: it is never given back.
fn lock_pages(device: &Shared, bytes: Bytes, site: &'static Location<'static>) -> Result<Memory> {
    let universe = &device.universe;
    let begun = universe.begin_call();
    let locked = universe.driver.pinned_alloc(device.id, bytes);
    let memory = locked.map_err(|error| device.failed(error))?;
    if let Some(begun) = begun {
        universe.note_call(begun, OpKind::AllocNow, device.id, |op| {
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
fn reuse(universe: &Arc<Universe>, bytes: Bytes, space: Space) -> Option<Memory> {
    let fits = |memory: &Memory| {
        let size = memory.bytes();
        memory.space() == space && size >= bytes.0 && size / 2 <= bytes.0.max(PAGE)
    };
    let mut busy = Vec::new();
    let found = loop {
        let mut kept = universe.kept.lock().expect("no panic under this lock");
        let fitting = (0..kept.len()).filter(|index| fits(&kept[*index].0));
        let Some(index) = fitting.min_by_key(|index| kept[*index].0.bytes()) else { break None };
        let (memory, track) = kept.swap_remove(index);
        drop(kept);
        // Memory whose users a lost device can tell nothing of is as good as busy.
        if is_idle(universe, &track).unwrap_or(false)
            || mutant::on(29, "kept memory is handed out while it is used")
        {
            break Some(memory);
        }
        busy.push((memory, track));
    };
    universe.kept.lock().expect("no panic under this lock").extend(busy);
    found
}

/// Whether every operation that used the memory is complete, asking the driver without waiting.
fn is_idle(universe: &Arc<Universe>, track: &Track) -> Result<bool> {
    let mut needs = Needs::new();
    track.all_users(&(0..u64::MAX), Mode::Write, |p| universe.is_done(p), &mut needs);
    for need in needs {
        let mark = universe.mark_for(need)?;
        if universe.driver.event_query(mark.event)? == Readiness::NotReady {
            return Ok(false);
        }
        universe.observe(&mark.snapshot);
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
    if callback::inside() || when == When::Dropped && !has_room(&track, &stream) {
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
    let spec = Spec {
        kind: OpKind::Free,
        engine: Engine::None,
        label: "free",
        chunk: None,
        site: Location::caller(),
        returns: Returns::AtOnce,
        call: Call::Enqueues,
    };
    let range = if mutant::on(30, "a free waits for nobody") { 0..0 } else { range };
    let uses = [Use { track: &track, range, mode: Mode::Write }];
    let outcome =
        stream.lane().enqueue(&spec, &uses, |driver, handle| driver.free(handle, &memory));
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
    stream.lane().universe.has_room_for(stream.lane().id, &users)
}

impl Drop for Block {
    fn drop(&mut self) {
        if callback::forked() {
            return;
        }
        self.universe().recorders.forget_block(self.track.id);
        let nothing = Track::new(self.universe().id, 0, Place::Device);
        let track = std::mem::replace(&mut self.track, nothing);
        match &self.home {
            Home::Stream(stream) => {
                free(self.whole.memory().clone(), track, Arc::clone(stream), When::Dropped);
            }
            Home::Host(shared) => {
                let mut kept = shared.universe.kept.lock().expect("no panic under this lock");
                kept.push((self.whole.memory().clone(), track));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::error::{Error, ErrorKind, Result};
    use crate::base::id::DeviceId;
    use crate::base::units::{Bytes, Nanos};
    use crate::device::driver::{
        Activities, CopySpans, DeviceInfo, Driver, EventHandle, FunctionHandle, HostFn, Image,
        Launch, Mode, ModuleHandle, PoolAccess, PoolAttribute, PoolHandle, Progress, Readiness,
        Script, SourceOrder, StreamHandle, StreamKind, Timing,
    };
    use crate::device::memory::{Memory, Span};
    use crate::device::twin::Twin;
    use crate::device::{Executor, HostConfig, Order, open_host};
    use crate::stream::device::Device;
    use crate::stream::universe::Universe;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::sync::{Arc, Mutex};

    /// A driver that makes only so many events more, and notes the use of what was destroyed.
    #[derive(Debug)]
    struct Scarce {
        inner: Arc<dyn Driver>,
        events_left: AtomicI64,
        destroyed: Mutex<Vec<StreamHandle>>,
        misused: Mutex<Vec<StreamHandle>>,
    }

    macro_rules! pass_on {
        ($($verb:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
            $(fn $verb(&self, $($arg: $type),*) -> $out { self.inner.$verb($($arg),*) })*
        };
    }

    impl Driver for Scarce {
        fn event_create(&self, device: DeviceId, timing: Timing) -> Result<EventHandle> {
            if self.events_left.fetch_sub(1, Ordering::Relaxed) > 0 {
                return self.inner.event_create(device, timing);
            }
            Err(Error::new(ErrorKind::OutOfMemory, "event create", "no event is left"))
        }

        fn event_record(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
            if self.destroyed.lock().expect("no panic here").contains(&stream) {
                self.misused.lock().expect("no panic here").push(stream);
            }
            self.inner.event_record(event, stream)
        }

        fn stream_destroy(&self, stream: StreamHandle) -> Result<()> {
            self.destroyed.lock().expect("no panic here").push(stream);
            self.inner.stream_destroy(stream)
        }

        pass_on! {
            device_count() -> Result<u32>;
            device_info(device: DeviceId) -> Result<DeviceInfo>;
            memory_info(device: DeviceId) -> Result<(Bytes, Bytes)>;
            synchronize(device: DeviceId) -> Result<()>;
            stream_create(device: DeviceId, kind: StreamKind, priority: i32)
                -> Result<StreamHandle>;
            stream_legacy(device: DeviceId) -> Result<StreamHandle>;
            stream_per_thread(device: DeviceId) -> Result<StreamHandle>;
            stream_synchronize(stream: StreamHandle) -> Result<()>;
            stream_query(stream: StreamHandle) -> Result<Readiness>;
            stream_wait(stream: StreamHandle, event: EventHandle) -> Result<()>;
            event_destroy(event: EventHandle) -> Result<()>;
            event_query(event: EventHandle) -> Result<Readiness>;
            event_poll(event: EventHandle) -> Result<Progress>;
            host_time() -> Option<Nanos>;
            event_synchronize(event: EventHandle) -> Result<()>;
            event_elapsed(from: EventHandle, to: EventHandle) -> Result<Nanos>;
            activity_begin() -> Result<()>;
            activity_tag(tag: Option<u64>) -> ();
            activity_time() -> Result<Nanos>;
            activity_take() -> Result<Activities>;
            host_fn(stream: StreamHandle, run: HostFn, touches: &[(Span, Mode)]) -> Result<()>;
            pool_create(device: DeviceId, max: Bytes) -> Result<PoolHandle>;
            pool_destroy(pool: PoolHandle) -> Result<()>;
            pool_default(device: DeviceId) -> Result<PoolHandle>;
            pool_current(device: DeviceId) -> Result<PoolHandle>;
            pool_set_current(device: DeviceId, pool: PoolHandle) -> Result<()>;
            pool_get(pool: PoolHandle, attribute: PoolAttribute) -> Result<u64>;
            pool_set(pool: PoolHandle, attribute: PoolAttribute, value: u64) -> Result<()>;
            pool_trim(pool: PoolHandle, keep: Bytes) -> Result<()>;
            pool_set_access(pool: PoolHandle, device: DeviceId, access: PoolAccess) -> Result<()>;
            pool_access(pool: PoolHandle, device: DeviceId) -> Result<PoolAccess>;
            alloc(stream: StreamHandle, pool: Option<PoolHandle>, bytes: Bytes) -> Result<Memory>;
            free(stream: StreamHandle, memory: &Memory) -> Result<()>;
            device_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
            device_free(memory: &Memory) -> Result<()>;
            peer_possible(device: DeviceId, peer: DeviceId) -> Result<bool>;
            peer_enable(device: DeviceId, peer: DeviceId) -> Result<()>;
            peer_disable(device: DeviceId, peer: DeviceId) -> Result<()>;
            pinned_alloc(device: DeviceId, bytes: Bytes) -> Result<Memory>;
            pinned_free(memory: &Memory) -> Result<()>;
            copy(stream: StreamHandle, dst: &Span, src: &Span) -> Result<()>;
            copy_batch(stream: StreamHandle, copies: &[CopySpans], order: SourceOrder)
                -> Result<()>;
            copy_now(device: DeviceId, dst: &Span, src: &Span) -> Result<()>;
            fill(stream: StreamHandle, dst: &Span, value: u8) -> Result<()>;
            fill_now(device: DeviceId, dst: &Span, value: u8) -> Result<()>;
            module_load(device: DeviceId, label: &str, image: Image<'_>) -> Result<ModuleHandle>;
            function(module: ModuleHandle, entry: &str, shared_bytes: u32, twin: Option<Twin>)
                -> Result<FunctionHandle>;
            launch(stream: StreamHandle, launch: &Launch<'_>) -> Result<()>;
            script(threads: Vec<Script<'_>>) -> ();
            pause() -> ();
        }
    }

    fn scarce() -> (Arc<Scarce>, Device) {
        let executor = Executor::Virtual(Order::Greedy);
        let inner = open_host(HostConfig { executor, ..HostConfig::default() });
        let driver = Arc::new(Scarce {
            inner: inner.expect("a host device"),
            events_left: AtomicI64::new(i64::MAX),
            destroyed: Mutex::default(),
            misused: Mutex::default(),
        });
        let universe = Universe::new(Arc::clone(&driver) as Arc<dyn Driver>);
        (driver, Device::of(&universe, DeviceId(0)).expect("its first device"))
    }

    /// The operation was enqueued, and only then its time could not be noted. The call once
    /// failed, so that no stamp told of the operation and its bytes were lent at once.
    #[test]
    fn an_operation_whose_time_cannot_be_noted_is_stamped() -> Result<()> {
        let (driver, device) = scarce();
        let stream = device.stream()?;
        let mut h = device.pinned::<u8>(64)?;
        device.record(&stream)?;
        // One for the moment before the operation, none for the moment after.
        driver.events_left.store(1, Ordering::Relaxed);
        stream.fill_bytes(&mut h, 7)?;
        driver.events_left.store(i64::MAX, Ordering::Relaxed);
        assert_eq!(&*h.read()?, &[7; 64]);
        let error = device.take_record().expect_err("one time is missing");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        device.close()
    }

    /// The end of a stream could not be recorded when it was dropped, but later it can: until then
    /// the stream stays, and its work can be waited for.
    #[test]
    fn a_stream_whose_end_cannot_be_recorded_stays_until_it_can() -> Result<()> {
        let (driver, device) = scarce();
        let stream = device.stream()?;
        let mut h = device.pinned::<u8>(64)?;
        stream.fill_bytes(&mut h, 7)?;
        driver.events_left.store(0, Ordering::Relaxed);
        drop(stream);
        driver.events_left.store(i64::MAX, Ordering::Relaxed);
        assert_eq!(&*h.read()?, &[7; 64]);
        assert!(driver.destroyed.lock().expect("no panic here").is_empty());
        device.clone().close()?;
        assert_eq!(driver.destroyed.lock().expect("no panic here").len(), 1);
        Ok(())
    }

    /// The end of a stream could not be recorded when it was dropped, nor later. Who needs its work later
    /// gets an error, and the driver is never handed the stream that is gone.
    #[test]
    fn a_stream_that_is_gone_is_never_recorded() -> Result<()> {
        let (driver, device) = scarce();
        let (stream, other) = (device.stream()?, device.stream()?);
        let (mut h, mut x) = (device.pinned::<u8>(64)?, other.alloc::<u8>(64)?);
        other.synchronize()?;
        stream.fill_bytes(&mut h, 7)?;
        driver.events_left.store(0, Ordering::Relaxed);
        drop(stream);
        // Dropping is tried once more by the next call that waits.
        other.synchronize()?;
        driver.events_left.store(i64::MAX, Ordering::Relaxed);
        let errors = [h.read().map(|_| ()), other.copy(&h, &mut x)];
        for error in errors {
            assert_eq!(error.expect_err("nobody can tell").kind(), ErrorKind::Closed);
        }
        // Waiting for the device needs no record.
        device.synchronize()?;
        assert_eq!(&*h.read()?, &[7; 64]);
        assert!(driver.misused.lock().expect("no panic here").is_empty());
        let error = device.close().expect_err("dropping the stream failed");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        Ok(())
    }
}
