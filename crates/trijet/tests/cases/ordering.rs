//! Streams and events (laws A1 to A9), and the waits that the library inserts.

use super::{Gate, download, mix, upload, words};
use std::thread;
use trijet::testing::{self, MIX};
use trijet::{Device, Readiness, Result, StreamOptions};

/// Law A5.
pub(crate) fn wait_before_record_is_noop(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    assert_eq!(event.query()?, Readiness::Ready);
    event.synchronize()?;
    b.wait(&event)?;
    let gate = Gate::on(device, &a)?;
    event.record(&a)?;
    let x = upload(device, &b, &words(1, 32))?;
    b.synchronize()?;
    assert_eq!(a.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    assert_eq!(download(device, &b, &x)?, words(1, 32));
    Ok(())
}

/// Law A4: an event does not stand for later work, and a second record replaces the first.
pub(crate) fn event_stands_for_the_work_at_its_record(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let event = device.event()?;
    let x = upload(device, &stream, &words(2, 32))?;
    event.record(&stream)?;
    let gate = Gate::on(device, &stream)?;
    event.synchronize()?;
    assert_eq!(event.query()?, Readiness::Ready);
    assert_eq!(stream.query()?, Readiness::NotReady, "later work is not included");
    event.record(&stream)?;
    assert_eq!(event.query()?, Readiness::NotReady, "the second record stands for the gate too");
    gate.open();
    event.synchronize()?;
    assert_eq!(event.query()?, Readiness::Ready);
    assert_eq!(stream.query()?, Readiness::Ready);
    assert_eq!(download(device, &stream, &x)?, words(2, 32));
    Ok(())
}

/// Law A7: a record after the wait does not change what the wait waits for.
pub(crate) fn a_wait_keeps_the_snapshot_of_its_call(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    event.record(&a)?;
    b.wait(&event)?;
    let gate = Gate::on(device, &a)?;
    event.record(&a)?;
    let x = upload(device, &b, &words(3, 32))?;
    b.synchronize()?;
    assert_eq!(a.query()?, Readiness::NotReady, "only the old snapshot was waited for");
    b.wait(&event)?;
    b.host_fn(|| ())?;
    assert_eq!(b.query()?, Readiness::NotReady, "the new snapshot is waited for");
    gate.open();
    assert_eq!(download(device, &b, &x)?, words(3, 32));
    assert_eq!(event.query()?, Readiness::Ready, "what follows the wait follows the event");
    Ok(())
}

/// Law A7: a wait does not hold back operations that were enqueued before it.
pub(crate) fn a_wait_holds_future_work_only(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let gate = Gate::on(device, &a)?;
    event.record(&a)?;
    let x = upload(device, &b, &words(4, 32))?;
    let before = b.ticket()?;
    b.wait(&event)?;
    before.wait()?;
    assert_eq!(event.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    assert_eq!(download(device, &b, &x)?, words(4, 32));
    Ok(())
}

/// Law A1, with a kernel whose applications do not commute.
pub(crate) fn stream_order_is_enqueue_order(device: &Device) -> Result<()> {
    const LEN: usize = 700;
    let stream = device.stream()?;
    let (first, second, mut expected) = (words(5, LEN), words(6, LEN), words(7, LEN));
    let (x, z) = (upload(device, &stream, &first)?, upload(device, &stream, &second)?);
    let mut y = upload(device, &stream, &expected)?;
    for salt in 0..60 {
        let (from, values) = if salt % 3 == 0 { (&x, &first) } else { (&z, &second) };
        stream.launch(&MIX, (salt, from, &mut y))?;
        mix(salt, values, &mut expected);
        if salt % 17 == 0 {
            stream.fill_bytes(&mut y.slice_mut(10..20), 3)?;
            expected[10..20].fill(0x0303_0303_0303_0303);
        }
    }
    assert_eq!(download(device, &stream, &y)?, expected);
    Ok(())
}

/// A write waits for every stream that reads, and not only for the last reader. Some systems that
/// order work automatically keep only one reader, so the write overtakes the other readers.
pub(crate) fn a_writer_waits_for_the_readers_of_two_streams(device: &Device) -> Result<()> {
    const LEN: usize = 2048;
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    for round in 0..12 {
        let source = words(round, LEN);
        let mut x = upload(device, &streams[2], &source)?;
        let mut results = Vec::new();
        for (reader, launches) in [(0, 9), (1, 2)] {
            let mut values = words(round + 100, LEN);
            let mut y = upload(device, &streams[reader], &values)?;
            for salt in 0..launches {
                streams[reader].launch(&MIX, (salt, &x, &mut y))?;
                mix(salt, &source, &mut values);
            }
            results.push((y, values));
        }
        streams[2].fill_bytes(&mut x, 0xff)?;
        for (reader, (y, values)) in results.iter().enumerate() {
            let found = download(device, &streams[reader], y)?;
            assert_eq!(&found, values, "reader {reader} of round {round}");
        }
        assert_eq!(download(device, &streams[2], &x)?, vec![u64::MAX; 2048]);
    }
    Ok(())
}

pub(crate) fn disjoint_halves_on_two_streams_insert_no_wait(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let whole = upload(device, &a, &words(8, 64))?;
    let x = upload(device, &a, &words(9, 32))?;
    a.synchronize()?;
    let (mut left, mut right) = whole.split(32);
    let before = device.ordering();
    for salt in 0..5 {
        a.launch(&MIX, (salt, &x, &mut left))?;
        b.launch(&MIX, (salt, &x, &mut right))?;
    }
    let after = device.ordering();
    assert_eq!((after.waits, after.over_waits), (before.waits, before.over_waits));
    let (mut low, mut high) = (words(8, 64), words(8, 64).split_off(32));
    low.truncate(32);
    for salt in 0..5 {
        mix(salt, &words(9, 32), &mut low);
        mix(salt, &words(9, 32), &mut high);
    }
    assert_eq!(download(device, &a, &left)?, low);
    assert_eq!(download(device, &b, &right)?, high);
    Ok(())
}

pub(crate) fn work_in_one_stream_records_no_event(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut staged = device.pinned::<u64>(64)?;
    let mut landed = device.pinned::<u64>(64)?;
    staged.write()?.copy_from_slice(&words(10, 64));
    let before = device.ordering();
    for salt in 0..10 {
        let mut x = stream.alloc::<u64>(64)?;
        let mut y = stream.alloc::<u64>(64)?;
        stream.copy(&staged, &mut x)?;
        stream.fill_bytes(&mut y, 0)?;
        stream.launch(&MIX, (salt, &x, &mut y))?;
        stream.copy(&y, &mut landed)?;
        drop(x);
    }
    stream.synchronize()?;
    assert_eq!(device.ordering(), before);
    let mut expected = vec![0; 64];
    mix(9, &words(10, 64), &mut expected);
    assert_eq!(&*landed.read()?, &expected);
    assert_eq!(device.ordering(), before, "reading after a synchronisation needs no wait");
    Ok(())
}

/// A wait is left out if the stream has waited for the same work, or if another wait implies it.
pub(crate) fn a_wait_already_implied_is_not_issued_again(device: &Device) -> Result<()> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(11, 32))?;
    let mut y = b.alloc::<u64>(32)?;
    let mut z = c.alloc::<u64>(32)?;
    let waits = || device.ordering().waits;
    let start = waits();
    b.launch(&MIX, (1, &x, &mut y))?;
    assert_eq!(waits(), start + 1, "another stream wrote x");
    b.launch(&MIX, (2, &x, &mut y))?;
    assert_eq!(waits(), start + 1, "b has waited for it");
    c.launch(&MIX, (3, &y, &mut z))?;
    assert_eq!(waits(), start + 2, "another stream wrote y");
    c.launch(&MIX, (4, &x, &mut z))?;
    assert_eq!(waits(), start + 2, "the write of y follows that of x");
    device.synchronize()
}

