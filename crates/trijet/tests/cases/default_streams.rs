//! The four kinds of streams: which pairs order themselves (laws A1 and A13 to A15).

use super::{Gate, upload, words};
use std::sync::Mutex;
use trijet::testing::{self, Script};
use trijet::testing::{MIX, WORK};
use trijet::{
    Clock, Device, Event, PinnedBuffer, Readiness, Result, Stream, StreamOptions, TimedEvent,
};

/// A kind of stream. For the two kinds of default streams, two streams of a kind are the same
/// stream. For the other kinds, they are different streams.
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

/// Whether the work of the second stream waited for the first one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Second {
    Waited,
    Overtook,
}

/// Whether work in a stream of kind `second` waits for earlier work in a stream of kind `first`:
/// within one stream (A1), and between the legacy stream and blocking ones (A13). The per-thread
/// stream is a blocking one (A15).
pub(crate) fn must_wait(first: Kind, second: Kind) -> bool {
    let blocking = |kind| matches!(kind, Kind::Blocking | Kind::PerThread);
    match (first, second) {
        (Kind::Legacy, Kind::Legacy) | (Kind::PerThread, Kind::PerThread) => true,
        (Kind::Legacy, other) | (other, Kind::Legacy) => blocking(other),
        _ => false,
    }
}

/// Returns whether `event` completes while a gate is closed. A stream that waits for the gate must
/// fail its test, so the number of polls is limited. A busy machine needs many polls. Modelled time
/// passes only while a thread waits, so on a modelled device the host waits, and the gate opens by
/// itself.
pub(crate) fn ends_early(device: &Device, event: &Event) -> Result<bool> {
    ends_within(device, event, 50_000_000)
}

fn ends_within(device: &Device, event: &Event, polls: u32) -> Result<bool> {
    if device.info().clock == Clock::Model {
        event.synchronize()?;
        return Ok(true);
    }
    for _ in 0..polls {
        if event.query()? == Readiness::Ready {
            return Ok(true);
        }
        std::thread::yield_now();
    }
    Ok(false)
}

/// One stream writes a byte after a gate, and a second stream, which got its work later, reads it.
/// Nothing but the kinds of the streams orders the two.
pub(crate) fn second_of_two(device: &Device, first: Kind, second: Kind) -> Result<Second> {
    let (a, b, keeper) = (first.open(device)?, second.open(device)?, device.stream()?);
    let (mut x, mut seen) = (keeper.alloc::<u8>(1)?, device.pinned::<u8>(1)?);
    seen.write()?.fill(2);
    keeper.fill_bytes(&mut x, 0)?;
    keeper.synchronize()?;
    // SAFETY: a read of one byte is never torn, whether it comes before the write or after it.
    unsafe { x.order_manually() };
    let done = device.event()?;
    let gate = Gate::on(device, &a)?;
    a.fill_bytes(&mut x, 1)?;
    b.copy(&x, &mut seen)?;
    done.record(&b)?;
    if must_wait(first, second) {
        // If the law were broken, the event would complete soon. On a busy machine each poll costs
        // a time slice of every other process, so there are few polls.
        ends_within(device, &done, 5000)?;
    } else {
        ends_early(device, &done)?;
    }
    gate.open();
    device.synchronize()?;
    let value = seen.read()?[0];
    assert!(value < 2, "the copy delivered {value}");
    Ok(if value == 1 { Second::Waited } else { Second::Overtook })
}

/// Laws A1, A13 and A15, for every ordered pair of kinds. Without such a law the second stream may
/// still wait (A3), but no device of these tests makes it wait for so long.
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

/// Law A13: every operation of the legacy stream is a barrier, even a wait for an event. The event
/// belongs to a non-blocking stream.
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
    assert_eq!(
        after.query()?,
        Readiness::NotReady,
        "the blocking stream waits for the legacy stream"
    );
    gate.open();
    after.synchronize()?;
    assert_eq!(event.query()?, Readiness::Ready, "what follows the wait follows the event");
    Ok(())
}

