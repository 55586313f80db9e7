//! The heap of a device: memory that is handed out again without a call of the driver, and in the order of its users.

use trijet::check::Options;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::trace::OpKind;
use trijet::{Bytes, Device, ErrorKind, Result};

/// A checked device with room for one buffer of `BYTES`.
const BYTES: usize = 64 << 10;

fn small(order: Order) -> Result<Device> {
    let config = HostConfig {
        executor: Executor::Virtual(order),
        memory: Bytes(BYTES as u64),
        ..HostConfig::default()
    };
    Device::builder().host(config).check(Options::default()).open()
}

fn demand_clean(device: &Device) {
    let verdict = device.verdict().expect("it is checked");
    assert_eq!(verdict.findings, [], "{verdict}");
}

#[test]
fn a_stream_gets_its_memory_again_without_a_call_or_a_wait() -> Result<()> {
    let device = small(Order::Greedy)?;
    let s = device.stream()?;
    let mut addresses = Vec::new();
    for value in 0..5 {
        let mut x = s.alloc::<u8>(BYTES)?;
        s.fill_bytes(&mut x, value)?;
        addresses.push(x.address());
    }
    addresses.dedup();
    let stats = device.heap_stats().expect("it has a heap");
    assert_eq!((addresses.len(), stats.new, stats.own), (1, 1, 4));
    assert_eq!((device.ordering().waits, device.ordering().records), (0, 0));
    s.synchronize()?;
    demand_clean(&device);
    Ok(())
}

/// The new owner gets the bytes while the old one's operation is pending, and its first write follows it.
#[test]
fn the_first_write_of_memory_in_use_waits_for_its_last_user() -> Result<()> {
    for order in [Order::Greedy].into_iter().chain((0..40).map(Order::Seeded)) {
        let device = small(order)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let mut landed = [device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?];
        let [first, second] = &mut landed;
        let mut x = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut x, 1)?;
        a.copy(&x, first)?;
        drop(x);
        let mut y = b.alloc::<u8>(BYTES)?;
        b.fill_bytes(&mut y, 2)?;
        b.copy(&y, second)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1));
        assert!(second.read()?.iter().all(|byte| *byte == 2));
        let stats = device.heap_stats().expect("it has a heap");
        assert_eq!(stats.awaiting + stats.queried, 1, "{stats:?}");
        assert!(device.ordering().waits <= 1, "only the first write waits");
        demand_clean(&device);
    }
    Ok(())
}

/// The library inserts no waits for memory that the program orders by hand, except for those that the program
/// cannot know of.
#[test]
fn memory_that_is_ordered_by_hand_follows_the_earlier_owner_of_its_bytes() -> Result<()> {
    for seed in 0..40 {
        let device = small(Order::Seeded(seed))?;
        let (a, b) = (device.stream()?, device.stream()?);
        let (mut first, mut second) = (device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?);
        let mut x = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut x, 1)?;
        a.copy(&x, &mut first)?;
        drop(x);
        let mut y = b.alloc::<u8>(BYTES)?;
        // SAFETY: only `b` uses it.
        unsafe { y.order_manually() };
        b.fill_bytes(&mut y, 2)?;
        b.copy(&y, &mut second)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "seed {seed}");
        assert!(second.read()?.iter().all(|byte| *byte == 2), "seed {seed}");
        demand_clean(&device);
    }
    Ok(())
}

