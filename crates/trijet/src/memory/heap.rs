//! Blocks of the heap of a device, which needs no call of the driver to allocate or free.
//!
//! The memory of a dropped block goes back at once, with the positions of its last users. An allocation
//! takes, in this order: memory whose users its stream comes after; memory whose users are complete; memory
//! whose users its stream has waited for; memory that a query finds complete; new memory of the device; and at
//! last, memory whose users are pending. The users that may be pending stay with the memory: the first
//! operation that writes it follows them, on whatever stream it runs.
#![forbid(unsafe_code)]

use super::block::Block;
use super::source::BlockSource;
use crate::base::error::{Error, ErrorKind, Result};
use crate::base::ledger::{Access, Mode, OpKind, OrderedBy, Place};
use crate::base::units::Bytes;
use crate::device::driver::Readiness;
use crate::device::memory::{Memory, Span};
use crate::heap::{GRANULE, Heap, Reuse, State, Taken, Users};
use crate::order::domain::Domain;
use crate::order::lane_ref::LaneRef;
use crate::order::track::Track;
use crate::stream::shared::{Shared, Source};
use crate::stream::stream::Stream;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

/// Blocks of other lists that are looked at before the heap grows.
const LOOKED_AT_MAX: usize = 32;
/// Events that are queried before the heap grows.
const QUERIES_MAX: usize = 4;
/// How often the heap grows for one allocation, if other threads take the new memory.
const GROWTHS_MAX: usize = 8;

/// Allocates `bytes`, for the first use in `stream`.
pub(super) fn alloc(
    stream: &Stream,
    heap: &Heap,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    let device = stream.device();
    device.run_deferred();
    let lane = stream.lane();
    lane.admit("alloc")?;
    let begun = device.domain.log().begin_call();
    let (whole, taken) = take(heap, lane, bytes).map_err(|error| device.failed(error))?;
    let place = taken.place();
    let Taken { index, users, .. } = taken;
    let domain = &device.domain;
    let track = Track::following(domain.id(), bytes.0, Place::Device, users);
    if let Some(begun) = begun {
        let kind = OpKind::FromHeap { place };
        domain.log().note_call(begun, kind, device.id, |op| {
            op.accesses.push(access(&track, bytes.0));
            op.label = Cow::Borrowed("alloc");
            op.bytes = bytes.0;
            op.site = Some(site.into());
        });
    }
    Ok(Block::numbered(Arc::<Shared>::clone(device), whole, track, index))
}

fn access(track: &Track, bytes: u64) -> Access {
    Access {
        block: track.id,
        place: Place::Device,
        range: 0..bytes,
        mode: Mode::Write,
        ordered: OrderedBy::Library,
    }
}

impl BlockSource for Shared {
    fn device(&self) -> &Shared {
        self
    }

    fn device_handle(self: Arc<Self>) -> Arc<Shared> {
        self
    }

    fn give_back(self: Arc<Self>, _: &Memory, track: &mut Track, number: u32) {
        let Source::Heap(heap) = &self.source else { return };
        let domain = &*self.domain;
        if let Some(begun) = domain.log().begin_call() {
            domain.log().note_call(begun, OpKind::ToHeap, self.id, |op| {
                op.accesses.push(access(track, track.bytes()));
                op.label = Cow::Borrowed("free");
            });
        }
        let mut users = Users::new();
        track.all_users(&(0..u64::MAX), Mode::Write, |user| domain.is_done(user), &mut users);
        domain.give_to_heap(heap, number, users);
    }
}

