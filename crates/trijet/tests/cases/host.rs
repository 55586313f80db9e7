//! Host functions (laws A27 to A29), waits of host threads (A8 to A11), guards and timed events.

use super::{Gate, download, mix, upload, words};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use trijet::testing::MIX;
use trijet::{Device, ErrorKind, Readiness, Result};

/// Law A27.
pub(crate) fn a_host_function_runs_after_prior_and_before_later_work(
    device: &Device,
) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let log = Arc::new(Mutex::new(Vec::new()));
    let note = |number: u64| {
        let log = Arc::clone(&log);
        move || log.lock().expect("no note panics").push(number)
    };
    let event = device.event()?;
    let x = upload(device, &a, &words(1, 64))?;
    let mut y = upload(device, &a, &words(2, 64))?;
    for number in 0..10 {
        a.launch(&MIX, (number, &x, &mut y))?;
        a.host_fn(note(2 * number))?;
        event.record(&a)?;
        b.wait(&event)?;
        b.host_fn(note(2 * number + 1))?;
        event.record(&b)?;
        a.wait(&event)?;
    }
    a.synchronize()?;
    assert_eq!(*log.lock().expect("no note panics"), Vec::from_iter(0..20));
    Ok(())
}

/// Law A27, for a host function that declares its memory: it follows earlier writers of the memory
/// on other streams, and later users of the memory follow it.
pub(crate) fn a_host_function_is_ordered_by_the_memory_it_declares(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(31, 64))?;
    let (mut landed, mut sum) = (device.pinned::<u64>(64)?, device.pinned::<u64>(1)?);
    sum.write()?.fill(0);
    let gate = Gate::on(device, &a)?;
    a.copy(&x, &mut landed)?;
    b.host_fn_with((&landed, &mut sum), |(landed, sum)| {
        sum[0] = landed.iter().fold(0, |sum, word| sum ^ word);
    })?;
    // The fill, on a third stream, follows the host function, which reads `landed`.
    device.stream()?.fill_bytes(&mut landed, 0)?;
    gate.open();
    assert_eq!(sum.read()?[0], words(31, 64).iter().fold(0, |sum, word| sum ^ word));
    assert!(landed.read()?.iter().all(|word| *word == 0));
    Ok(())
}

/// The host functions use `resume_unwind`, which panics without a message on standard error.
pub(crate) fn a_panic_of_a_host_function_is_returned_once(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let (x, mut expected) = (words(3, 64), words(4, 64));
    let from = upload(device, &stream, &x)?;
    let mut y = upload(device, &stream, &expected)?;
    stream.host_fn(|| resume_unwind(Box::new("row 7 is missing")))?;
    stream.launch(&MIX, (5, &from, &mut y))?;
    mix(5, &x, &mut expected);
    let error = stream.synchronize().expect_err("the panic surfaces");
    assert_eq!(error.kind(), ErrorKind::Panicked);
    assert!(error.to_string().contains("row 7 is missing"), "{error}");
    stream.synchronize()?;
    assert_eq!(download(device, &stream, &y)?, expected, "later work of the stream ran");
    Ok(())
}

