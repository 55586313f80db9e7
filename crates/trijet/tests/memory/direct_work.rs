//! Memory of the heap that other code uses directly in its own streams. The library is told of this
//! work afterwards, and the next owner of the bytes follows the work.
//!
//! The other code of these tests uses separate handles of the same streams and of the same bytes.
//! The library sees no relation between these and the handles of the allocator.

use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Buffer, Bytes, Device, ErrorKind, PinnedBuffer, Result, Stream, StreamOptions};

/// A device with memory for only one buffer of `BYTES` bytes.
const BYTES: usize = 64 << 10;

fn small(order: Order) -> Result<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order)).memory(Bytes(BYTES as u64));
    Ok(Device::host(config)?.remove(0))
}

/// The allocator's handle of a stream of other code.
fn adopted(device: &Device, theirs: &Stream) -> Result<Stream> {
    // SAFETY: each test drops this handle before the stream.
    unsafe { device.stream_from_raw(theirs.as_raw(), ()) }
}

/// Other code fills the bytes of `x` in `stream`, and copies them to `landed`.
fn use_directly(
    device: &Device,
    stream: &Stream,
    (x, value): (&Buffer<u8>, u8),
    landed: &mut PinnedBuffer<u8>,
) -> Result<()> {
    // SAFETY: the bytes belong to the heap of the device, which outlives the work. `follow_users`
    // and `note_user` order the work, or the test shows what happens without them.
    let mut alias = unsafe { device.buffer_from_raw::<u8>(x.address(), x.len(), ())? };
    stream.fill_bytes(&mut alias, value)?;
    stream.copy(&alias, landed)
}

fn orders() -> impl Iterator<Item = Order> {
    [Order::Greedy].into_iter().chain((0..60).map(Order::Seeded))
}

/// Two owners of the same bytes, on two streams. Returns whether both found their values.
fn two_owners(order: Order, follow: impl Fn(&Stream, &Buffer<u8>) -> Result<()>) -> Result<bool> {
    let device = small(order)?;
    let (a, b) = (device.stream()?, device.stream()?);
    let (ours_a, ours_b) = (adopted(&device, &a)?, adopted(&device, &b)?);
    let (mut first, mut second) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
    let x = ours_a.alloc::<u8>(BYTES)?;
    follow(&ours_a, &x)?;
    use_directly(&device, &a, (&x, 1), &mut first)?;
    ours_a.note_user(&x)?;
    drop(x);
    let y = ours_b.alloc::<u8>(BYTES)?;
    follow(&ours_b, &y)?;
    use_directly(&device, &b, (&y, 2), &mut second)?;
    ours_b.note_user(&y)?;
    let right = first.read()?.iter().all(|byte| *byte == 1);
    Ok(right && second.read()?.iter().all(|byte| *byte == 2))
}

#[test]
fn the_next_owner_of_the_bytes_follows_the_work_of_other_code() -> Result<()> {
    for order in orders() {
        assert!(two_owners(order.clone(), Stream::follow_users)?, "{order:?}");
    }
    Ok(())
}

/// The orders of the test above are enough to show a missing wait.
#[test]
fn an_owner_that_does_not_follow_loses_bytes_in_some_order() -> Result<()> {
    let mut wrong = 0;
    for order in orders() {
        wrong += usize::from(!two_owners(order, |_, _| Ok(()))?);
    }
    assert!(wrong > 0);
    Ok(())
}

#[test]
fn a_stream_that_follows_anyway_waits_and_records_nothing() -> Result<()> {
    let device = small(Order::Greedy)?;
    let a = device.stream()?;
    let ours = adopted(&device, &a)?;
    let mut landed = device.pinned::<u8>(BYTES)?;
    let (mut records, mut counted) = (0, 0);
    for value in 0..5 {
        counted = device.ordering().records;
        let x = ours.alloc::<u8>(BYTES)?;
        ours.follow_users(&x)?;
        records += device.ordering().records - counted;
        // The handle of the other code records an event when it is dropped.
        use_directly(&device, &a, (&x, value), &mut landed)?;
        counted = device.ordering().records;
        ours.note_user(&x)?;
        drop(x);
        records += device.ordering().records - counted;
    }
    assert!(counted > 0, "records are counted");
    let stats = device.heap_stats().expect("it has a heap");
    assert_eq!((stats.new, stats.own), (1, 4), "{stats:?}");
    assert_eq!((device.ordering().waits, records), (0, 0));
    assert_eq!(landed.read()?[0], 4);
    Ok(())
}