/// Laws A2 and A9: if this thread knows that work is complete, no wait for it is needed.
pub(crate) fn a_wait_is_not_needed_after_a_host_sync(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let mut y = b.alloc::<u64>(32)?;
    let x = upload(device, &a, &words(12, 32))?;
    let z = upload(device, &a, &words(13, 32))?;
    event.record(&a)?;
    let w = upload(device, &a, &words(14, 32))?;
    event.synchronize()?;
    let start = device.ordering().waits;
    b.launch(&MIX, (1, &x, &mut y))?;
    b.launch(&MIX, (2, &z, &mut y))?;
    assert_eq!(device.ordering().waits, start, "x and z come before the event");
    b.launch(&MIX, (3, &w, &mut y))?;
    assert_eq!(device.ordering().waits, start + 1, "w comes after the event");
    let v = upload(device, &a, &words(15, 32))?;
    a.synchronize()?;
    let start = device.ordering().waits;
    b.launch(&MIX, (4, &v, &mut y))?;
    assert_eq!(device.ordering().waits, start);
    let u = upload(device, &a, &words(16, 32))?;
    device.synchronize()?;
    let start = device.ordering().waits;
    b.launch(&MIX, (5, &u, &mut y))?;
    assert_eq!(device.ordering().waits, start, "the thread has waited for the device");
    device.synchronize()
}

