//! The four kinds of streams: which pairs order themselves (laws A1 and A13 to A15).

use super::{Gate, upload, words};
use std::sync::Mutex;
use trijet::sim::Script;
use trijet::testing::{MIX, WORK};
use trijet::{
    Clock, Device, Event, PinnedBuffer, Readiness, Result, Stream, StreamOptions, TimedEvent,
};

/// A kind of stream. Two of the same kind are the same stream for the default ones, and two
/// streams for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Legacy,
    PerThread,
    Blocking,
    NonBlocking,
}

pub(crate) const KINDS: [Kind; 4] =
    [Kind::Legacy, Kind::PerThread, Kind::Blocking, Kind::NonBlocking];

impl Kind {
    pub(crate) fn open(self, device: &Device) -> Result<Stream> {
        match self {
            Self::Legacy => device.legacy_stream(),
            Self::PerThread => device.per_thread_stream(),
            Self::Blocking => device.stream_with(StreamOptions::new().blocking()),
            Self::NonBlocking => device.stream(),
        }
    }
}

/// What the work of the second stream was seen to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Second {
    Waited,
    Overtook,
}

/// Whether work enqueued in a stream of kind `second` waits for what `first` was given before:
/// within one stream (A1), and between the legacy stream and blocking ones (A13), of which the
/// per-thread stream is one (A15).
pub(crate) fn must_wait(first: Kind, second: Kind) -> bool {
    let blocking = |kind| matches!(kind, Kind::Blocking | Kind::PerThread);
    match (first, second) {
        (Kind::Legacy, Kind::Legacy) | (Kind::PerThread, Kind::PerThread) => true,
        (Kind::Legacy, other) | (other, Kind::Legacy) => blocking(other),
        _ => false,
    }
}

