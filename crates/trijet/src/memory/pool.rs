//! Blocks of a device's pool: allocated and freed in stream order.
//!
//! A block is freed in the stream that allocated it, after a wait for every other user. The calls
//! for the waits and for the free block the thread if the stream has no room. But a drop must not
//! block. So if the stream may have no room, the drop leaves the block to the next call that
//! allocates or waits.
#![forbid(unsafe_code)]

use super::block::Block;
use super::source::BlockSource;
use crate::base::error::{ErrorKind, Result};
use crate::base::ledger::{Mode, Place, StreamClass};
use crate::base::units::Bytes;
use crate::device::driver::{Action, PoolHandle};
use crate::device::memory::Memory;
use crate::log::calling;
use crate::order::submission::Submission;
use crate::order::track::{NeededPositions, Track, Use};
use crate::stream::shared::OpenDevice;
use crate::stream::stream::{Inner, Stream};
use std::cell::Cell;
use std::panic::Location;
use std::sync::Arc;

/// Allocates `bytes` in stream order.
pub(super) fn alloc(
    stream: &Stream,
    pool: PoolHandle,
    bytes: Bytes,
    site: &'static Location<'static>,
) -> Result<Arc<Block>> {
    stream.device().run_deferred();
    let track = Track::new(stream.lane().domain.id(), bytes.0, Place::Device);
    let uses = [Use { track: &track, range: 0..bytes.0, mode: Mode::Write }];
    let pool = Some(pool);
    let memory = Cell::new(None);
    let alloc = Action::Alloc { pool, bytes: Bytes(bytes.0.max(1)), memory: &memory };
    stream.enqueue(alloc, &uses, site)?;
    let memory = memory.take().expect("the driver allocated the memory");
    let source: Arc<dyn BlockSource> = Arc::<Inner>::clone(stream.inner());
    Ok(Block::with_track(source, memory.span(0..bytes.0), track))
}

impl BlockSource for Inner {
    fn device(&self) -> &OpenDevice {
        self.device()
    }

    fn device_handle(self: Arc<Self>) -> Arc<OpenDevice> {
        Arc::<OpenDevice>::clone(Self::device(&self))
    }

    fn give_back(self: Arc<Self>, memory: &Memory, track: &mut Track, _: u32) {
        free(memory.clone(), track.take(), self, When::Dropped);
    }
}

/// The kind of call that frees a block. The kind decides what happens if the driver refuses the
/// free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// The drop of the block, which must not wait.
    Dropped,
    /// A call that may wait. If the free is refused, the next call that may wait makes the last
    /// attempt.
    Later,
    /// The last attempt. If the free is refused, the memory leaks, unless a capture is the reason.
    Last,
}

/// Frees memory in the order of `stream`, after every user of the memory.
#[track_caller]
fn free(memory: Memory, track: Track, stream: Arc<Inner>, when: When) {
    let later = |memory, track, stream: Arc<Inner>, when| {
        let device = Arc::clone(stream.device());
        device.defer(Box::new(move || free(memory, track, stream, when)));
    };
    if calling::inside() || when == When::Dropped && !has_room(&track, &stream) {
        return later(memory, track, stream, When::Later);
    }
    if stream.lane().legacy.as_ref().is_some_and(|legacy| !legacy.is_own_thread()) {
        // The stream is the default stream of another thread, so this thread cannot use it. But
        // memory can be freed in any stream of the device.
        return match Stream::new(stream.device(), StreamClass::NonBlocking, 0) {
            Ok(other) => free(memory, track, Arc::clone(other.inner()), when),
            Err(error) if when == When::Last || error.is_loss() => {
                stream.device().keep_error(error);
            }
            Err(_) => later(memory, track, stream, When::Last),
        };
    }
    let range = 0..memory.bytes();
    let uses = [Use { track: &track, range, mode: Mode::Write }];
    let submission = Submission::new(Action::Free(&memory), &uses, Location::caller());
    let outcome = stream.lane().enqueue(&submission);
    let Err(error) = outcome else { return };
    if error.kind() == ErrorKind::Capturing {
        // Later calls try again until the capture has ended.
        later(memory, track, stream, when);
    } else if when == When::Last || error.is_loss() {
        stream.device().keep_error(error);
    } else {
        later(memory, track, stream, When::Last);
    }
}