pub(crate) fn over_waits_of_a_first_crossing_are_counted(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let (mut x, mut other) = (a.alloc::<u64>(32)?, a.alloc::<u64>(32)?);
    let mut y = b.alloc::<u64>(32)?;
    a.fill_bytes(&mut x, 1)?;
    a.fill_bytes(&mut other, 2)?;
    let start = device.ordering();
    b.launch(&MIX, (1, &x, &mut y))?;
    let crossed = device.ordering();
    assert_eq!(crossed.waits, start.waits + 1);
    assert_eq!(crossed.over_waits, start.over_waits + 1, "b waits for `other` too");
    a.fill_bytes(&mut x, 1)?;
    a.fill_bytes(&mut other, 2)?;
    b.launch(&MIX, (2, &x, &mut y))?;
    let exact = device.ordering();
    assert_eq!(exact.waits, crossed.waits + 2, "a for the reader, b for the writer");
    assert_eq!(exact.over_waits, crossed.over_waits, "the library now records an event for b");
    device.synchronize()
}

pub(crate) fn eight_threads_share_a_buffer_that_is_only_read(device: &Device) -> Result<()> {
    const LEN: usize = 256;
    let stream = device.stream()?;
    let source = words(18, LEN);
    let x = upload(device, &stream, &source)?;
    let work = |number: u64| -> Result<()> {
        let own = device.stream()?;
        let mut expected = words(number, LEN);
        let mut y = upload(device, &own, &expected)?;
        for salt in 0..30 {
            own.launch(&MIX, (salt + number, &x, &mut y))?;
            mix(salt + number, &source, &mut expected);
        }
        assert_eq!(download(device, &own, &y)?, expected, "thread {number}");
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || work(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("the thread asserts"))
    })
}

/// The library inserts no waits and no records for manual memory. Guards and frees still wait.
pub(crate) fn manual_memory_is_ordered_by_its_user_alone(device: &Device) -> Result<()> {
    const LEN: usize = 512;
    let (a, b) = (device.stream()?, device.stream()?);
    let (source, mut expected) = (words(16, LEN), words(17, LEN));
    let (x, mut y) = (upload(device, &a, &source)?, upload(device, &a, &expected)?);
    let mut landed = device.pinned::<u64>(LEN)?;
    a.synchronize()?;
    // SAFETY: used on `a`, then on `b` after an event that `a` recorded after its last use of `y`.
    unsafe { y.order_manually() };
    // SAFETY: the one copy to it is the only operation on it.
    unsafe { landed.order_manually() };
    let event = device.event()?;
    let before = device.ordering();
    for salt in 0..6 {
        a.launch(&MIX, (salt, &x, &mut y))?;
        mix(salt, &source, &mut expected);
    }
    event.record(&a)?;
    b.wait(&event)?;
    b.copy(&y, &mut landed)?;
    assert_eq!(device.ordering(), before);
    drop(y);
    let mut next = a.alloc::<u64>(LEN)?;
    a.fill_bytes(&mut next, 0)?;
    assert_eq!(&*landed.read()?, &expected, "the free and the guard waited for the copy");
    Ok(())
}

