//! Guards over memory in use: a guard lends complete bytes only.

use crate::{Gate, ask, let_time_pass, open, refused_records, virtual_host};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread::{scope, spawn};
use trijet::explore::{Strategy, explore};
use trijet::sim::{Fault, FaultKind, HostConfig, Verb};
use trijet::testing;
use trijet::{Device, PinnedBuffer, Result, Stream, StreamOptions};

const NINES: u32 = 0x0909_0909;
const SEVENS: u32 = 0x0707_0707;
const ONES: u32 = 0x0101_0101;

/// Thread 1 uses its default stream, and the lane passes, complete, to the default stream of thread
/// 2, which waits for the pending fill of `y`. Once, the library asked the main thread for an event
/// of an old position of the lane, and the main thread recorded it in its own, empty default
/// stream. The event claimed to cover the fill.
#[test]
fn the_next_stream_of_a_lane_does_not_answer_for_the_one_before() -> Result<()> {
    let device = open(HostConfig::default())?;
    let a = device.stream()?;
    let mut y = device.pinned::<u32>(1 << 10)?;
    let old = device.pinned::<u32>(64)?;
    let one = device.clone();
    let filled = spawn(move || -> Result<_> {
        let mut old = old;
        let stream = one.per_thread_stream()?;
        stream.fill_bytes(&mut old, 5)?;
        // Frees the lane before the second thread asks for one.
        stream.synchronize()?;
        Ok(old)
    });
    let old = filled.join().expect("no panic")?;
    y.write()?.fill(1);
    let gate = Gate::on(&a)?;
    a.fill_bytes(&mut y, 9)?;
    let event = device.event()?;
    event.record(&a)?;
    let two = device.clone();
    let waits = spawn(move || -> Result<Stream> {
        let stream = two.per_thread_stream()?;
        stream.wait(&event)?;
        Ok(stream)
    });
    let _tenant = waits.join().expect("no panic")?;
    assert_eq!(old.read()?[0], 0x0505_0505);
    let early = ask(&y);
    assert!(early.is_pending(), "lent while the fill is held back: {early:?}");
    drop(gate);
    let guard = y.read()?;
    assert_eq!(guard[0], NINES);
    device.synchronize()?;
    assert_eq!(guard[0], NINES, "while the guard is held");
    Ok(())
}

/// The same program with streams that wait in place of the host, on threads whose order can be
/// repeated.
fn through_a_lane_that_was_handed_on(devices: &[Device]) -> u8 {
    let run = || -> Result<u8> {
        let device = &devices[0];
        let (a, b) = (device.stream()?, device.stream()?);
        let mut y = a.alloc::<u8>(1)?;
        a.fill_bytes(&mut y, 1)?;
        let x = a.alloc::<u8>(1)?;
        let mut z = b.alloc::<u8>(1)?;
        b.fill_bytes(&mut z, 0)?;
        a.synchronize()?;
        b.synchronize()?;
        let x = Mutex::new(x);
        testing::script(
            device,
            vec![Box::new(|| {
                let stream = device.per_thread_stream().expect("a stream");
                let mut x = x.lock().expect("one thread");
                stream.fill_bytes(&mut *x, 5).expect("enqueued");
            })],
        );
        let x = x.into_inner().expect("no panic");
        a.fill_bytes(&mut y, 9)?;
        let event = device.event()?;
        event.record(&a)?;
        let kept = Mutex::new(None);
        testing::script(
            device,
            vec![Box::new(|| {
                let stream = device.per_thread_stream().expect("a stream");
                stream.wait(&event).expect("enqueued");
                *kept.lock().expect("one thread") = Some(stream);
            })],
        );
        let mut h = device.pinned::<u8>(1)?;
        b.copy(&x, &mut z)?;
        b.copy(&y, &mut h)?;
        let value = h.read()?[0];
        device.synchronize()?;
        Ok(value)
    };
    run().expect("nothing failed")
}

