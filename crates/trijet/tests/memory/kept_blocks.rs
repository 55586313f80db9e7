//! Blocks that a stream keeps for its next allocations when they are freed. The stream reuses them
//! in the order of their users. Other streams get them before the heap grows.

use crate::common::{checked, demand_clean};
use trijet::sim::{Executor, HostConfig, Order};
use trijet::{Buffer, Bytes, Device, ErrorKind, HeapMode, HeapStats, Result};

const BYTES: usize = 64 << 10;

fn device(order: Order) -> Result<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order));
    Ok(checked(config)?.remove(0))
}

fn orders() -> impl Iterator<Item = Order> {
    [Order::Greedy].into_iter().chain((0..40).map(Order::Seeded))
}

fn stats(device: &Device) -> HeapStats {
    device.heap_stats().expect("it has a heap")
}

/// Law M-B: the new owner follows the users of the memory, in whichever stream it is used first.
#[test]
fn the_first_write_on_another_stream_follows_the_users_of_kept_memory() -> Result<()> {
    for (at, order) in orders().enumerate() {
        let device = device(order)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let mut landed = device.pinned::<u8>(BYTES)?;
        let mut x = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut x, 1)?;
        a.copy(&x, &mut landed)?;
        let place = x.address();
        drop(x);
        let mut y = a.alloc::<u8>(BYTES)?;
        assert_eq!(y.address(), place);
        b.fill_bytes(&mut y, 2)?;
        assert!(landed.read()?.iter().all(|byte| *byte == 1), "order {at}");
        assert_eq!(b.download(&y)?, [2; BYTES], "order {at}");
        device.synchronize()?;
        demand_clean(&device);
    }
    Ok(())
}

/// The same rule, for memory that two streams used. The stream of the allocation does not follow
/// the second user.
#[test]
fn memory_that_another_stream_uses_is_not_taken_for_that_of_the_own_stream() -> Result<()> {
    for (at, order) in orders().enumerate() {
        let device = device(order)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let mut landed = device.pinned::<u8>(BYTES)?;
        let mut x = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut x, 1)?;
        b.copy(&x, &mut landed)?;
        drop(x);
        let before = stats(&device).own;
        let mut y = a.alloc::<u8>(BYTES)?;
        a.fill_bytes(&mut y, 2)?;
        assert_eq!(stats(&device).own, before, "order {at}");
        assert!(landed.read()?.iter().all(|byte| *byte == 1), "order {at}");
        device.synchronize()?;
        demand_clean(&device);
    }
    Ok(())
}

/// A new owner of a block inherits no property that the old owner gave the block: manual order,
/// parts, a name, a length.
#[test]
fn a_kept_block_is_like_a_new_one() -> Result<()> {
    for (at, order) in orders().enumerate() {
        let device = device(order)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let x = a.alloc::<u8>(BYTES)?.named("old");
        let place = x.address();
        let (mut left, mut right) = x.split(100);
        a.fill_bytes(&mut left, 1)?;
        a.fill_bytes(&mut right.slice_mut(7..), 1)?;
        drop((left, right));
        let mut y = a.alloc::<u8>(BYTES - 3)?;
        assert_eq!((y.address(), y.len()), (place, BYTES - 3));
        // SAFETY: only `a` uses it.
        unsafe { y.order_manually() };
        a.fill_bytes(&mut y, 2)?;
        // A wait for the users of `x` would also cover the next fill.
        a.synchronize()?;
        drop(y);
        let mut z = a.alloc::<u8>(BYTES)?;
        assert_eq!((z.address(), z.len()), (place, BYTES));
        a.fill_bytes(&mut z, 3)?;
        // If the block still had manual order, this download would not wait for `a`.
        assert_eq!(b.download(&z)?, [3; BYTES], "order {at}");
        device.synchronize()?;
        demand_clean(&device);
    }
    Ok(())
}

#[test]
fn an_allocation_gets_what_its_stream_keeps_if_it_is_hardly_larger() -> Result<()> {
    let device = device(Order::Greedy)?;
    let s = device.stream()?;
    let place = s.alloc::<u8>(64 << 10)?.address();
    // A kept block may be larger than the request by a thirty-second part of the request. A block
    // of 64 KiB fits a request of 63 KiB, and none of 60 KiB.
    for (bytes, is_kept) in [(63 << 10, true), (60 << 10, false), (64 << 10, true)] {
        let x = s.alloc::<u8>(bytes)?;
        let y = s.alloc::<u8>(64 << 10)?;
        assert_eq!(x.address() == place, is_kept, "{bytes}");
        drop((x, y));
        device.trim_memory(Bytes(u64::MAX))?;
        let again = s.alloc::<u8>(64 << 10)?;
        assert_eq!(again.address(), place, "{bytes}: the heap has it again");
    }
    Ok(())
}

/// While memory is free, the heap takes no more from the device, no matter which stream keeps the
/// free memory and in which pieces.
#[test]
fn memory_that_streams_keep_goes_to_others_before_the_heap_grows() -> Result<()> {
    let config = HostConfig::new().memory(Bytes(1 << 20));
    let device = checked(config)?.remove(0);
    let streams = [device.stream()?, device.stream()?, device.stream()?];
    for round in 0..3 {
        let mut all = Vec::new();
        for stream in &streams[..2] {
            for _ in 0..8 {
                all.push(stream.alloc::<u8>(64 << 10)?);
            }
        }
        let grown = stats(&device).new;
        drop(all);
        let whole = streams[2].alloc::<u8>(1 << 20)?;
        assert_eq!(stats(&device).new, grown, "round {round}");
        let error = streams[0].alloc::<u8>(1).expect_err("all is allocated");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        drop(whole);
    }
    device.synchronize()?;
    demand_clean(&device);
    Ok(())
}

#[test]
fn statistics_and_trims_count_what_streams_keep_as_free() -> Result<()> {
    let device = device(Order::Greedy)?;
    let s = device.stream()?;
    let buffers: Vec<Buffer<u8>> = (0..50).map(|_| s.alloc(BYTES)).collect::<Result<_>>()?;
    drop(buffers);
    assert_eq!(device.memory_stats()?.used, Bytes(0));
    let x = s.alloc::<u8>(BYTES)?;
    drop(s.alloc::<u8>(2 * BYTES)?);
    assert_eq!(device.memory_stats()?.used, Bytes(BYTES as u64));
    assert_eq!(stats(&device).free.0 + BYTES as u64, device.memory_stats()?.reserved.0);
    drop(x);
    device.trim_memory(Bytes(0))?;
    assert_eq!(device.memory_stats()?.reserved, Bytes(0));
    Ok(())
}

/// In the other modes, memory is joined with its neighbours at once, or its addresses depend only
/// on the calls.
#[test]
fn streams_keep_blocks_in_the_mode_for_speed_only() -> Result<()> {
    for mode in [HeapMode::Footprint, HeapMode::Deterministic, HeapMode::NeverWait] {
        let device = device(Order::Greedy)?;
        device.set_heap_mode(mode)?;
        let s = device.stream()?;
        let place = s.alloc::<u8>(BYTES)?.address();
        let half = s.alloc::<u8>(BYTES / 2)?;
        assert_eq!(half.address(), place, "{mode}: it is a part of the free memory");
    }
    Ok(())
}
