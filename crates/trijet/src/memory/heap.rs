//! Blocks of the heap of a device. They are allocated and freed without a call of the driver,
//! unless the heap grows.
//!
//! When a block is dropped, its memory returns to the heap at once, with the positions of its last
//! users. An allocation in a stream takes the first of these that is available:
//!
//! 1. a block that the lane of the stream keeps (`share`);
//! 2. memory whose last users the stream follows;
//! 3. memory whose last users are known to be complete;
//! 4. memory whose last users the stream has waited for;
//! 5. blocks that other lanes keep;
//! 6. memory whose last users a query finds complete;
//! 7. new memory of the device;
//! 8. memory whose last users are pending.
//!
//! The mode of the heap leaves some of these steps out, or changes their order. The memory keeps
//! the users that may be pending: the first operation that writes the memory follows them, on any
//! stream.
#![forbid(unsafe_code)]

mod exhausted;
pub(super) mod kept;
pub(super) mod share;

use super::block::{Block, Home};
use super::source::BlockSource;
use crate::base::error::{ErrorKind, Result};
use crate::base::id::Position;
use crate::base::ledger::{Access, MemoryCall, Mode, OrderedBy, Place};
use crate::base::units::Bytes;
use crate::device::driver::Readiness;
use crate::device::memory::{Memory, Span};
use crate::heap::{GRANULE, Heap, HeapMode, Reuse, State, Taken, Trim, Users};
use crate::log::entry::Begun;
use crate::order::domain::Domain;
use crate::order::lane_ref::LaneRef;
use crate::order::track::Track;
use crate::stream::shared::{MemorySource, OpenDevice};
use crate::stream::stream::Stream;
use exhausted::exhausted;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// Maximum number of free blocks that an allocation examines in the lists of other lanes and in the
/// mixed list before the heap grows. The mixed list has the blocks with users in several lanes.
const LOOKED_AT_MAX: usize = 32;
/// Maximum number of lists of free blocks with pending users that an allocation queries before the
/// heap grows. Until the users of a block are known to be complete, only lanes that follow these
/// users can use the block without a wait. A query takes a hundredth of the time of a growth.
pub(super) const QUERIES_MAX: usize = 32;
/// Maximum number of times that the heap grows for one allocation. The heap grows again if other
/// threads take the new memory.
pub(super) const GROWTHS_MAX: usize = 8;

/// Runs the deferred work of the device, and checks that memory can be allocated in `stream`.
///
/// # Errors
/// An error with the reason why no memory can be allocated in the stream.
pub(super) fn admit(stream: &Stream) -> Result<()> {
    stream.device().run_deferred();
    stream.lane().admit("alloc")
}

/// Allocates `bytes` from the heap. The first use of the memory is in `stream`, which was
/// [admitted](admit).
pub(super) fn alloc(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    let source = |_: &Span| -> Arc<dyn BlockSource> { Arc::<OpenDevice>::clone(stream.device()) };
    alloc_from(stream, heap, bytes, site, source, true)
}

/// Allocates `bytes` like [`alloc`]. When the block is dropped, the memory returns to the source
/// that `source` makes. If `may_keep` is true, the lane of the stream may keep the block instead.
#[inline(always)]
pub(super) fn alloc_from(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
    source: impl FnOnce(&Span) -> Arc<dyn BlockSource>,
    may_keep: bool,
) -> Result<Arc<Block>> {
    let (device, lane) = (stream.device(), stream.lane());
    let begun = device.domain.log().begin_call();
    let (whole, taken) = take(heap, lane, bytes).map_err(|error| device.failed(error))?;
    heap.live.add(bytes.0);
    let place = taken.place();
    let Taken { index, users, granules, .. } = taken;
    let home = may_keep.then_some(Home { lane: lane.id, granules, place });
    let domain = &device.domain;
    let track = Track::following(domain.id(), bytes.0, Place::Device, users);
    if let Some(begun) = begun {
        note_from_heap(device, begun, &track, place, bytes.0, site);
    }
    Ok(Block::numbered(source(&whole), whole, track, index, home))
}

/// Appends the ledger entry of an allocation of `bytes` from a heap.
pub(super) fn note_from_heap(
    device: &OpenDevice,
    begun: Begun,
    track: &Track,
    place: u64,
    bytes: u64,
    site: &'static Location<'static>,
) {
    let log = device.domain.log();
    log.note_call(begun, MemoryCall::FromHeap { place }, device.id, |op| {
        op.accesses.push(access(track, bytes));
        op.label = Cow::Borrowed("alloc");
        op.bytes = bytes;
        op.site = Some(site.into());
    });
}

