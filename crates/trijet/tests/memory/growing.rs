//! Growing buffers. They grow at the same address while operations use them. After a drop, the next
//! buffer gets their memory.

use crate::common::{self, demand_clean};
use trijet::memory::GrowingBuffer;
use trijet::sim::{Executor, Fault, FaultKind, HostConfig, Order, Verb};
use trijet::testing::Prng;
use trijet::{Bytes, Device, ErrorKind, PoolChoice, Result, Stream};

const PAGE: usize = 4096;

fn checked(order: Order, memory: usize) -> Result<Device> {
    let config = HostConfig::new().executor(Executor::Virtual(order)).memory(Bytes(memory as u64));
    Ok(common::checked(config)?.remove(0))
}

fn calls(device: &Device) -> u64 {
    device.heap_stats().expect("it has a heap").calls
}

/// A number below `count`.
fn index(draw: &mut Prng, count: usize) -> usize {
    usize::try_from(draw.below(count as u64)).expect("it is below a usize")
}

/// A buffer with `len` pieces. Each piece is written when it is appended.
fn sequence(s: &Stream, len: usize, value: u8) -> Result<GrowingBuffer<u8>> {
    let mut x = s.growing::<u8>(0, 64 * PAGE)?;
    for piece in 0..len {
        x.grow_to((piece + 1) * PAGE)?;
        s.fill_bytes(&mut x.slice_mut(piece * PAGE..), value)?;
    }
    Ok(x)
}

/// The operation cannot end before the call that grows the buffer has returned.
#[test]
fn a_buffer_grows_while_an_operation_uses_it() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    let mut x = sequence(&s, 1, 1)?;
    let address = x.address();
    let signal = device.signal();
    let waits = signal.clone();
    s.host_fn(move || waits.wait())?;
    s.fill_bytes(&mut x, 2)?;
    x.grow_to(64 * PAGE)?;
    s.fill_bytes(&mut x.slice_mut(63 * PAGE..), 3)?;
    signal.set();
    let mut landed = device.pinned::<u8>(64 * PAGE)?;
    s.copy(&x, &mut landed)?;
    let landed = landed.read()?;
    assert!(landed[..PAGE].iter().all(|byte| *byte == 2));
    assert!(landed[63 * PAGE..].iter().all(|byte| *byte == 3));
    assert_eq!(x.address(), address);
    Ok(())
}

/// Law A28: a host function must not call the driver, whether or not this growth would call it.
#[test]
fn a_growth_inside_a_host_function_is_refused() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    let mut x = sequence(&s, 1, 1)?;
    let (tell, told) = std::sync::mpsc::channel();
    s.host_fn(move || {
        let outcomes = [x.grow_to(PAGE), x.grow_to(64 * PAGE), x.prepare(64 * PAGE)];
        let kinds = outcomes.map(|outcome| outcome.map_err(|error| error.kind()));
        tell.send((kinds, x.len())).expect("the test waits");
    })?;
    s.synchronize()?;
    let (kinds, len) = told.recv().expect("it has run");
    assert_eq!(kinds, [Err(ErrorKind::InCallback); 3]);
    assert_eq!(len, PAGE);
    Ok(())
}

/// The first write of the next buffer follows the operations on the dropped buffer.
#[test]
fn the_memory_of_a_dropped_buffer_serves_the_next_one_in_order() -> Result<()> {
    for order in [Order::Greedy].into_iter().chain((0..60).map(Order::Seeded)) {
        let device = checked(order.clone(), 64 * PAGE)?;
        let (a, b) = (device.stream()?, device.stream()?);
        let mut landed = [device.pinned::<u8>(6 * PAGE)?, device.pinned::<u8>(6 * PAGE)?];
        let [first, second] = &mut landed;
        let x = sequence(&a, 6, 1)?;
        let address = x.address();
        a.copy(&x, first)?;
        drop(x);
        let before = calls(&device);
        let y = sequence(&b, 6, 2)?;
        assert_eq!((y.address(), calls(&device)), (address, before), "its memory is used again");
        b.copy(&y, second)?;
        assert!(first.read()?.iter().all(|byte| *byte == 1), "{order:?}");
        assert!(second.read()?.iter().all(|byte| *byte == 2), "{order:?}");
        demand_clean(&device);
    }
    Ok(())
}

/// An operation used the bytes at the end of a parked range. The new buffer reaches these bytes
/// only when it grows. It then follows that operation.
#[test]
fn bytes_that_are_reached_later_follow_their_earlier_users_too() -> Result<()> {
    for seed in 0..60 {
        let device = checked(Order::Seeded(seed), 64 * PAGE)?;
        let (a, b, c) = (device.stream()?, device.stream()?, device.stream()?);
        let mut landed = device.pinned::<u8>(PAGE)?;
        let x = sequence(&a, 8, 1)?;
        a.copy(&x.slice(7 * PAGE..), &mut landed)?;
        drop(x);
        let mut y = b.growing::<u8>(0, 64 * PAGE)?;
        y.grow_to(PAGE)?;
        b.fill_bytes(&mut y.slice_mut(..100), 2)?;
        y.grow_to(8 * PAGE)?;
        c.fill_bytes(&mut y.slice_mut(7 * PAGE..), 3)?;
        assert!(landed.read()?.iter().all(|byte| *byte == 1), "seed {seed}");
        c.copy(&y.slice(7 * PAGE..), &mut landed)?;
        assert!(landed.read()?.iter().all(|byte| *byte == 3), "seed {seed}");
        demand_clean(&device);
    }
    Ok(())
}