/// Law A9: a blocking stream without later operations does not follow the work of the legacy
/// stream. So a wait for the blocking stream does not cover that work. The host once overwrote
/// bytes that the legacy stream still read.
pub(crate) fn a_wait_for_an_idle_blocking_stream_says_nothing_of_the_legacy_stream(
    device: &Device,
) -> Result<()> {
    let (blocking, legacy) =
        (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
    let mut x = device.pinned::<u64>(64)?;
    x.write()?.fill(5);
    let mut y = legacy.alloc::<u64>(64)?;
    legacy.copy(&x, &mut y)?;
    blocking.synchronize()?;
    x.write()?.fill(6);
    let mut landed = device.pinned::<u64>(64)?;
    legacy.copy(&y, &mut landed)?;
    assert_eq!(&*landed.read()?, &[5; 64]);
    Ok(())
}

/// Laws A13 and A14: the driver orders the legacy stream and the blocking ones, so the library
/// inserts no wait between them.
pub(crate) fn the_legacy_stream_and_blocking_ones_need_no_waits(device: &Device) -> Result<()> {
    let (blocking, legacy) =
        (device.stream_with(StreamOptions::new().blocking())?, device.legacy_stream()?);
    let mut x = device.pinned::<u64>(64)?;
    let waits = device.ordering().waits;
    for value in 1..4 {
        blocking.fill_bytes(&mut x, value)?;
        legacy.fill_bytes(&mut x, value + 4)?;
    }
    blocking.fill_bytes(&mut x, 9)?;
    assert_eq!(device.ordering().waits, waits);
    assert_eq!(&*x.read()?, &[0x0909_0909_0909_0909; 64]);
    Ok(())
}

/// Law A15: on another thread, the handle means another stream, so only its own thread can record
/// an event in the stream. This thread records after each operation.
pub(crate) fn a_per_thread_stream_is_waited_for_by_other_threads(device: &Device) -> Result<()> {
    let per_thread = device.per_thread_stream()?;
    let (mut x, mut landed) = (device.pinned::<u64>(64)?, device.pinned::<u64>(64)?);
    let mut y = per_thread.alloc::<u64>(64)?;
    x.write()?.fill(5);
    per_thread.fill_bytes(&mut y, 1)?;
    per_thread.synchronize()?;
    let gate = Gate::on(device, &per_thread)?;
    per_thread.copy(&x, &mut y)?;
    let other = thread::scope(|scope| {
        let consume = || {
            let other = device.stream()?;
            other.copy(&y, &mut landed).map(|()| other)
        };
        scope.spawn(consume).join().expect("no panic")
    })?;
    gate.open();
    other.synchronize()?;
    assert_eq!(&*landed.read()?, &[5; 64]);
    Ok(())
}

/// Law A4: the wait is for the first record. It does not cover a second record that another thread
/// makes during the wait.
pub(crate) fn a_wait_does_not_cover_a_record_made_during_it(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let (mut x, mut landed) = (device.pinned::<u64>(64)?, device.pinned::<u64>(64)?);
    x.write()?.fill(5);
    let mut y = b.alloc::<u64>(64)?;
    a.host_fn(|| ())?;
    event.record(&a)?;
    b.host_fn(|| ())?;
    b.host_fn(|| ())?;
    b.copy(&x, &mut y)?;
    testing::script(
        device,
        vec![
            Box::new(|| {
                event.synchronize().expect("nothing failed");
                x.write().expect("nothing failed").fill(6);
            }),
            Box::new(|| event.record(&b).expect("nothing failed")),
        ],
    );
    b.copy(&y, &mut landed)?;
    assert_eq!(&*landed.read()?, &[5; 64]);
    Ok(())
}

/// Law A7: a wait covers the work that the event stood for, and no later work of that stream.
pub(crate) fn a_wait_does_not_hold_for_work_after_the_record(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let event = device.event()?;
    let mut x = a.alloc::<u64>(64)?;
    a.fill_bytes(&mut x, 1)?;
    event.record(&a)?;
    let gate = Gate::on(device, &a)?;
    b.wait(&event)?;
    let mut y = b.alloc::<u64>(64)?;
    b.fill_bytes(&mut y, 2)?;
    b.synchronize()?;
    assert_eq!(a.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    a.synchronize()
}