/// Whether `event` completes while a gate is closed. The host's patience ends, so that a stream
/// that waits for the gate is no deadlock; modelled time passes only while somebody waits, and
/// there the wait ends because the gate opens by itself.
pub(crate) fn ends_early(device: &Device, event: &Event) -> Result<bool> {
    const POLLS: u32 = 100_000;
    if device.info().clock == Clock::Model {
        event.synchronize()?;
        return Ok(true);
    }
    for _ in 0..POLLS {
        if event.query()? == Readiness::Ready {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// A byte is written in a stream behind a gate, and read in another stream that was given its work
/// later. Nothing but the kinds of the streams orders the two.
pub(crate) fn second_of_two(device: &Device, first: Kind, second: Kind) -> Result<Second> {
    let (a, b, keeper) = (first.open(device)?, second.open(device)?, device.stream()?);
    let (mut x, mut seen) = (keeper.alloc::<u8>(1)?, device.pinned::<u8>(1)?);
    seen.write()?.fill(2);
    keeper.fill_bytes(&mut x, 0)?;
    keeper.synchronize()?;
    // SAFETY: whichever comes first, the write of this byte or the read, both see a byte.
    unsafe { x.order_manually() };
    let done = device.event()?;
    let gate = Gate::on(device, &a)?;
    a.fill_bytes(&mut x, 1)?;
    b.copy(&x, &mut seen)?;
    done.record(&b)?;
    ends_early(device, &done)?;
    gate.open();
    device.synchronize()?;
    let value = seen.read()?[0];
    assert!(value < 2, "the copy delivered {value}");
    Ok(if value == 1 { Second::Waited } else { Second::Overtook })
}

/// Laws A1, A13 and A15, for every ordered pair. Where no law makes the second wait, it may all the
/// same (A3); no device here does while the first is held up for long.
pub(crate) fn the_matrix_of_default_streams(device: &Device) -> Result<()> {
    for first in KINDS {
        for second in KINDS {
            let expected = if must_wait(first, second) { Second::Waited } else { Second::Overtook };
            let found = second_of_two(device, first, second)?;
            assert_eq!(found, expected, "{second:?} after {first:?}");
        }
    }
    Ok(())
}

/// Law A13: every action of the legacy stream is a barrier, a wait for an event included. What is
/// waited for here is in a stream that has nothing to do with the legacy one.
pub(crate) fn a_wait_of_the_legacy_stream_holds_blocking_streams_back(
    device: &Device,
) -> Result<()> {
    let (free, blocking, legacy) = (
        device.stream()?,
        device.stream_with(StreamOptions::new().blocking())?,
        device.legacy_stream()?,
    );
    let (event, after) = (device.event()?, device.event()?);
    let mut x = upload(device, &free, &words(1, 8))?;
    let mut y = upload(device, &blocking, &words(2, 8))?;
    device.synchronize()?;
    let gate = Gate::on(device, &free)?;
    free.fill_bytes(&mut x, 1)?;
    event.record(&free)?;
    legacy.wait(&event)?;
    blocking.fill_bytes(&mut y, 1)?;
    after.record(&blocking)?;
    assert_eq!(after.query()?, Readiness::NotReady, "the legacy stream waits, and so do others");
    gate.open();
    after.synchronize()?;
    assert_eq!(event.query()?, Readiness::Ready, "what follows the wait follows the event");
    Ok(())
}

/// Law A5 for the legacy stream: there is nothing to wait for.
pub(crate) fn a_wait_of_the_legacy_stream_for_an_unrecorded_event_holds_nothing_back(
    device: &Device,
) -> Result<()> {
    let (free, blocking, legacy) = (
        device.stream()?,
        device.stream_with(StreamOptions::new().blocking())?,
        device.legacy_stream()?,
    );
    let (event, after) = (device.event()?, device.event()?);
    let mut y = upload(device, &blocking, &words(2, 8))?;
    device.synchronize()?;
    let gate = Gate::on(device, &free)?;
    legacy.wait(&event)?;
    event.record(&free)?;
    blocking.fill_bytes(&mut y, 1)?;
    after.record(&blocking)?;
    assert!(ends_early(device, &after)?, "the later record does not matter");
    assert_eq!(event.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    device.synchronize()
}

/// Law A14: an event of the legacy stream stands for all blocking streams, and so does a query.
pub(crate) fn the_legacy_stream_stands_for_blocking_streams(device: &Device) -> Result<()> {
    for kind in [Kind::Blocking, Kind::PerThread] {
        let (held, legacy) = (kind.open(device)?, device.legacy_stream()?);
        let event = device.event()?;
        let mut x = upload(device, &held, &words(3, 8))?;
        device.synchronize()?;
        let gate = Gate::on(device, &held)?;
        held.fill_bytes(&mut x, 1)?;
        event.record(&legacy)?;
        assert_eq!(event.query()?, Readiness::NotReady, "{kind:?}: the event");
        assert_eq!(legacy.query()?, Readiness::NotReady, "{kind:?}: the query");
        gate.open();
        event.synchronize()?;
        legacy.synchronize()?;
        assert_eq!(held.query()?, Readiness::Ready, "{kind:?}: the wait covered it");
    }
    Ok(())
}

/// Law A13: work of a blocking stream comes after what the legacy stream held, and who waits for that
/// work needs no other wait.
pub(crate) fn a_wait_for_a_blocking_stream_covers_earlier_work_of_the_legacy_stream(
    device: &Device,
) -> Result<()> {
    let (blocking, legacy) =
        (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
    let other = device.stream()?;
    let mut x = upload(device, &legacy, &words(4, 8))?;
    let (mut y, mut z) = (blocking.alloc::<u64>(8)?, other.alloc::<u64>(8)?);
    device.synchronize()?;
    legacy.fill_bytes(&mut x, 1)?;
    blocking.fill_bytes(&mut y, 2)?;
    blocking.synchronize()?;
    let start = device.ordering().waits;
    other.launch(&MIX, (1, &x, &mut z))?;
    assert_eq!(device.ordering().waits, start, "x was complete before y");
    device.synchronize()
}

/// Laws A13 and A14: a non-blocking stream is none of the legacy stream's business.
pub(crate) fn the_legacy_stream_does_not_stand_for_non_blocking_streams(
    device: &Device,
) -> Result<()> {
    let (held, legacy) = (device.stream()?, device.legacy_stream()?);
    let event = device.event()?;
    let mut x = upload(device, &held, &words(4, 8))?;
    device.synchronize()?;
    let gate = Gate::on(device, &held)?;
    held.fill_bytes(&mut x, 1)?;
    event.record(&legacy)?;
    assert!(ends_early(device, &event)?, "nothing in a blocking stream is pending");
    legacy.synchronize()?;
    assert_eq!(held.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    device.synchronize()
}

/// Laws A13 and A18: sync copies and fills are actions of the legacy stream.
pub(crate) fn a_synchronous_copy_is_ordered_with_blocking_streams(device: &Device) -> Result<()> {
    let blocking = device.stream_with(StreamOptions::new().blocking())?;
    let keeper = device.stream()?;
    let (mut x, mut seen) = (keeper.alloc::<u8>(64)?, device.pinned::<u8>(64)?);
    for round in 0..8 {
        keeper.fill_bytes(&mut x, 0xff)?;
        keeper.synchronize()?;
        // SAFETY: the legacy stream orders what follows, and nobody else uses the bytes.
        unsafe { x.order_manually() };
        blocking.fill_bytes(&mut x.slice_mut(..32), round)?;
        device.fill_now(&mut x.slice_mut(..16), round + 100)?;
        blocking.fill_bytes(&mut x.slice_mut(..8), round + 200)?;
        device.copy_now(&x, &mut seen)?;
        let expected = [[round + 200; 8], [round + 100; 8], [round; 8], [round; 8]].concat();
        assert_eq!(seen.read()?[..32], expected, "round {round}");
    }
    Ok(())
}

/// Law A15: the threads' streams are streams of their own. The legacy stream holds all eight up,
/// and when it lets go, all are in flight.
pub(crate) fn eight_threads_overlap_on_their_per_thread_streams(device: &Device) -> Result<()> {
    const LEN: usize = 256;
    // A few milliseconds for one block of a GPU; for a processor it would be long.
    let rounds = if device.info().clock == Clock::Device { 300_000 } else { 300 };
    let legacy = device.legacy_stream()?;
    let source: Vec<u32> = (0..256).collect();
    let mut staged = device.pinned::<u32>(LEN)?;
    staged.write()?.copy_from_slice(&source);
    let mut landed: Vec<PinnedBuffer<u32>> =
        (0..8).map(|_| device.pinned::<u32>(LEN)).collect::<Result<_>>()?;
    let zero = device.timed_event()?;
    zero.record(&legacy)?;
    let marks: Mutex<Vec<[TimedEvent; 2]>> = Mutex::default();
    let gate = Gate::on(device, &legacy)?;
    let job = |target: &mut PinnedBuffer<u32>| -> Result<()> {
        let stream = device.per_thread_stream()?;
        let (begin, end) = (device.timed_event()?, device.timed_event()?);
        let (mut x, mut y) = (stream.alloc::<u32>(LEN)?, stream.alloc::<u32>(LEN)?);
        begin.record(&stream)?;
        stream.copy(&staged, &mut x)?;
        stream.launch(&WORK, (rounds, &x, &mut y))?;
        stream.copy(&y, target)?;
        end.record(&stream)?;
        marks.lock().expect("no thread panics with it").push([begin, end]);
        Ok(())
    };
    let job = &job;
    let threads = landed
        .iter_mut()
        .map(|target| -> Script<'_> { Box::new(move || job(target).expect("nothing is refused")) });
    device.script(threads.collect());
    gate.open();
    device.synchronize()?;
    for target in &landed[1..] {
        assert_eq!(*target.read()?, *landed[0].read()?, "each thread computed the same");
    }
    assert_ne!(*landed[0].read()?, source[..], "and computed it");
    let marks = marks.into_inner().expect("no thread panicked");
    let since = |mark: &TimedEvent| mark.elapsed_since(&zero);
    let begins = marks.iter().map(|[begin, _]| since(begin)).collect::<Result<Vec<_>>>()?;
    let ends = marks.iter().map(|[_, end]| since(end)).collect::<Result<Vec<_>>>()?;
    let meet = |i: usize, j: usize| begins[i] < ends[j] && begins[j] < ends[i];
    let pairs = (0..8).flat_map(|i| (0..i).map(move |j| (i, j)));
    let overlapping = pairs.filter(|(i, j)| meet(*i, *j)).count();
    // A law lets streams overlap and asks nobody to (A3): how much is the device's business.
    let least = match device.info().clock {
        Clock::Model => 28,
        Clock::Device => 1,
        Clock::Processor => 0,
    };
    assert!(overlapping >= least, "{overlapping} of 28 pairs overlap: {begins:?} {ends:?}");
    Ok(())
}

/// Law A15: the handle means the stream of whoever uses it, so another thread is refused.
pub(crate) fn a_per_thread_stream_is_refused_to_other_threads(device: &Device) -> Result<()> {
    let stream = device.per_thread_stream()?;
    let mut x = upload(device, &stream, &words(5, 8))?;
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| stream.fill_bytes(&mut x, 1)).join().expect("the thread only tries")
    });
    let refused = refused.expect_err("it would go to another stream");
    assert_eq!(refused.kind(), trijet::ErrorKind::InvalidValue);
    assert_eq!(super::download(device, &stream, &x)?, words(5, 8));
    Ok(())
}