/// Law A28: the kind of the error names the reason.
pub(crate) fn the_api_refuses_calls_inside_a_host_function(device: &Device) -> Result<()> {
    let (stream, inner) = (device.stream()?, device.stream()?);
    let mut host = device.pinned::<u64>(8)?;
    let mut x = upload(device, &inner, &words(5, 8))?;
    let mut y = upload(device, &inner, &words(6, 8))?;
    let event = device.event()?;
    let ticket = inner.ticket()?;
    let (send, receive) = mpsc::channel();
    let within = device.clone();
    stream.host_fn(move || {
        let kinds = [
            ("device synchronize", within.synchronize().map_err(|e| e.kind())),
            ("synchronize", inner.synchronize().map_err(|e| e.kind())),
            ("query", inner.query().map(|_| ()).map_err(|e| e.kind())),
            ("stream", within.stream().map(|_| ()).map_err(|e| e.kind())),
            ("event", within.event().map(|_| ()).map_err(|e| e.kind())),
            ("alloc", inner.alloc::<u8>(8).map(|_| ()).map_err(|e| e.kind())),
            ("pinned", within.pinned::<u8>(8).map(|_| ()).map_err(|e| e.kind())),
            ("launch", inner.launch(&MIX, (1, &x, &mut y)).map_err(|e| e.kind())),
            ("copy", inner.copy(&x, &mut y).map_err(|e| e.kind())),
            ("fill", inner.fill_bytes(&mut x, 0).map_err(|e| e.kind())),
            ("record", event.record(&inner).map_err(|e| e.kind())),
            ("event synchronize", event.synchronize().map_err(|e| e.kind())),
            ("wait", inner.wait(&event).map_err(|e| e.kind())),
            ("ticket", inner.ticket().map(|_| ()).map_err(|e| e.kind())),
            ("ticket wait", ticket.wait().map_err(|e| e.kind())),
            ("host function", inner.host_fn(|| ()).map_err(|e| e.kind())),
            ("read", host.read().map(|_| ()).map_err(|e| e.kind())),
            ("write", host.write().map(|_| ()).map_err(|e| e.kind())),
            ("pool", within.memory_stats().map(|_| ()).map_err(|e| e.kind())),
        ];
        // The handles are sent back to the test, so that no handle is dropped in a host function.
        let lent = (within, inner, x, y, host, event, ticket);
        send.send((kinds, lent)).expect("the receiver waits");
    })?;
    stream.synchronize()?;
    let (kinds, (_, inner, x, y, ..)) = receive.recv().expect("the function ran");
    for (call, outcome) in kinds {
        assert_eq!(outcome, Err(ErrorKind::InCallback), "{call}");
    }
    assert_eq!(download(device, &inner, &x)?, words(5, 8));
    assert_eq!(download(device, &inner, &y)?, words(6, 8));
    Ok(())
}

pub(crate) fn a_buffer_dropped_inside_a_host_function_is_freed_later(
    device: &Device,
) -> Result<()> {
    let (stream, other) = (device.stream()?, device.stream()?);
    let mut landed = device.pinned::<u64>(64)?;
    let x = upload(device, &other, &words(7, 64))?;
    let event = device.event()?;
    event.record(&other)?;
    other.copy(&x, &mut landed)?;
    assert!(device.memory_stats()?.used.0 > 0);
    stream.host_fn(move || drop((x, event)))?;
    stream.synchronize()?;
    device.synchronize()?;
    assert_eq!(device.memory_stats()?.used.0, 0);
    assert_eq!(&*landed.read()?, &words(7, 64));
    Ok(())
}

/// Counts its drop.
struct Counted(Arc<AtomicU64>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

pub(crate) fn every_host_function_is_dropped_exactly_once(device: &Device) -> Result<()> {
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    let (ran, dropped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for number in 0..90 {
        let (ran, counted) = (Arc::clone(&ran), Counted(Arc::clone(&dropped)));
        streams[number % 3].host_fn(move || {
            let _held = counted;
            ran.fetch_add(1, Ordering::Relaxed);
            if number % 30 == 0 {
                resume_unwind(Box::new("counted all the same"));
            }
        })?;
    }
    let panics = (0..4).filter(|_| device.synchronize().is_err()).count();
    assert_eq!(panics, 3, "each panic is reported once");
    assert_eq!(ran.load(Ordering::Relaxed), 90);
    assert_eq!(dropped.load(Ordering::Relaxed), 90);
    Ok(())
}

/// Law A11: a wait of the host orders the thread that makes it. A ticket lets another thread wait.
pub(crate) fn a_ticket_orders_the_thread_that_waits(device: &Device) -> Result<()> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(8, 64))?;
    let (mut y, mut z) = (b.alloc::<u64>(64)?, c.alloc::<u64>(64)?);
    b.fill_bytes(&mut y, 3)?;
    c.fill_bytes(&mut z, 3)?;
    let ticket = a.ticket()?;
    thread::scope(|scope| {
        let waiting = scope.spawn(|| -> Result<()> {
            ticket.wait()?;
            assert_eq!(ticket.query()?, Readiness::Ready);
            let start = device.ordering().waits;
            b.launch(&MIX, (1, &x, &mut y))?;
            assert_eq!(device.ordering().waits, start, "this thread has waited for x");
            Ok(())
        });
        waiting.join().expect("the thread asserts")
    })?;
    let start = device.ordering().waits;
    c.launch(&MIX, (1, &x, &mut z))?;
    assert_eq!(device.ordering().waits, start + 1, "this thread has not waited for x");
    let mut expected = vec![0x0303_0303_0303_0303; 64];
    mix(1, &words(8, 64), &mut expected);
    assert_eq!(download(device, &b, &y)?, expected);
    assert_eq!(download(device, &c, &z)?, expected);
    Ok(())
}

