//! Futures: the work that they wait for, and the knowledge of the thread that awaits them (laws A4,
//! A8, A9 and A11).

use super::executor::{block_on, poll_once};
use super::{Gate, download, mix, upload, words};
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use trijet::testing::MIX;
use trijet::{Device, ErrorKind, Readiness, Result};

/// Law A11, as for a wait.
pub(crate) fn awaiting_a_ticket_orders_the_thread_that_polls(device: &Device) -> Result<()> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(1, 64))?;
    let (mut y, mut z) = (b.alloc::<u64>(64)?, c.alloc::<u64>(64)?);
    b.fill_bytes(&mut y, 3)?;
    c.fill_bytes(&mut z, 3)?;
    let ticket = a.ticket()?;
    thread::scope(|scope| {
        let awaiting = scope.spawn(|| -> Result<()> {
            block_on(ticket.ready())?;
            let start = device.ordering().waits;
            b.launch(&MIX, (1, &x, &mut y))?;
            assert_eq!(device.ordering().waits, start, "this thread has awaited x");
            Ok(())
        });
        awaiting.join().expect("the thread asserts")
    })?;
    let start = device.ordering().waits;
    c.launch(&MIX, (1, &x, &mut z))?;
    assert_eq!(device.ordering().waits, start + 1, "this thread has not awaited x");
    let mut expected = vec![0x0303_0303_0303_0303; 64];
    mix(1, &words(1, 64), &mut expected);
    assert_eq!(download(device, &b, &y)?, expected);
    assert_eq!(download(device, &c, &z)?, expected);
    Ok(())
}

/// Work that is enqueued after the call does not delay the future, even before its first poll.
pub(crate) fn a_stream_is_awaited_up_to_the_call(device: &Device) -> Result<()> {
    let stream = device.stream()?;
    let mut landed = device.pinned::<u64>(64)?;
    let x = upload(device, &stream, &words(2, 64))?;
    stream.copy(&x, &mut landed)?;
    let ready = stream.ready();
    let gate = Gate::on(device, &stream)?;
    block_on(ready)?;
    assert_eq!(&*landed.read()?, &words(2, 64));
    assert_eq!(stream.query()?, Readiness::NotReady, "later work is not included");
    let mut ready = stream.ready();
    assert!(poll_once(&mut ready).is_pending(), "the gate is included now");
    gate.open();
    block_on(ready)?;
    assert_eq!(stream.query()?, Readiness::Ready);
    Ok(())
}

/// Law A4: a later record does not change what an existing future of the event waits for.
pub(crate) fn an_event_is_awaited_as_it_was_recorded_at_the_call(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let (event, other) = (device.event()?, device.timed_event()?);
    let x = upload(device, &a, &words(3, 64))?;
    let mut y = upload(device, &b, &words(4, 64))?;
    event.record(&a)?;
    other.record(&a)?;
    let (early, timed) = (event.ready(), other.ready());
    let gate = Gate::on(device, &a)?;
    event.record(&a)?;
    block_on(early)?;
    block_on(timed)?;
    assert_eq!(event.query()?, Readiness::NotReady, "the second record stands for the gate too");
    let start = device.ordering().waits;
    b.launch(&MIX, (1, &x, &mut y))?;
    assert_eq!(device.ordering().waits, start, "x comes before the first record");
    let mut late = event.ready();
    assert!(poll_once(&mut late).is_pending());
    gate.open();
    block_on(late)?;
    assert_eq!(a.query()?, Readiness::Ready);
    device.synchronize()
}

/// Law A5.
pub(crate) fn an_event_that_was_never_recorded_is_ready(device: &Device) -> Result<()> {
    let event = device.event()?;
    let mut ready = event.ready();
    let stream = device.stream()?;
    let gate = Gate::on(device, &stream)?;
    event.record(&stream)?;
    assert!(
        matches!(poll_once(&mut ready), Poll::Ready(Ok(()))),
        "the event had no record at the call"
    );
    gate.open();
    block_on(event.ready())
}

/// A future of host memory does not wait for readers, nor for writers of other parts.
pub(crate) fn a_host_buffer_is_awaited_for_its_writers_only(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(5, 32))?;
    let mut y = upload(device, &b, &words(6, 32))?;
    let mut source = device.pinned::<u64>(32)?;
    source.write()?.fill(9);
    let (mut left, mut right) = device.pinned::<u64>(64)?.split(32);
    b.copy(&y, &mut right)?;
    let written = right.ready();
    let (gate, event) = (Gate::on(device, &a)?, device.event()?);
    a.copy(&x, &mut left)?;
    event.record(&a)?;
    b.wait(&event)?;
    b.copy(&source, &mut y)?;
    assert_eq!(&*block_on(written)?, &words(6, 32));
    assert_eq!(&*block_on(source.ready())?, &[9; 32], "it is only read");
    assert_eq!(a.query()?, Readiness::NotReady, "the left half is still to come");
    assert!(poll_once(&mut left.ready()).is_pending());
    gate.open();
    assert_eq!(&*block_on(left.ready())?, &words(5, 32));
    assert_eq!(download(device, &b, &y)?, [9; 32]);
    Ok(())
}