/// One stream appends a token, while another stream reads all tokens before it. The append waits
/// for nothing, in new memory and in memory that was used before.
#[test]
fn a_write_of_new_elements_waits_for_no_reader_of_the_old_ones() -> Result<()> {
    let device = checked(Order::Greedy, 1 << 22)?;
    let (reads, appends) = (device.stream()?, device.stream()?);
    for round in 0..2 {
        let mut x = sequence(&appends, 1, 1)?;
        let mut landed = device.pinned::<u8>(64 * PAGE)?;
        for len in 1..64 {
            reads.copy(&x, &mut landed.slice_mut(..len * PAGE))?;
            x.grow_to((len + 1) * PAGE)?;
            let before = device.ordering();
            appends.fill_bytes(&mut x.slice_mut(len * PAGE..), 2)?;
            assert_eq!(device.ordering(), before, "round {round}, {len} pieces");
        }
        device.synchronize()?;
    }
    demand_clean(&device);
    Ok(())
}

/// Sequences of random lengths come and go. When the number of live sequences has reached its
/// maximum, nothing more is mapped.
#[test]
fn sequences_that_come_and_go_make_no_call_of_the_driver() -> Result<()> {
    let device = checked(Order::Greedy, 1 << 30)?;
    let streams = [device.stream()?, device.stream()?];
    let mut draw = Prng::new(11);
    let mut live: Vec<GrowingBuffer<u8>> = Vec::new();
    for slot in 0..8 {
        live.push(sequence(&streams[slot % 2], 64, 1)?);
    }
    let before = calls(&device);
    for step in 0..400usize {
        let s = &streams[step % 2];
        let at = index(&mut draw, live.len());
        if draw.below(8) == 0 {
            drop(live.swap_remove(at));
            live.push(s.growing(0, 64 * PAGE)?);
            continue;
        }
        let len = live[at].len();
        if len < 64 * PAGE {
            live[at].grow_to(len + PAGE)?;
            s.fill_bytes(&mut live[at].slice_mut(len..), 2)?;
        }
    }
    assert_eq!(calls(&device), before);
    drop(live);
    device.synchronize()?;
    demand_clean(&device);
    let stats = device.heap_stats().expect("it has a heap");
    assert_eq!(stats.parked, Bytes(8 * 64 * PAGE as u64));
    assert_eq!(device.memory_stats()?.used, Bytes(0));
    device.trim_memory(Bytes(0))?;
    assert_eq!(device.memory_stats()?.reserved, Bytes(0), "parked memory is returned");
    Ok(())
}

/// Three streams append, write parts and the whole, and copy. Each copy has the bytes of the calls
/// before it.
#[test]
fn random_uses_of_growing_buffers_have_the_values_of_their_order() -> Result<()> {
    for seed in 0..60 {
        let device = checked(Order::Seeded(seed), 1 << 22)?;
        let streams = [device.stream()?, device.stream()?, device.stream()?];
        let mut draw = Prng::new(seed);
        let mut live: Vec<(GrowingBuffer<u8>, Vec<u8>)> = Vec::new();
        let mut landed = Vec::new();
        for step in 0..120u8 {
            let s = &streams[index(&mut draw, 3)];
            if live.is_empty() || draw.below(12) == 0 && live.len() < 3 {
                live.push((s.growing(0, 16 * PAGE)?, Vec::new()));
            }
            let at = index(&mut draw, live.len());
            let (x, model) = &mut live[at];
            match draw.below(10) {
                0 => drop(live.swap_remove(at)),
                1 => {
                    let len = index(&mut draw, model.len() + 1);
                    x.truncate(len);
                    model.truncate(len);
                }
                2..=5 => {
                    let (old, more) = (model.len(), 1 + index(&mut draw, PAGE));
                    let len = (old + more).min(x.len_max());
                    x.grow_to(len)?;
                    s.fill_bytes(&mut x.slice_mut(old..), step)?;
                    model.resize(len, step);
                }
                6 => {
                    s.fill_bytes(x, step)?;
                    model.fill(step);
                }
                7 => {
                    let from = index(&mut draw, model.len() + 1);
                    s.fill_bytes(&mut x.slice_mut(from..), step)?;
                    model[from..].fill(step);
                }
                _ if model.is_empty() => {}
                _ => {
                    let from = index(&mut draw, model.len());
                    let mut host = device.pinned::<u8>(model.len() - from)?;
                    s.copy(&x.slice(from..), &mut host)?;
                    landed.push((host, model[from..].to_vec()));
                }
            }
        }
        for (host, expected) in &landed {
            assert!(*host.read()? == expected[..], "seed {seed}");
        }
        demand_clean(&device);
    }
    Ok(())
}