/// Whether the stream has room for a free and for the waits for every user, so that the calls do
/// not block.
fn has_room(track: &Track, stream: &Inner) -> bool {
    let mut users = NeededPositions::new();
    track.all_users(&(0..u64::MAX), Mode::Write, |_| false, &mut users);
    stream.lane().domain.has_room_for(stream.lane().id, &users)
}

#[cfg(test)]
mod tests {
    use crate::base::error::{ErrorKind, Result};
    use crate::base::id::Position;
    use crate::base::ledger::{LedgerNote, OpKind};
    use crate::device::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
    use crate::stream::device::Device;

    /// A host device that refuses to create certain events. `events` has their numbers in the order
    /// of creation, counted from 1.
    fn refusing(events: &[u64]) -> Result<Device> {
        let refused = |nth| Fault { verb: Verb::EventCreate, nth, kind: FaultKind::Refused };
        let faults = events.iter().copied().map(refused).collect();
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor).faults(faults);
        Ok(Device::host(config)?.remove(0))
    }

    /// The operation is enqueued, but the event at its end cannot be recorded for the trace. If the
    /// enqueue call failed for this reason, the operation would have no stamp. The host could then
    /// access its bytes while it runs.
    #[test]
    fn an_operation_whose_time_cannot_be_noted_is_stamped() -> Result<()> {
        // The first two events are for time zero and for the start of the operation.
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

    /// The end of a stream cannot be recorded when the stream is dropped, but can be recorded
    /// later. Until then the driver keeps the stream, and threads can wait for the work of the
    /// stream.
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

    /// The end of a stream can be recorded neither when the stream is dropped, nor later. Then a
    /// call that needs the work of the stream fails. The driver never gets the destroyed stream: it
    /// would answer with `InvalidValue`.
    #[test]
    fn a_stream_that_is_gone_is_never_recorded() -> Result<()> {
        let device = refusing(&[1, 2])?;
        let (stream, other) = (device.stream()?, device.stream()?);
        let (mut h, mut x) = (device.pinned::<u8>(64)?, other.alloc::<u8>(64)?);
        other.synchronize()?;
        stream.fill_bytes(&mut h, 7)?;
        drop(stream);
        // The next call that waits tries again to drop the stream.
        other.synchronize()?;
        let errors = [h.read().map(|_| ()), other.copy(&h, &mut x)];
        for error in errors {
            assert_eq!(
                error.expect_err("the end of the stream is unknown").kind(),
                ErrorKind::Closed
            );
        }
        // A wait for the whole device needs no event record.
        device.synchronize()?;
        assert_eq!(&*h.read()?, &[7; 64]);
        let error = device.close().expect_err("dropping the stream failed");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        Ok(())
    }

    /// Another thread may use memory again as soon as the users of the memory count as complete. So
    /// the entry of the query that found the users complete is appended first.
    #[test]
    fn a_lane_that_a_query_finds_free_has_its_entry_before_its_work_counts_as_complete()
    -> Result<()> {
        let device = refusing(&[])?;
        // With this number of lanes, a query decides whether another lane is free.
        let mut streams = (0..64).map(|_| device.stream()).collect::<Result<Vec<_>>>()?;
        device.start_trace(&streams[0])?;
        let dropped = streams.pop().expect("there are many");
        let mut x = dropped.alloc::<u32>(64)?;
        dropped.fill(&mut x, 1)?;
        let domain = &device.shared().domain;
        let position = Position { lane: dropped.lane().id, seq: 1 };
        drop(dropped);
        assert!(!domain.is_done(position), "no thread knows that the work is complete");
        // Time passes, but the queries of an idle stream tell this thread nothing.
        (0..1000).try_for_each(|_| streams[1].query().map(drop))?;
        assert_eq!(domain.free_lane()?.id, position.lane, "the only lane that is free");
        let ops = device.take_trace()?.ops;
        let is_settled =
            ops.iter().any(|op| matches!(op.kind, OpKind::Note(LedgerNote::Settled { .. })));
        assert_eq!((domain.is_done(position), is_settled), (true, true));
        Ok(())
    }
}