/// An empty buffer has memory of a granule, which it never uses. Its drop must not make the granule look unused: the
/// next owner once wrote it while the operation of the owner before was pending.
#[test]
fn an_empty_buffer_keeps_the_earlier_users_of_its_memory() -> Result<()> {
    for seed in 0..40 {
        let config = HostConfig {
            executor: Executor::Virtual(Order::Seeded(seed)),
            memory: Bytes(4096),
            ..HostConfig::default()
        };
        let device = Device::builder().host(config).check(Options::default()).open()?;
        let (a, b) = (device.stream()?, device.stream()?);
        let rest = a.alloc::<u8>(4096 - 256)?;
        let mut landed = device.pinned::<u8>(256)?;
        let mut x = a.alloc::<u8>(256)?;
        a.fill_bytes(&mut x, 1)?;
        a.copy(&x, &mut landed)?;
        drop(x);
        drop(b.alloc::<u8>(0)?);
        let mut y = b.alloc::<u8>(256)?;
        b.fill_bytes(&mut y, 2)?;
        assert!(landed.read()?.iter().all(|byte| *byte == 1), "seed {seed}");
        b.synchronize()?;
        demand_clean(&device);
        drop(rest);
    }
    Ok(())
}

#[test]
fn a_drop_makes_no_call_and_enqueues_nothing() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    let mut x = s.alloc::<u8>(1000)?;
    s.fill_bytes(&mut x, 1)?;
    s.synchronize()?;
    device.start_trace(&s)?;
    let calls = device.heap_stats().map(|stats| stats.calls);
    drop(x);
    drop(s.alloc::<u8>(1000)?);
    assert_eq!(device.heap_stats().map(|stats| stats.calls), calls);
    let ops = device.take_trace()?.ops;
    let of_heap = |kind: &OpKind| matches!(kind, OpKind::FromHeap { .. } | OpKind::ToHeap);
    assert_eq!(ops.len(), 3, "{ops:#?}");
    assert!(ops.iter().all(|op| of_heap(&op.kind)), "{ops:#?}");
    Ok(())
}

#[test]
fn trimmed_memory_is_taken_from_the_device_again() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    let (kept, freed) = (s.alloc::<u8>(1 << 20)?, s.alloc::<u8>(1 << 20)?);
    drop(freed);
    s.synchronize()?;
    device.trim_memory(Bytes(0))?;
    let stats = device.memory_stats()?;
    assert_eq!(stats.reserved, Bytes(1 << 20), "{stats:?}");
    let again = s.alloc::<u8>(1 << 20)?;
    assert_eq!(device.memory_stats()?.reserved, Bytes(2 << 20));
    drop((kept, again));
    device.trim_memory(Bytes(0))?;
    assert_eq!(device.memory_stats()?.reserved, Bytes(0));
    Ok(())
}

/// A refused growth changes nothing.
#[test]
fn an_allocation_after_a_refused_one_succeeds() -> Result<()> {
    let executor = Executor::Virtual(Order::Greedy);
    let refused = |nth| Fault { verb: Verb::RangeMap, nth, kind: FaultKind::Refused };
    let config = HostConfig { executor, faults: vec![refused(1)], ..HostConfig::default() };
    let device = Device::host(config)?.remove(0);
    let s = device.stream()?;
    // The heap asks again for less before it gives up.
    let mut x = s.alloc::<u8>(100)?;
    s.fill_bytes(&mut x, 1)?;
    s.close()?;
    let all = |nths: std::ops::RangeInclusive<u64>| nths.map(refused).collect();
    let config = HostConfig {
        executor: Executor::Virtual(Order::Greedy),
        faults: all(1..=2),
        ..HostConfig::default()
    };
    let device = Device::host(config)?.remove(0);
    let s = device.stream()?;
    let error = s.alloc::<u8>(100).expect_err("both sizes are refused");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("256 B asked for"), "{error}");
    s.alloc::<u8>(100)?;
    Ok(())
}

#[test]
fn a_device_without_ranges_allocates_from_a_pool() -> Result<()> {
    let device = Device::host(HostConfig { ranges: false, ..HostConfig::default() })?.remove(0);
    assert_eq!(device.heap_stats(), None);
    let s = device.stream()?;
    device.start_trace(&s)?;
    drop(s.alloc::<u8>(64)?);
    s.synchronize()?;
    let ops = device.take_trace()?.ops;
    assert!(
        ops.iter().any(|op| op.kind == OpKind::Alloc)
            && ops.iter().any(|op| op.kind == OpKind::Free)
    );
    Ok(())
}