pub(super) fn access(track: &Track, bytes: u64) -> Access {
    Access {
        block: track.id,
        place: Place::Device,
        range: 0..bytes,
        mode: Mode::Write,
        ordered: OrderedBy::Library,
    }
}

impl BlockSource for OpenDevice {
    fn device(&self) -> &OpenDevice {
        self
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        self
    }

    fn give_back(self: Arc<Self>, _: &Memory, track: &mut Track, number: u32) {
        let MemorySource::Heap(heap) = &self.source else { return };
        let users = users_of_freed(&self, heap, track);
        self.domain.give_to_heap(heap, number, users);
    }
}

/// Counts a free and appends its ledger entry. Returns the users of the freed memory that may be
/// pending.
#[inline]
pub(super) fn users_of_freed(device: &OpenDevice, heap: &Heap, track: &Track) -> Users {
    let domain = &*device.domain;
    heap.live.subtract(track.bytes());
    if let Some(begun) = domain.log().begin_call() {
        domain.log().note_call(begun, MemoryCall::ToHeap, device.id, |op| {
            op.accesses.push(access(track, track.bytes()));
            op.label = Cow::Borrowed("free");
        });
    }
    let mut users = Users::new();
    let mode = heap.mode();
    let is_done = |user| domain.counts_as_done(mode, user);
    track.all_users(&(0..u64::MAX), Mode::Write, is_done, &mut users);
    users
}

