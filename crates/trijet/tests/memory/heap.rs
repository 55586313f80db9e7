//! The heap of a device: memory that is used again without a call of the driver, and in the order
//! of its users.

use crate::common::{checked, demand_clean};
use trijet::sim::{CostModel, Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::trace::{MemoryCall, OpKind, StreamWork};
use trijet::{Bytes, Device, ErrorKind, HeapMode, Nanos, PoolChoice, Result};

/// A checked device with room for one buffer of `BYTES`.
const BYTES: usize = 64 << 10;

fn small(order: Order) -> Result<Device> {
    device_with(order, BYTES)
}

/// A checked device with this many bytes of memory.
fn device_with(order: Order, bytes: usize) -> Result<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order)).memory(Bytes(bytes as u64));
    Ok(checked(config)?.remove(0))
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

/// The new owner gets the bytes while an operation of the old owner is pending. The first write of
/// the new owner follows this operation.
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

/// The library inserts no waits for memory that the program orders by hand, except waits that the
/// program cannot know of.
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

/// An empty buffer has the memory of one granule, which it never uses. Its drop must not make the
/// granule look unused. Once, the next owner wrote the granule while an operation of the previous
/// owner was pending.
#[test]
fn an_empty_buffer_keeps_the_earlier_users_of_its_memory() -> Result<()> {
    for seed in 0..40 {
        let config =
            HostConfig::new().executor(Executor::Virtual(Order::Seeded(seed))).memory(Bytes(4096));
        let device = checked(config)?.remove(0);
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

/// A stream that waited for another one may use the memory of both again. For a third stream, this
/// memory is complete only when the use by the other stream is complete as well. The end of the
/// last use by the first stream is not enough.
#[test]
fn memory_is_complete_when_the_users_that_its_stream_has_waited_for_are() -> Result<()> {
    for seed in 0..40 {
        let executor = Executor::Virtual(Order::Seeded(seed));
        let config = HostConfig::new().executor(executor);
        let device = checked(config)?.remove(0);
        // Streams keep no blocks in this mode.
        device.set_heap_mode(HeapMode::NeverWait)?;
        let (own, other, third) = (device.stream()?, device.stream()?, device.stream()?);
        let mut landed = [device.pinned::<u8>(BYTES)?, device.pinned::<u8>(BYTES)?];
        let [first, second] = &mut landed;
        let mut x = own.alloc::<u8>(BYTES)?;
        own.fill_bytes(&mut x, 1)?;
        own.copy(&x, first)?;
        let own_use = device.event()?;
        own_use.record(&own)?;
        other.copy(&x, second)?;
        let other_use = device.event()?;
        other_use.record(&other)?;
        own.wait(&other_use)?;
        drop(x);
        own_use.synchronize()?;
        let mut y = third.alloc::<u8>(BYTES)?;
        third.fill_bytes(&mut y, 2)?;
        assert!(second.read()?.iter().all(|byte| *byte == 1), "seed {seed}");
        device.synchronize()?;
        demand_clean(&device);
    }
    Ok(())
}

/// Work that a thread found complete stays complete after the thread has ended, even if the checker
/// forgets the thread. The checker once reported the reuse of such memory as a race.
#[test]
fn memory_that_an_ended_thread_found_complete_is_used_again_without_a_finding() -> Result<()> {
    let config = HostConfig::new().memory(Bytes(BYTES as u64));
    let device = checked(config)?.remove(0);
    let (a, b) = (device.stream()?, device.stream()?);
    let mut other = device.pinned::<u8>(1)?;
    let mut x = a.alloc::<u8>(BYTES)?;
    a.fill_bytes(&mut x, 1)?;
    let place = x.address();
    drop(x);
    std::thread::scope(|scope| scope.spawn(|| a.synchronize()).join().expect("no panic"))?;
    for _ in 0..20_000 {
        b.fill_bytes(&mut other, 1)?;
    }
    b.synchronize()?;
    let mut y = b.alloc::<u8>(BYTES)?;
    assert_eq!(y.address(), place);
    b.fill_bytes(&mut y, 2)?;
    b.synchronize()?;
    demand_clean(&device);
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
    let of_heap = |kind: &OpKind| {
        matches!(kind, OpKind::Memory(MemoryCall::FromHeap { .. } | MemoryCall::ToHeap))
    };
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
    let config = HostConfig::new().executor(executor).faults(vec![refused(1)]);
    let device = Device::host(config)?.remove(0);
    let s = device.stream()?;
    // If the driver refuses the growth, the heap asks for less memory before it returns an error.
    let mut x = s.alloc::<u8>(100)?;
    s.fill_bytes(&mut x, 1)?;
    s.close()?;
    let all = |nths: std::ops::RangeInclusive<u64>| nths.map(refused).collect();
    let config = HostConfig::new().executor(Executor::Virtual(Order::Greedy)).faults(all(1..=2));
    let device = Device::host(config)?.remove(0);
    let s = device.stream()?;
    let error = s.alloc::<u8>(100).expect_err("both sizes are refused");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert!(error.to_string().contains("256 B requested"), "{error}");
    s.alloc::<u8>(100)?;
    Ok(())
}

#[test]
fn a_device_without_ranges_allocates_from_a_pool() -> Result<()> {
    let device = Device::host(HostConfig::new().without_ranges())?.remove(0);
    assert_eq!(device.heap_stats(), None);
    let s = device.stream()?;
    device.start_trace(&s)?;
    drop(s.alloc::<u8>(64)?);
    s.synchronize()?;
    let ops = device.take_trace()?.ops;
    assert!(
        ops.iter().any(|op| op.kind == OpKind::Work(StreamWork::Alloc))
            && ops.iter().any(|op| op.kind == OpKind::Work(StreamWork::Free))
    );
    Ok(())
}

/// Two streams use memory alternately, and the host waits between the uses. The kernels of the
/// device take `latency`. Returns the distance of each buffer from the first one.
fn places(mode: HeapMode, latency: u64) -> Result<Vec<u64>> {
    let cost = CostModel { kernel_latency: Nanos(latency), ..CostModel::default() };
    let executor = Executor::Virtual(Order::Greedy);
    let config = HostConfig::new().executor(executor).cost(cost);
    let device = checked(config)?.remove(0);
    device.set_heap_mode(mode)?;
    let streams = [device.stream()?, device.stream()?];
    let mut kept = Vec::new();
    let mut places = Vec::new();
    for step in 0..40usize {
        let [s, other] =
            if step % 3 == 0 { [&streams[0], &streams[1]] } else { [&streams[1], &streams[0]] };
        let mut x = s.alloc::<u8>(8192 * (1 + step % 4))?;
        s.fill_bytes(&mut x, 1)?;
        places.push(x.address());
        if step % 5 == 0 {
            s.synchronize()?;
        }
        if step % 4 == 1 {
            other.fill_bytes(&mut x, 2)?;
        }
        // A recorded event, which the heap may query.
        other.ticket()?;
        kept.push(x);
        if step % 2 == 1 {
            kept.swap_remove(step % kept.len());
        }
    }
    streams[0].synchronize()?;
    streams[1].synchronize()?;
    demand_clean(&device);
    let first = places[0];
    Ok(places.into_iter().map(|place| place.wrapping_sub(first)).collect())
}

#[test]
fn the_deterministic_mode_gives_the_same_memory_however_long_work_takes() -> Result<()> {
    let latencies = [0, 100, 10_000, 1_000_000];
    let of = |mode| {
        latencies.map(|latency| places(mode, latency)).into_iter().collect::<Result<Vec<_>>>()
    };
    let mut places = of(HeapMode::Deterministic)?;
    places.dedup();
    assert_eq!(places.len(), 1, "the completion of operations changed a place");
    let mut places = of(HeapMode::Speed)?;
    places.dedup();
    assert!(places.len() > 1, "the program does not depend on completion, and shows nothing");
    Ok(())
}

/// A wait for one user covers no other user. Memory that is free in pieces becomes one block when
/// the program has waited for the users of all pieces.
#[test]
fn the_deterministic_mode_joins_memory_only_of_users_that_the_program_waited_for() -> Result<()> {
    for seed in 0..40 {
        // The heap maps memory in pieces of at least this size.
        let quarter = 2 << 20;
        let device = device_with(Order::Seeded(seed), 4 * quarter)?;
        device.set_heap_mode(HeapMode::Deterministic)?;
        let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
        let mut landed = [device.pinned::<u8>(quarter)?, device.pinned::<u8>(quarter)?];
        // These two quarters stay allocated and keep the other two apart.
        let (mut x, left) = (a.alloc::<u8>(quarter)?, c.alloc::<u8>(quarter)?);
        let (mut y, right) = (b.alloc::<u8>(quarter)?, c.alloc::<u8>(quarter)?);
        for ((s, memory), (value, host)) in
            [(&a, &mut x), (&b, &mut y)].into_iter().zip((1..).zip(&mut landed))
        {
            s.fill_bytes(memory, value)?;
            s.copy(memory, host)?;
        }
        drop((x, y));
        let mut half = c.alloc_waiting::<u8>(2 * quarter)?;
        c.fill_bytes(&mut half, 9)?;
        for (value, host) in (1..).zip(&landed) {
            assert!(host.read()?.iter().all(|byte| *byte == value), "seed {seed}, part {value}");
        }
        c.synchronize()?;
        drop((left, right));
        demand_clean(&device);
    }
    Ok(())
}

#[test]
fn the_footprint_mode_takes_memory_in_use_before_new_memory() -> Result<()> {
    for (mode, new) in [(HeapMode::Speed, 2), (HeapMode::Footprint, 1)] {
        let executor = Executor::Virtual(Order::Greedy);
        let config = HostConfig::new().executor(executor);
        let device = checked(config)?.remove(0);
        device.set_heap_mode(mode)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let mut x = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut x, 1)?;
        drop(x);
        let mut y = b.alloc::<u8>(BYTES)?;
        b.fill_bytes(&mut y, 2)?;
        b.synchronize()?;
        let stats = device.heap_stats().expect("it has a heap");
        assert_eq!((stats.new, stats.awaiting), (new, 2 - new), "{mode}");
        demand_clean(&device);
    }
    Ok(())
}

/// In this mode a stream never waits for memory. On request, the host waits instead.
#[test]
fn the_never_wait_mode_refuses_memory_in_use_and_says_what_would_help() -> Result<()> {
    let device = small(Order::Greedy)?;
    device.set_heap_mode(HeapMode::NeverWait)?;
    let (a, b) = (device.stream()?.named("loader"), device.stream()?);
    let mut x = a.alloc::<u8>(BYTES)?;
    a.fill_bytes(&mut x, 1)?;
    drop(x);
    let error = b.alloc::<u8>(BYTES).expect_err("its only memory is in use");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    let text = error.to_string();
    let parts = [
        "64 KiB requested",
        "wait for the work of stream `loader`",
        "in another mode than never-wait",
    ];
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
    let waits = device.ordering().waits;
    let mut y = b.alloc_waiting::<u8>(BYTES)?;
    b.fill_bytes(&mut y, 2)?;
    assert_eq!(device.ordering().waits, waits, "the host has waited, so the stream does not");
    let error = a.alloc_waiting::<u8>(1).expect_err("live memory does not come back");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    demand_clean(&device);
    Ok(())
}

/// Free memory may be in pieces, each after pending work. If the caller waits, the heap maps the
/// pieces again as one block.
#[test]
fn waiting_joins_pieces_of_memory_that_are_in_use() -> Result<()> {
    let config = HostConfig::new()
        .executor(Executor::Virtual(Order::Greedy))
        .memory(Bytes(4 * BYTES as u64));
    let device = checked(config)?.remove(0);
    let s = device.stream()?;
    let mut buffers = (0..4).map(|_| s.alloc::<u8>(BYTES)).collect::<Result<Vec<_>>>()?;
    for buffer in &mut buffers {
        s.fill_bytes(buffer, 1)?;
    }
    let kept = [buffers.remove(3), buffers.remove(1)];
    drop(buffers);
    let error = s.alloc::<u8>(2 * BYTES).expect_err("no two neighbours are free");
    assert!(error.to_string().contains("`alloc_waiting` would wait"), "{error}");
    let mut y = s.alloc_waiting::<u8>(2 * BYTES)?;
    s.fill_bytes(&mut y, 3)?;
    s.synchronize()?;
    demand_clean(&device);
    drop(kept);
    Ok(())
}

#[test]
fn a_pool_gives_memory_that_the_host_waited_for() -> Result<()> {
    let config =
        HostConfig::new().executor(Executor::Virtual(Order::Greedy)).memory(Bytes(4 << 20));
    let device = Device::builder().host(config).pool(PoolChoice::Own).open()?;
    let (a, b) = (device.stream()?, device.stream()?);
    let mut x = a.alloc::<u8>(4 << 20)?;
    a.fill_bytes(&mut x, 1)?;
    drop(x);
    b.alloc_waiting::<u8>(4 << 20)?;
    for refused in [device.set_heap_mode(HeapMode::Speed), device.limit_memory(None)] {
        assert_eq!(refused.expect_err("it has no heap").kind(), ErrorKind::Unsupported);
    }
    Ok(())
}

#[test]
fn the_heap_holds_no_more_than_its_limit() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    let x = s.alloc::<u8>(8 * BYTES)?;
    device.limit_memory(Some(Bytes(4 * BYTES as u64)))?;
    assert_eq!(device.memory_stats()?.reserved, Bytes(8 * BYTES as u64), "memory in use stays");
    drop(x);
    s.synchronize()?;
    device.limit_memory(Some(Bytes(4 * BYTES as u64)))?;
    assert!(device.memory_stats()?.reserved <= Bytes(4 * BYTES as u64));
    let mut live = Vec::new();
    let error = loop {
        match s.alloc::<u8>(BYTES) {
            Ok(buffer) => live.push(buffer),
            Err(error) => break error,
        }
    };
    assert_eq!(live.len(), 4, "the limit is used up");
    assert!(error.to_string().contains("the limit of the heap is 256 KiB"), "{error}");
    device.limit_memory(None)?;
    live.push(s.alloc::<u8>(BYTES)?);
    Ok(())
}

/// In the mode `Footprint`, a growth makes several calls. If one of them fails, the heap keeps the
/// pieces before it and returns the addresses after it.
#[test]
fn a_growth_that_fails_in_its_middle_loses_no_memory() -> Result<()> {
    const MIB: usize = 1 << 20;
    let executor = Executor::Virtual(Order::Greedy);
    let faults = vec![Fault { verb: Verb::RangeMap, nth: 3, kind: FaultKind::Refused }];
    let config = HostConfig::new().executor(executor).faults(faults);
    let device = Device::host(config)?.remove(0);
    device.set_heap_mode(HeapMode::Footprint)?;
    let s = device.stream()?;
    let mut x = s.alloc::<u8>(8 * MIB)?;
    s.fill_bytes(&mut x, 1)?;
    let held = || Ok::<_, trijet::Error>(device.memory_stats()?.reserved.to_usize());
    assert_eq!(held()?, 8 * MIB, "the pieces before the fault were returned or used");
    let y = s.alloc::<u8>(4 * MIB)?;
    assert_eq!(held()?, 12 * MIB);
    drop((x, y));
    s.synchronize()?;
    device.trim_memory(Bytes(0))?;
    assert_eq!(held()?, 0);
    Ok(())
}