#[test]
fn tracked_memory_has_one_outcome_in_every_explored_order() -> Result<()> {
    let strategies = [
        Strategy::Exhaustive { runs_max: 5000 },
        Strategy::Seeded { runs: 300, seed: 1 },
        Strategy::Pct { runs: 300, seed: 1, depth: 3, steps: 40 },
    ];
    let mut wrong = Vec::new();
    for strategy in strategies {
        let found = explore(&HostConfig::default(), strategy, through_a_lane_that_was_handed_on)?;
        let outcomes: Vec<_> =
            found.outcomes.iter().map(|one| (one.value, one.order.to_string())).collect();
        if outcomes.iter().any(|(value, _)| *value != 9) {
            wrong.push((strategy, outcomes));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    Ok(())
}

/// The objects of a thread that has filled `h` in its default stream after a gate.
struct Filled {
    h: PinnedBuffer<u32>,
    /// `None` if a call was refused.
    held: Option<(Stream, Gate)>,
    enqueued: bool,
}

fn fill_in_a_thread(device: &Device) -> Result<Filled> {
    let (device, mut h) = (device.clone(), device.pinned::<u32>(1 << 10)?);
    h.write()?.fill(ONES);
    let thread = spawn(move || {
        let opened = device.per_thread_stream().and_then(|s| Gate::on(&s).map(|gate| (s, gate)));
        let Ok(held) = opened else { return Filled { h, held: None, enqueued: false } };
        let enqueued = held.0.fill_bytes(&mut h, 7).is_ok();
        Filled { h, held: Some(held), enqueued }
    });
    Ok(thread.join().expect("no panic"))
}

/// The record after an operation of a per-thread stream was refused and forgotten. Another thread
/// that needed it then recorded its own default stream.
#[test]
fn after_a_refused_record_a_guard_is_an_error_or_waits() -> Result<()> {
    for first in 1..=4 {
        let faults = refused_records(first, 1);
        let device = open(HostConfig::new().faults(faults))?;
        let Filled { h, held, enqueued } = fill_in_a_thread(&device)?;
        let Some((stream, gate)) = held else { continue };
        if let (true, Poll::Ready(Ok(early))) = (enqueued, ask(&h)) {
            panic!("record {first}: {early:#x} is lent while the fill is held back");
        }
        drop(gate);
        if let Ok(guard) = h.read() {
            let before = guard[0];
            assert!(before == SEVENS || !enqueued && before == ONES, "record {first}: {before:#x}");
            device.synchronize()?;
            assert_eq!(guard[0], before, "record {first}: while the guard is held");
        }
        drop(stream);
    }
    Ok(())
}

/// Another thread dropped a stream whose last record had been refused. Once, the lane was handed on
/// as soon as the previous record was complete.
#[test]
fn a_lane_with_a_refused_record_is_not_handed_on_early() -> Result<()> {
    for (first, count) in (1..=4).flat_map(|first| [(first, 1), (first, 2)]) {
        let device = open(virtual_host(refused_records(first, count)))?;
        let idle = device.stream()?;
        let (mut h, mut t) = (device.pinned::<u32>(64)?, device.pinned::<u32>(64)?);
        h.write()?.fill(ONES);
        let thread = {
            let device = device.clone();
            move || -> Result<_> {
                let stream = device.per_thread_stream()?;
                stream.fill_bytes(&mut t, 3)?;
                stream.host_fn(|| ())?;
                let enqueued = stream.fill_bytes(&mut h, 7).is_ok();
                Ok((h, stream, enqueued))
            }
        };
        // The thread that needed the order got an error.
        let Ok((h, stream, enqueued)) = spawn(thread).join().expect("no panic") else { continue };
        let_time_pass(&idle)?;
        drop(stream);
        let next = device.stream()?;
        let mut x = next.alloc::<u32>(64)?;
        let mut out = device.pinned::<u32>(64)?;
        let copied = next.copy(&h, &mut x).and_then(|()| next.copy(&x, &mut out));
        if let (Ok(()), Ok(out), true) = (copied, out.read(), enqueued) {
            assert_eq!(out[0], SEVENS, "{count} from record {first} on");
        }
        device.synchronize()?;
    }
    Ok(())
}

/// A copy that fails may have written a part: its target stays in use.
#[test]
fn memory_of_a_copy_that_a_fault_ended_is_not_lent() -> Result<()> {
    let fault = Fault { verb: Verb::Copy, nth: 1, kind: FaultKind::Faults };
    let device = open(virtual_host(vec![fault]))?;
    let s = device.stream()?;
    let (mut h, mut g) = (device.pinned::<u32>(64)?, device.pinned::<u32>(64)?);
    h.write()?.fill(9);
    g.write()?.fill(1);
    s.copy(&h, &mut g).expect_err("it faults");
    assert!(g.read().is_err(), "it may be half written");
    Ok(())
}

/// A copy within the host was refused, but its stream then counted as one that follows the legacy
/// stream, as if it had made the copy.
#[test]
fn a_refused_call_that_waits_follows_nothing() -> Result<()> {
    let refused = Fault { verb: Verb::Copy, nth: 1, kind: FaultKind::Refused };
    let device = open(virtual_host(vec![refused]))?;
    let (b, legacy) =
        (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
    let (h, mut g) = (device.pinned::<u32>(64)?, device.pinned::<u32>(64)?);
    let mut y = device.pinned::<u32>(64)?;
    y.write()?.fill(1);
    // Slow, so that an operation that does not wait for the fill overtakes it.
    legacy.host_fn(|| ())?;
    legacy.fill_bytes(&mut y, 9)?;
    b.copy(&h, &mut g).expect_err("it is refused");
    b.ticket()?.wait()?;
    assert_eq!(y.read()?[0], NINES);
    Ok(())
}

/// A refused record changes nothing. It once made a shared event forget its first record.
#[test]
fn an_event_keeps_its_record_when_the_next_one_is_refused() -> Result<()> {
    let mut second_refused = 0;
    for (share, nth) in (1..=8).flat_map(|nth| [(false, nth), (true, nth)]) {
        let device = open(virtual_host(refused_records(nth, 1)))?;
        let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
        let mut x = a.alloc::<u32>(64)?;
        a.fill_bytes(&mut x, 1)?;
        a.synchronize()?;
        // SAFETY: the only other user is `b`, which waits for the event recorded after the fill.
        unsafe { x.order_manually() };
        // The fill is recorded before the host function, which may be refused as well.
        if a.host_fn(|| ()).is_err() {
            continue;
        }
        a.fill_bytes(&mut x, 9)?;
        let event = device.event()?;
        if event.record(&a).is_err() {
            continue;
        }
        let kept = share.then(|| event.ready());
        if event.record(&c).is_ok() {
            continue;
        }
        second_refused += 1;
        b.wait(&event)?;
        let mut out = device.pinned::<u32>(64)?;
        b.copy(&x, &mut out)?;
        assert_eq!(out.read()?[0], NINES, "with a share: {share}");
        device.synchronize()?;
        drop(kept);
    }
    assert_eq!(second_refused, 2, "with a share and without");
    Ok(())
}

/// Whether lent memory changes under its guard after a loss. This thread waits in a copy within the
/// host, and another thread loses the device with its query number `queries`.
fn changes_when_lent_after_a_loss(queries: u64) -> Result<bool> {
    const BYTES: usize = 32 << 20;
    /// Reads of the lent memory. Together they take longer than the whole copy.
    const LOOKS: u32 = 200;
    let lost = Fault { verb: Verb::Query, nth: queries, kind: FaultKind::DeviceLost };
    let device = open(HostConfig::new().faults(vec![lost]))?;
    let (copies, other) = (device.stream()?, device.stream()?);
    let (mut from, mut to) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
    from.write()?.fill(1);
    to.write()?.fill(0);
    let (begins, begun) = channel();
    copies.host_fn(move || begins.send(()).expect("the other thread waits"))?;
    scope(|scope| {
        scope.spawn(move || {
            begun.recv().expect("the host function runs");
            let lost = (0..queries).any(|_| other.query().is_err());
            assert!(lost, "the fault strikes a query");
        });
        // The copy may have been complete before the loss.
        let _copied = copies.copy(&from, &mut to);
        let Ok(guard) = to.write() else { return Ok(false) };
        // One byte of every few pages, from the end, which a copy reaches last.
        let look = || -> Vec<u8> {
            std::hint::black_box(&guard).iter().rev().step_by(1 << 14).copied().collect()
        };
        let before = look();
        Ok((0..LOOKS).any(|_| look() != before))
    })
}

/// A copy within the host waits for its end. If another thread lost the device meanwhile, the call
/// once returned an error and left no stamp, so the host was lent bytes that a worker still wrote.
#[test]
fn memory_that_a_worker_still_writes_after_a_loss_is_not_lent() -> Result<()> {
    // Some of these losses happen while the copy runs: it takes milliseconds, and a query takes
    // well under one.
    for queries in [30, 100, 300, 1000, 3000, 10_000, 30_000] {
        let changes = changes_when_lent_after_a_loss(queries)?;
        assert!(!changes, "bytes change under a guard after {queries} queries");
    }
    Ok(())
}