pub(crate) fn what_was_awaited_needs_no_wait_afterwards(device: &Device) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut landed = device.pageable::<u64>(64)?;
    let x = upload(device, &a, &words(7, 64))?;
    let mut y = upload(device, &b, &words(8, 64))?;
    a.copy(&x, &mut landed)?;
    assert_eq!(&*block_on(landed.ready())?, &words(7, 64));
    let start = device.ordering();
    assert_eq!(&*landed.read()?, &words(7, 64));
    assert_eq!(&*block_on(landed.ready())?, &words(7, 64));
    b.launch(&MIX, (1, &x, &mut y))?;
    assert_eq!(device.ordering(), start, "neither the guards nor the launch needed a wait");
    device.synchronize()
}

/// Law A46: this thread polls the future first, and another thread completes it. Only the other
/// thread knows that the work is complete.
pub(crate) fn only_the_thread_that_completes_a_future_learns_from_it(
    device: &Device,
) -> Result<()> {
    let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
    let x = upload(device, &a, &words(9, 64))?;
    let (mut y, mut z) = (upload(device, &b, &words(10, 64))?, upload(device, &c, &words(11, 64))?);
    let gate = Gate::on(device, &a)?;
    let mut ready = a.ready();
    assert!(poll_once(&mut ready).is_pending());
    gate.open();
    thread::scope(|scope| {
        let elsewhere = scope.spawn(|| -> Result<()> {
            block_on(ready)?;
            let start = device.ordering().waits;
            b.launch(&MIX, (1, &x, &mut y))?;
            assert_eq!(device.ordering().waits, start, "the future completed on this thread");
            Ok(())
        });
        elsewhere.join().expect("the thread asserts")
    })?;
    let start = device.ordering().waits;
    c.launch(&MIX, (1, &x, &mut z))?;
    assert_eq!(device.ordering().waits, start + 1, "the future completed on another thread");
    device.synchronize()
}

/// The thread that makes the future has waited for a writer. The thread that completes the future
/// must not wait for the stream of that writer, because the stream has other work by then.
pub(crate) fn a_future_of_memory_waits_for_nothing_that_its_creator_knew_complete(
    device: &Device,
) -> Result<()> {
    let (a, b) = (device.stream()?, device.stream()?);
    let mut landed = device.pinned::<u64>(64)?;
    let x = upload(device, &a, &words(12, 64))?;
    let y = upload(device, &b, &words(13, 64))?;
    a.copy(&x, &mut landed)?;
    a.synchronize()?;
    let gate = Gate::on(device, &a)?;
    let ready = landed.ready();
    thread::scope(|scope| {
        let elsewhere = scope.spawn(|| -> Result<()> {
            assert_eq!(&*block_on(ready)?, &words(12, 64));
            Ok(())
        });
        elsewhere.join().expect("the thread asserts")
    })?;
    assert_eq!(a.query()?, Readiness::NotReady, "the gate was held throughout");
    gate.open();
    b.copy(&y, &mut landed)?;
    assert_eq!(&*block_on(landed.ready())?, &words(13, 64));
    Ok(())
}

/// Law A28.
pub(crate) fn polling_inside_a_host_function_ends_with_an_error(device: &Device) -> Result<()> {
    let (stream, inner) = (device.stream()?, device.stream()?);
    let (event, host) = (device.event()?, device.pinned::<u64>(8)?);
    let x = upload(device, &inner, &words(14, 8))?;
    event.record(&inner)?;
    let (ticket, mut outside) = (inner.ticket()?, inner.ready());
    let (send, receive) = mpsc::channel();
    stream.host_fn(move || {
        let kind = |polled: Poll<Result<()>>| polled.map_err(|error| error.kind());
        let kinds = [
            ("ticket", kind(poll_once(&mut ticket.ready()))),
            ("stream", kind(poll_once(&mut inner.ready()))),
            ("event", kind(poll_once(&mut event.ready()))),
            ("buffer", kind(poll_once(&mut host.ready()).map_ok(drop))),
            ("made outside", kind(poll_once(&mut outside))),
        ];
        // The lent values are sent back, so that none is dropped in the host function.
        let lent = (inner, x, host, event, ticket, outside);
        send.send((kinds, lent)).expect("the receiver waits");
    })?;
    stream.synchronize()?;
    let (kinds, (inner, x, .., outside)) = receive.recv().expect("the function ran");
    for (what, polled) in kinds {
        assert_eq!(polled, Poll::Ready(Err(ErrorKind::InCallback)), "{what}");
    }
    block_on(outside)?;
    assert_eq!(download(device, &inner, &x)?, words(14, 8));
    Ok(())
}