/// Takes a block of `bytes` for the first use in a lane.
#[inline(always)]
fn take(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Result<(Span, Taken)> {
    let granules = granules(bytes);
    let domain = &*lane.domain;
    let mut state = domain.lock_heap(heap);
    if let Some((taken, reuse)) = state.space.take(lane.id, granules) {
        return Ok(counted(&mut state, bytes, taken, reuse));
    }
    let followed = lane.lane().with_vector(|vector| {
        state.space.take_following(granules, LOOKED_AT_MAX, |user| vector.covers(user))
    });
    if let Some(taken) = followed {
        return Ok(counted(&mut state, bytes, taken, Reuse::Following));
    }
    state.space.retire(|user| domain.is_done(user));
    if let Some((taken, reuse)) = state.space.take(lane.id, granules) {
        return Ok(counted(&mut state, bytes, taken, reuse));
    }
    let awaited: Vec<Users> = state.space.awaited().take(QUERIES_MAX).cloned().collect();
    drop(state);
    if query(domain, &awaited)? {
        let mut state = domain.lock_heap(heap);
        state.space.retire(|user| domain.is_done(user));
        if let Some((taken, _)) = state.space.take(lane.id, granules) {
            return Ok(counted(&mut state, bytes, taken, Reuse::Queried));
        }
    }
    take_more(heap, lane, bytes)
}

/// Takes a block of new memory, or of memory that is still in use, whose users the first access follows.
#[cold]
fn take_more(heap: &Heap, lane: &LaneRef, bytes: Bytes) -> Result<(Span, Taken)> {
    let granules = granules(bytes);
    let domain = &*lane.domain;
    let driver = &**domain.driver();
    let mut refused = None;
    for _ in 0..GROWTHS_MAX {
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
    let mut state = domain.lock_heap(heap);
    if let Some(taken) = state.space.take_any(granules) {
        return Ok(counted(&mut state, bytes, taken, Reuse::Awaiting));
    }
    drop(state);
    // Memory that is free in pieces may be enough for one of this size.
    if heap.trim(driver, 0)? > 0 && heap.grow(driver, granules).is_ok() {
        let mut state = domain.lock_heap(heap);
        if let Some((taken, _)) = state.space.take(lane.id, granules) {
            return Ok(counted(&mut state, bytes, taken, Reuse::New));
        }
    }
    let state = domain.lock_heap(heap);
    Err(exhausted(&state, lane, granules, refused))
}

fn granules(bytes: Bytes) -> u64 {
    bytes.0.max(1).div_ceil(GRANULE)
}

#[inline(always)]
fn counted(state: &mut State, bytes: Bytes, taken: Taken, reuse: Reuse) -> (Span, Taken) {
    state.count(reuse);
    (state.span(&taken, bytes.0), taken)
}

/// Asks the driver whether the work that free memory waits for is complete, as far as events for it were
/// recorded. Returns whether some of it is.
fn query(domain: &Domain, awaited: &[Users]) -> Result<bool> {
    let mut found = false;
    for user in awaited.iter().flatten() {
        let Some(mark) = domain.lane(user.lane).recorded_mark(user.seq) else { continue };
        if domain.gate.query_event(mark.device, mark.event)? == Readiness::Ready {
            domain.observe(&mark.snapshot);
            domain.note_settled(&mark);
            found = true;
        }
    }
    Ok(found)
}

/// Why there is no memory for an allocation.
fn exhausted(state: &State, lane: &LaneRef, granules: u64, refused: Option<Error>) -> Error {
    let space = &state.space;
    let bytes = |granules: u64| Bytes(granules * GRANULE);
    let mut cause = format!(
        "{} asked for; the heap of {} holds {}, of which {} are in use and {} are free",
        bytes(granules),
        lane.device,
        Bytes(state.mapped()),
        bytes(space.live()),
        bytes(space.free()),
    );
    if space.free() > 0 {
        cause += &format!(", the largest free block with {}", bytes(space.largest()));
    }
    for (other, granules) in space.of_lanes() {
        cause += &format!("; {} wait for the work of lane {}", bytes(granules), other.0);
    }
    if let Some(refused) = refused {
        cause += &format!("; the device refused more: {refused}");
    }
    Error::new(ErrorKind::OutOfMemory, "alloc", cause).on(lane.device)
}