/// Takes a block of `bytes`. The first use of the block is in `lane`.
#[inline(always)]
fn take(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Result<(Span, Taken)> {
    match take_free(heap, lane, bytes) {
        Some(found) => Ok(found),
        None => take_hidden(heap, lane, bytes),
    }
}

/// Takes a block that is free in the heap and that `lane` may use without a wait.
#[inline(always)]
fn take_free(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Option<(Span, Taken)> {
    let granules = granules(bytes);
    let domain = &*lane.domain;
    let mut state = domain.lock_heap(heap);
    if let Some((taken, reuse)) = state.space.take(lane.id, granules) {
        return Some(counted(&mut state, bytes, taken, reuse));
    }
    let followed = lane.lane().with_vector(|vector| {
        state.space.take_following(granules, LOOKED_AT_MAX, |user| vector.covers(user))
    });
    if let Some(taken) = followed {
        return Some(counted(&mut state, bytes, taken, Reuse::Following));
    }
    if !heap.mode().asks_for_completion() {
        return None;
    }
    domain.retire_in_heap(heap, &mut state);
    let (taken, reuse) = state.space.take(lane.id, granules)?;
    Some(counted(&mut state, bytes, taken, reuse))
}

/// Takes a block after the heap had no free block for the lane. Tries the blocks that lanes keep,
/// then blocks with users that a query finds complete, and then [`take_more`].
#[cold]
fn take_hidden(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Result<(Span, Taken)> {
    lane.domain.gather_in_heap(heap);
    if let Some(found) = take_free(heap, lane, bytes) {
        return Ok(found);
    }
    if heap.mode().asks_for_completion()
        && let Some(found) = take_queried(heap, lane, bytes, QUERIES_MAX)?
    {
        return Ok(found);
    }
    take_more(heap, lane, bytes)
}

/// Takes a block with users that a query finds complete. Queries the users of at most `queries`
/// blocks.
#[cold]
fn take_queried(
    heap: &Heap,
    lane: &LaneRef,
    bytes: Bytes,
    queries: usize,
) -> Result<Option<(Span, Taken)>> {
    let domain = &*lane.domain;
    let awaited = domain.lock_heap(heap).space.awaited(queries);
    if !query(domain, &awaited)? {
        return Ok(None);
    }
    let mut state = domain.lock_heap(heap);
    domain.retire_in_heap(heap, &mut state);
    let taken = state.space.take(lane.id, granules(bytes));
    Ok(taken.map(|(taken, _)| counted(&mut state, bytes, taken, Reuse::Queried)))
}

/// Takes a block of new memory, or a free block with pending users. The first write to the block
/// follows these users.
#[cold]
fn take_more(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Result<(Span, Taken)> {
    let granules = granules(bytes);
    let domain = &*lane.domain;
    let driver = &**domain.driver();
    let mode = heap.mode();
    let take_any = || {
        let mut state = domain.lock_heap(heap);
        let taken = state.space.take_any(granules)?;
        Some(counted(&mut state, bytes, taken, Reuse::Awaiting))
    };
    if mode == HeapMode::Footprint
        && let Some(found) = take_any()
    {
        return Ok(found);
    }
    let mut refused = None;
    for _ in 0..GROWTHS_MAX {
        let _turn = heap.turn_to_grow();
        // While this thread waited for `turn_to_grow`, another thread may have made the heap grow.
        let mut state = domain.lock_heap(heap);
        if let Some((taken, reuse)) = state.space.take(lane.id, granules) {
            return Ok(counted(&mut state, bytes, taken, reuse));
        }
        drop(state);
        if let Err(error) = heap.grow(driver, granules) {
            if error.kind() != ErrorKind::OutOfMemory {
                return Err(error);
            }
            refused = Some(error);
            break;
        }
        let mut state = domain.lock_heap(heap);
        if let Some((taken, _)) = state.space.take(lane.id, granules) {
            return Ok(counted(&mut state, bytes, taken, Reuse::New));
        }
    }
    if mode.asks_for_completion()
        && let Some(found) = take_queried(heap, lane, bytes, usize::MAX)?
    {
        return Ok(found);
    }
    if mode != HeapMode::NeverWait
        && let Some(found) = take_any()
    {
        return Ok(found);
    }
    // The free memory may suffice if its pieces are unmapped, and then mapped again at adjacent
    // addresses.
    if heap.trim(driver, Trim::Keep(0), |user| domain.is_done(*user))? > 0
        && heap.grow(driver, granules).is_ok()
    {
        let mut state = domain.lock_heap(heap);
        if let Some((taken, _)) = state.space.take(lane.id, granules) {
            return Ok(counted(&mut state, bytes, taken, Reuse::New));
        }
    }
    Err(exhausted(heap, lane, bytes, refused))
}

pub(super) fn granules(bytes: Bytes) -> u64 {
    bytes.0.max(1).div_ceil(GRANULE)
}

#[inline(always)]
fn counted(state: &mut State, bytes: Bytes, taken: Taken, reuse: Reuse) -> (Span, Taken) {
    state.count(reuse);
    (state.span(&taken, bytes.0), taken)
}

/// Queries the driver whether users of free memory are complete. Returns whether at least one user
/// was found complete.
///
/// If no event was recorded after a user, this function records an event, and a later call queries
/// that event. Otherwise a lane for which no thread ever waits would never be found complete, and
/// the heap would grow while the lane works.
pub(super) fn query(domain: &Domain, awaited: &[Users]) -> Result<bool> {
    let mut found = false;
    for user in awaited.iter().flatten() {
        if domain.is_done(*user) {
            continue;
        }
        let Some(mark) = domain.lane(user.lane).recorded_mark(user.seq) else {
            if domain.has_room_for_marks(std::iter::once(user)) {
                match domain.mark_for(*user) {
                    Err(error) if error.kind() != ErrorKind::Capturing => return Err(error),
                    _ => {}
                }
            }
            continue;
        };
        if domain.gate.query_event(mark.device, mark.event)? == Readiness::Ready {
            domain.settle(&mark);
            found = true;
        }
    }
    Ok(found)
}

/// Allocates like [`alloc`]. If there is no memory, the calling thread waits for operations that
/// used freed memory, until there is enough memory. It waits first for the memory that was freed
/// first.
pub(super) fn alloc_waiting(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    let domain = &stream.device().domain;
    loop {
        let error = match admit(stream).and_then(|()| alloc(stream, heap, bytes, site)) {
            Err(error) if error.kind() == ErrorKind::OutOfMemory => error,
            outcome => return outcome,
        };
        let pending = |user: &Position| !domain.is_done(*user);
        domain.gather_in_heap(heap);
        let earliest = domain.lock_heap(heap).space.earliest_freed(pending);
        let Some(users) = earliest else { return Err(error) };
        for user in users.into_iter().filter(pending) {
            let mark = domain.host_mark(user)?;
            domain.host_wait(&mark, site)?;
        }
        domain.retire_in_heap(heap, &mut domain.lock_heap(heap));
    }
}