/// A ticket covers everything that a synchronisation would wait for, including a wait that no
/// operation follows.
pub(crate) fn a_ticket_stands_for_waits_too(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let mut x = upload(device, &b, &words(16, 32))?;
    b.ticket()?.wait()?;
    let gate = Gate::on(device, &a)?;
    event.record(&a)?;
    b.wait(&event)?;
    let ticket = b.ticket()?;
    assert_eq!(ticket.query()?, Readiness::NotReady, "the event of the wait is pending");
    gate.open();
    ticket.wait()?;
    assert_eq!(event.query()?, Readiness::Ready);
    a.fill_bytes(&mut x, 0)
}

/// Law A9: another thread waits, so this thread learns only by its query that the work is complete.
pub(crate) fn a_successful_query_is_as_good_as_a_wait(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut landed = device.pinned::<u64>(64)?;
    let x = upload(device, &a, &words(10, 64))?;
    let mut y = upload(device, &b, &words(11, 64))?;
    let gate = Gate::on(device, &a)?;
    a.copy(&x, &mut landed)?;
    assert_eq!(a.query()?, Readiness::NotReady);
    gate.open();
    thread::scope(|scope| scope.spawn(|| a.synchronize()).join().expect("the thread only waits"))?;
    assert_eq!(a.query()?, Readiness::Ready);
    let start = device.ordering();
    assert_eq!(&*landed.read()?, &words(10, 64));
    b.launch(&MIX, (1, &x, &mut y))?;
    assert_eq!(device.ordering(), start, "neither the guard nor the launch needed a wait");
    Ok(())
}

pub(crate) fn timed_events_measure_ordered_times(device: &Device) -> Result<()> {
    // The resolution of timed events of a GPU, in nanoseconds.
    const TICK_NS: u64 = 2_000;
    let stream = device.stream()?;
    let marks = [device.timed_event()?, device.timed_event()?, device.timed_event()?];
    let never = device.timed_event()?;
    let x = upload(device, &stream, &words(12, 4096))?;
    let mut y = upload(device, &stream, &words(13, 4096))?;
    for (salt, mark) in (0..).zip(&marks) {
        mark.record(&stream)?;
        stream.launch(&MIX, (salt, &x, &mut y))?;
    }
    marks[2].synchronize()?;
    let (half, whole) = (marks[1].elapsed_since(&marks[0])?, marks[2].elapsed_since(&marks[0])?);
    assert_eq!(marks[0].elapsed_since(&marks[0])?.0, 0);
    assert!(half.0 <= whole.0 + TICK_NS, "{half} then {whole}");
    let rest = marks[2].elapsed_since(&marks[1])?;
    assert!((half.0 + rest.0).abs_diff(whole.0) <= TICK_NS, "{half} and {rest} make {whole}");
    let refused = never.elapsed_since(&marks[0]).expect_err("law A5");
    assert_eq!(refused.kind(), ErrorKind::InvalidValue);
    device.synchronize()
}

pub(crate) fn pinned_guards_wait_for_the_users_of_their_range_only(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(14, 32))?;
    let y = upload(device, &b, &words(15, 32))?;
    let (mut left, mut right) = device.pinned::<u64>(64)?.split(32);
    let gate = Gate::on(device, &a)?;
    a.copy(&x, &mut left)?;
    b.copy(&y, &mut right)?;
    assert_eq!(&*right.read()?, &words(15, 32));
    right.write()?.fill(1);
    assert_eq!(a.query()?, Readiness::NotReady, "the left half is still to come");
    gate.open();
    assert_eq!(&*left.read()?, &words(14, 32));
    assert_eq!(&*right.read()?, &[1; 32]);
    Ok(())
}