/// Law A5 for the legacy stream: a wait for an event without a record waits for nothing.
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
    assert!(ends_early(device, &after)?, "the wait does not cover the later record");
    assert_eq!(event.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    device.synchronize()
}

/// Law A14: an event of the legacy stream covers the work of all blocking streams. A query of the
/// legacy stream covers the same work.
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

/// Law A13: work of a blocking stream follows the earlier work of the legacy stream, so a wait for
/// the blocking stream covers both.
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
    assert_eq!(device.ordering().waits, start, "the wait for the fill of y covers the fill of x");
    device.synchronize()
}

/// Laws A13 and A14: the legacy stream and a non-blocking stream do not wait for each other.
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

/// Laws A13 and A18: synchronous copies and fills are operations of the legacy stream.
pub(crate) fn a_synchronous_copy_is_ordered_with_blocking_streams(device: &Device) -> Result<()> {
    let blocking = device.stream_with(StreamOptions::new().blocking())?;
    let keeper = device.stream()?;
    let (mut x, mut seen) = (keeper.alloc::<u8>(64)?, device.pinned::<u8>(64)?);
    for round in 0..8 {
        keeper.fill_bytes(&mut x, 0xff)?;
        keeper.synchronize()?;
        // SAFETY: the legacy stream orders all later uses of the bytes.
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

/// Law A15: each thread has its own per-thread stream. The legacy stream holds back all eight, and
/// when its gate opens, they run concurrently.
pub(crate) fn eight_threads_overlap_on_their_per_thread_streams(device: &Device) -> Result<()> {
    const LEN: usize = 256;
    // A few milliseconds for one block of a GPU. A processor would take far longer for as many
    // rounds.
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
        marks.lock().expect("no thread panics while it holds the lock").push([begin, end]);
        Ok(())
    };
    let job = &job;
    let threads = landed
        .iter_mut()
        .map(|target| -> Script<'_> { Box::new(move || job(target).expect("nothing is refused")) });
    testing::script(device, threads.collect());
    gate.open();
    device.synchronize()?;
    for target in &landed[1..] {
        assert_eq!(*target.read()?, *landed[0].read()?, "each thread computed the same");
    }
    assert_ne!(*landed[0].read()?, source[..], "the kernel changed the words");
    let marks = marks.into_inner().expect("no thread panicked");
    let since = |mark: &TimedEvent| mark.elapsed_since(&zero);
    let begins = marks.iter().map(|[begin, _]| since(begin)).collect::<Result<Vec<_>>>()?;
    let ends = marks.iter().map(|[_, end]| since(end)).collect::<Result<Vec<_>>>()?;
    let meet = |i: usize, j: usize| begins[i] < ends[j] && begins[j] < ends[i];
    let pairs = (0..8).flat_map(|i| (0..i).map(move |j| (i, j)));
    let overlapping = pairs.filter(|(i, j)| meet(*i, *j)).count();
    // Streams may overlap and need not (A3). The minimum number of pairs that overlap depends on
    // the device.
    let least = match device.info().clock {
        Clock::Model => 28,
        Clock::Device => 1,
        Clock::Processor => 0,
    };
    assert!(overlapping >= least, "{overlapping} of 28 pairs overlap: {begins:?} {ends:?}");
    Ok(())
}

/// Law A15: on each thread, the handle means the per-thread stream of that thread. Calls of another
/// thread are therefore refused.
pub(crate) fn a_per_thread_stream_is_refused_to_other_threads(device: &Device) -> Result<()> {
    let stream = device.per_thread_stream()?;
    let mut x = upload(device, &stream, &words(5, 8))?;
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| stream.fill_bytes(&mut x, 1)).join().expect("the thread only tries")
    });
    let refused = refused.expect_err("another thread has another per-thread stream");
    assert_eq!(refused.kind(), trijet::ErrorKind::InvalidValue);
    assert_eq!(super::download(device, &stream, &x)?, words(5, 8));
    Ok(())
}