/// If the library recorded an event before other code enqueued its work, the event proves nothing
/// about that work.
#[test]
fn what_was_found_complete_before_does_not_stand_for_later_work() -> Result<()> {
    for order in orders() {
        let device = small(order.clone())?;
        let (a, b) = (device.stream()?, device.stream()?);
        let (ours_a, ours_b) = (adopted(&device, &a)?, adopted(&device, &b)?);
        let (mut first, mut second) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
        let x = ours_a.alloc::<u8>(BYTES)?;
        ours_a.note_user(&x)?;
        ours_a.synchronize()?;
        let event = device.event()?;
        event.record(&ours_a)?;
        use_directly(&device, &a, (&x, 1), &mut first)?;
        // Each of these was enqueued before the work, and is complete.
        event.synchronize()?;
        ours_a.note_user(&x)?;
        drop(x);
        event.synchronize()?;
        let y = ours_b.alloc::<u8>(BYTES)?;
        ours_b.follow_users(&y)?;
        use_directly(&device, &b, (&y, 2), &mut second)?;
        ours_b.note_user(&y)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "{order:?}");
        assert!(second.read()?.iter().all(|byte| *byte == 2), "{order:?}");
    }
    Ok(())
}

/// A position without an operation does not hold back a blocking stream. The second owner, on the
/// legacy stream or on a blocking one, enqueues nothing. It therefore passes no order on from the
/// first owner to the third one.
#[test]
fn an_owner_without_work_stands_for_no_order_with_the_legacy_stream() -> Result<()> {
    for order in orders() {
        for through_legacy in [true, false] {
            let device = small(order.clone())?;
            let blocking = || device.stream_with(StreamOptions::new().blocking());
            let (c, b) = (blocking()?, blocking()?);
            let (ours_c, ours_b) = (adopted(&device, &c)?, adopted(&device, &b)?);
            let legacy = device.legacy_stream()?;
            let (mut first, mut third) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
            let (on, ours, between) = match through_legacy {
                true => (&c, &ours_c, &legacy),
                false => (&legacy, &legacy, &ours_c),
            };
            let x = ours.alloc::<u8>(BYTES)?;
            ours.follow_users(&x)?;
            use_directly(&device, on, (&x, 1), &mut first)?;
            ours.note_user(&x)?;
            drop(x);
            let y = between.alloc::<u8>(BYTES)?;
            between.follow_users(&y)?;
            between.note_user(&y)?;
            drop(y);
            let z = ours_b.alloc::<u8>(BYTES)?;
            ours_b.follow_users(&z)?;
            use_directly(&device, &b, (&z, 3), &mut third)?;
            ours_b.note_user(&z)?;
            let right = first.read()?.iter().all(|byte| *byte == 1)
                && third.read()?.iter().all(|byte| *byte == 3);
            assert!(right, "{order:?}, through the legacy stream: {through_legacy}");
        }
    }
    Ok(())
}

/// The memory has a user on another stream than its allocation. An allocator is told of such a user
/// through `record_stream`.
#[test]
fn every_noted_stream_is_followed() -> Result<()> {
    for order in orders() {
        let device = small(order.clone())?;
        let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
        let ours_a = adopted(&device, &a)?;
        let (ours_b, ours_c) = (adopted(&device, &b)?, adopted(&device, &c)?);
        let (mut first, mut last) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
        let x = ours_a.alloc::<u8>(BYTES)?;
        ours_a.follow_users(&x)?;
        use_directly(&device, &b, (&x, 1), &mut first)?;
        ours_b.note_user(&x)?;
        ours_a.note_user(&x)?;
        drop(x);
        let y = ours_c.alloc::<u8>(BYTES)?;
        ours_c.follow_users(&y)?;
        use_directly(&device, &c, (&y, 2), &mut last)?;
        ours_c.note_user(&y)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "{order:?}");
        assert!(last.read()?.iter().all(|byte| *byte == 2), "{order:?}");
    }
    Ok(())
}

#[test]
fn memory_of_another_driver_is_refused() -> Result<()> {
    let (device, other) = (small(Order::Greedy)?, small(Order::Greedy)?);
    let stream = device.stream()?;
    let x = other.stream()?.alloc::<u8>(64)?;
    let kind = |result: Result<()>| result.map_err(|error| error.kind());
    assert_eq!(kind(stream.follow_users(&x)), Err(ErrorKind::InvalidValue));
    assert_eq!(kind(stream.note_user(&x)), Err(ErrorKind::InvalidValue));
    Ok(())
}