#[test]
fn a_growth_beyond_the_reservation_and_other_bad_sizes_are_refused_by_name() -> Result<()> {
    let device = checked(Order::Greedy, 1 << 20)?;
    let s = device.stream()?;
    let mut x = s.growing::<u32>(0, 100)?;
    x.grow_to(60)?;
    s.fill(&mut x, 7)?;
    for len in [59, 101, usize::MAX] {
        let error = x.grow_to(len).expect_err("it is out of range");
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        let text = error.to_string();
        assert!(
            text.contains(&format!(
                "{len} elements asked for; the buffer has 60 and may have up to 100"
            )),
            "{text}"
        );
    }
    assert_eq!(x.prepare(101).expect_err("it is out of range").kind(), ErrorKind::InvalidValue);
    assert_eq!((x.len(), x.len_max(), x.is_empty()), (60, 100, false));
    let mut landed = device.pinned::<u32>(60)?;
    s.copy(&x, &mut landed)?;
    assert_eq!(*landed.read()?, [7; 60]);
    for len in [usize::MAX / 4, usize::MAX] {
        let kind = s.growing::<u32>(0, len).expect_err("it overflows").kind();
        assert_eq!(kind, ErrorKind::InvalidValue, "{len}");
    }
    let kind = s.growing::<u8>(0, 1 << 62).expect_err("there are not so many addresses").kind();
    assert_eq!(kind, ErrorKind::OutOfMemory);
    let none = s.growing::<u8>(0, 0)?;
    assert!(none.is_empty());
    Ok(())
}

#[test]
fn a_device_with_a_pool_has_no_growing_buffers() -> Result<()> {
    let device = Device::builder().host(HostConfig::default()).pool(PoolChoice::Own).open()?;
    let error = device.stream()?.growing::<u8>(0, 64).expect_err("it has no heap");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    Ok(())
}

/// A buffer that cannot grow keeps its elements. Unused memory is released for the growth of a
/// buffer and for other memory.
#[test]
fn memory_that_nothing_uses_makes_room_for_growth_and_growth_for_it() -> Result<()> {
    let device = checked(Order::Greedy, 64 * PAGE)?;
    let s = device.stream()?;
    let block = s.alloc::<u8>(32 * PAGE)?;
    let mut x = sequence(&s, 32, 1)?;
    let error = x.grow_to(33 * PAGE).expect_err("the device is full");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(x.len(), 32 * PAGE);
    drop(block);
    x.grow_to(64 * PAGE)?;
    s.fill_bytes(&mut x.slice_mut(32 * PAGE..), 2)?;
    let mut landed = device.pinned::<u8>(64 * PAGE)?;
    s.copy(&x, &mut landed)?;
    assert_eq!(landed.read()?[32 * PAGE - 1..=32 * PAGE], [1, 2]);
    drop(x);
    let mut block = s.alloc::<u8>(48 * PAGE)?;
    s.fill_bytes(&mut block, 3)?;
    s.synchronize()?;
    demand_clean(&device);
    Ok(())
}

/// The driver refuses the memory of the first growth. The library tries two sizes, and both are
/// refused.
#[test]
fn a_refused_growth_changes_nothing() -> Result<()> {
    let refused = |nth| Fault { verb: Verb::RangeMap, nth, kind: FaultKind::Refused };
    let config = HostConfig::new()
        .executor(Executor::Virtual(Order::Greedy))
        .faults(vec![refused(1), refused(2)]);
    let device = Device::host(config)?.remove(0);
    let s = device.stream()?;
    let mut x = s.growing::<u8>(0, 64 * PAGE)?;
    assert_eq!(x.grow_to(PAGE).expect_err("it is refused").kind(), ErrorKind::OutOfMemory);
    assert_eq!((x.len(), x.mapped(), device.memory_stats()?.reserved), (0, Bytes(0), Bytes(0)));
    x.grow_to(PAGE)?;
    s.fill_bytes(&mut x, 1)?;
    s.synchronize()
}

/// The buffer grows with a thread that maps memory ahead, and with real threads.
#[test]
fn a_buffer_grows_beside_the_thread_that_maps_ahead() -> Result<()> {
    let device = Device::host(HostConfig::default())?.remove(0);
    let s = device.stream()?;
    for round in 0..20u8 {
        let mut all = (0..4).map(|_| s.growing::<u8>(0, 1 << 20)).collect::<Result<Vec<_>>>()?;
        for piece in 0..256 {
            for x in &mut all {
                x.grow_to((piece + 1) * PAGE)?;
                s.fill_bytes(&mut x.slice_mut(piece * PAGE..), round)?;
            }
        }
        let mut landed = device.pinned::<u8>(1 << 20)?;
        for x in &all {
            s.copy(x, &mut landed)?;
            assert!(landed.read()?.iter().all(|byte| *byte == round));
        }
        if round % 4 == 0 {
            drop(all);
            device.trim_memory(Bytes(0))?;
        }
    }
    device.close()
}
